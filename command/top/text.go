package top

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/seqd/seqd/command/clitool"
)

// lines returns the page as text.
func (p *page) lines() []string {
	lines := []string{p.head(), ""}
	lines = append(lines, p.nodeTable()...)
	for _, n := range p.Nodes {
		if n.Detail != "" {
			lines = append(lines, n.Addr+": "+strings.Join(strings.Fields(n.Detail), " "))
		}
	}
	lines = append(append(lines, ""), p.bizTypeTable()...)
	if p.LeftOut > 0 {
		lines = append(lines, fmt.Sprintf("… and %d more", p.LeftOut))
	}
	return lines
}

// linesBesides returns how many lines the page has besides those of biz types.
func (p *page) linesBesides() int {
	without := *p
	without.BizTypes = nil
	return len(without.lines()) + 1 // how many are left out
}

// head is the first line: sums over all nodes.
func (p *page) head() string {
	var numbers, refused float64
	known := false
	for _, n := range p.Nodes {
		if n.Numbers != nil {
			known = true
			numbers += *n.Numbers
			refused += *n.Refused
		}
	}
	text := plural(len(p.Nodes), "node")
	if !p.Complete {
		text += " (there may be more: the store is away)"
	}
	if known {
		text += fmt.Sprintf(", %s numbers/s, %s refused/s", rate(&numbers), rate(&refused))
	}
	return fmt.Sprintf("seqd top  %s  %s", p.At.Format(time.TimeOnly), text)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (p *page) nodeTable() []string {
	rows := [][]string{{"NODE", "STATE", "NUMBERS/S", "REQ/S", "REFUSED/S", "P50", "P99", "BACK ENDS", "UP", "IN FLIGHT", "CONNS", "VERSION"}}
	for _, n := range p.Nodes {
		rows = append(rows, []string{
			strings.TrimPrefix(strings.TrimPrefix(n.Addr, "https://"), "http://"), n.State, rate(n.Numbers), rate(n.Requests), rate(n.Refused),
			span(n.P50MS), span(n.P99MS), backends(n.Backends), span(n.UpMS), rate(n.InFlight), rate(n.Connections), cmp.Or(n.Build, "-"),
		})
	}
	return table(rows)
}

// whole returns a number with all its digits.
func whole(v *float64) string {
	if v == nil {
		return "-"
	}
	return strconv.FormatFloat(*v, 'f', 0, 64)
}

// backends returns the states of back ends.
func backends(states map[string]string) string {
	var list []string
	for name, state := range states {
		list = append(list, name+" "+state)
	}
	slices.Sort(list)
	return cmp.Or(strings.Join(list, ", "), "-")
}

func (p *page) bizTypeTable() []string {
	rows := [][]string{{"BIZ TYPE", "NUMBERS/S", "REFUSED/S", "HIGHEST", "STEP", "LASTS", "LEFT", "TROUBLE"}}
	for _, b := range p.BizTypes {
		name := b.BizType
		if name == otherBizTypes {
			name = "(others)"
		}
		rows = append(rows, []string{name, rate(&b.Numbers), rate(&b.Refused), whole(b.Highest), rate(b.Step), span(b.LastsMS), span(b.LeftMS), b.troubles()})
	}
	return table(rows)
}

// troubles returns what is wrong with a biz type: its state, and why requests are refused.
func (b *bizTypeLine) troubles() string {
	var list []string
	for reason := range b.Reasons {
		if reason != b.Trouble {
			list = append(list, reason)
		}
	}
	slices.Sort(list)
	if b.Trouble != "" {
		list = append([]string{b.Trouble}, list...)
	}
	return strings.Join(list, ", ")
}

// table aligns columns.
func table(rows [][]string) []string {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, clitool.Row(row))
	}
	_ = w.Flush() // a buffer takes everything
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
}

// rate returns a number with three digits or more, and commas between thousands.
func rate(v *float64) string {
	switch {
	case v == nil:
		return "-"
	case *v != 0 && *v < 9.95 && *v != math.Trunc(*v):
		return strconv.FormatFloat(*v, 'f', 1, 64)
	}
	text := strconv.FormatFloat(*v, 'f', 0, 64)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// span returns milliseconds in the unit that suits them.
func span(v *float64) string {
	if v == nil {
		return "-"
	}
	s := *v / 1000
	switch {
	case s >= 2*365*86400:
		return unit(s/(365*86400), "y")
	case s >= 2*86400:
		return unit(s/86400, "d")
	case s >= 2*3600:
		return unit(s/3600, "h")
	case s >= 120:
		return unit(s/60, "min")
	case s >= 1 || s <= 0:
		return unit(s, "s")
	case s >= 1e-3:
		return unit(s*1e3, "ms")
	}
	return unit(s*1e6, "µs")
}

func unit(v float64, name string) string { return rate(&v) + " " + name }
