package imports

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// fragment writes the biz types and tokens as a part of a configuration.
func fragment(w io.Writer, source string, items []entry, tokens []token) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Made by seqd import %s. Biz types of the configuration are put into the store at the first start\n", source)
	b.WriteString("# of a node; what the store has already stays as it is.\nbizTypes:\n")
	for _, item := range items {
		if item.Result == unfit {
			fmt.Fprintf(&b, "  # %s is left out: %s\n", oneLine(item.From), oneLine(item.Detail))
			continue
		}
		fmt.Fprintf(&b, "  - {name: %q, strategy: segment, start: %d", item.Name, item.Start)
		if item.Step > 0 {
			fmt.Fprintf(&b, ", step: %d", item.Step)
		}
		if item.Increment > 0 {
			fmt.Fprintf(&b, ", increment: %d, offset: %d", item.Increment, item.Offset)
		}
		b.WriteString(", reset: never, keyed: false}\n")
	}
	if len(tokens) > 0 {
		b.WriteString("auth:\n  tokens:\n")
	}
	for _, t := range tokens {
		quoted := make([]string, len(t.Scopes))
		for i, scope := range t.Scopes {
			quoted[i] = strconv.Quote(scope)
		}
		fmt.Fprintf(&b, "    - {name: %q, sha256: %q, scopes: [%s]}\n", t.Name, t.Sha256, strings.Join(quoted, ", "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// oneLine makes a text of a table fit for a comment and a terminal.
func oneLine(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool {
		return r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == '\u2028' || r == '\u2029'
	}) {
		return strconv.Quote(text)
	}
	return text
}
