// Package docstest checks that every reference in code and documents has a target.
package docstest

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// checker has all targets of references.
type checker struct {
	files map[string]string // text by path
	// paths has all files and folders, including those that are not read.
	paths      map[string]bool
	names      map[string]bool            // base names of all files
	tests      map[string]bool            // names of test functions
	rules      map[string]bool            // names of rules of the machine
	anchors    map[string]map[string]bool // by document
	sections   map[string]bool            // of DESIGN.md and its pages, such as 3 and 3.1
	invariants map[string]bool            // that DESIGN.md and its pages define
	roots      string                     // folders of the root, for a regular expression
	problems   []string
}

// design is the map, and designPages has the pages of it.
const (
	design      = "docs/DESIGN.md"
	designPages = "docs/design/"
)

var (
	testFunc  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark|Example)\w*)\(`)
	heading   = regexp.MustCompile(`^#{1,6} +(.*?) *$`)
	section   = regexp.MustCompile(`(?m)^#{1,4} +(\d+(?:\.\d+)*)\.? `)
	invariant = regexp.MustCompile(`(?m)^\*\*([A-Z]\d+[a-z]?)\.\*\* `)

	inlineCode = regexp.MustCompile("`[^`\n]*`")
	link       = regexp.MustCompile(`\[[^\]\[]*\]\(([^()\s]+(?:\([^()]*\))?)\)`)
	// citation matches references to one or more sections of DESIGN.md: DESIGN §2, DESIGN §2 and
	// §4.
	citation  = regexp.MustCompile(`DESIGN(?:\.md)?(?: "[^"]*")?(?:[, ]*(?:and |or |to )?§ ?\d+(?:\.\d+)*)+`)
	paragraph = regexp.MustCompile(`§ ?(\d+(?:\.\d+)*)`)
	cited     = regexp.MustCompile(`\b(?:U|S|G|W)\d[a-z]?\b`)
	adrNumber = regexp.MustCompile(`\bADRs? (\d+)\b`)
	quotation = regexp.MustCompile(`\b([A-Z]{3,})(?:\.md)?,?(?: §[\d.]+)?:? "([^"]+)"`)
	ruleName  = regexp.MustCompile(`\bRule[A-Z]\w+`)
	testName  = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w*`)
	goFile    = regexp.MustCompile(`(?:^|[\s("])([a-z][a-z0-9_]*\.(?:go|lua))(?:[^.\w]|\.?(?:\s|$))`)
	// place matches a name and the file or folder that has it: `raise` in `server/ops/raise.go`.
	place  = regexp.MustCompile("`([\\w.]+)`,? \\(?(?:in|of) `([\\w./-]+)`")
	markup = regexp.MustCompile(`<[^>]*>`)
)

// newChecker reads the files of a repository.
func newChecker(repo fs.FS) (*checker, error) {
	c := &checker{
		files: make(map[string]string), paths: make(map[string]bool), names: make(map[string]bool), tests: make(map[string]bool),
		rules:   make(map[string]bool),
		anchors: make(map[string]map[string]bool), sections: make(map[string]bool), invariants: make(map[string]bool),
	}
	var roots []string
	err := fs.WalkDir(repo, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git" || d.Name() == "node_modules"):
			return fs.SkipDir
		case name == "data": // what a seqd that was run here keeps; documents name files in it
			return fs.SkipDir
		}
		c.paths[name] = true
		if d.IsDir() {
			if !strings.Contains(name, "/") && name != "." {
				roots = append(roots, regexp.QuoteMeta(name))
			}
			return nil
		}
		c.names[d.Name()] = true
		if readable(name) {
			text, err := fs.ReadFile(repo, name)
			c.files[name] = string(text)
			return err
		}
		return nil
	})
	slices.Sort(roots)
	c.roots = strings.Join(roots, "|")
	for name, text := range c.files {
		c.learn(name, text)
	}
	return c, err
}

// readable reports whether references are looked for in a file.
func readable(name string) bool {
	switch path.Ext(name) {
	case ".go", ".md", ".lua", ".yaml", ".yml", ".service":
		return true
	case "":
		return strings.HasPrefix(name, "scripts/") || strings.HasPrefix(name, ".ci/") || name == "Dockerfile"
	}
	return false
}

// learn adds the targets in a file.
func (c *checker) learn(name, text string) {
	switch path.Ext(name) {
	case ".go":
		for _, m := range testFunc.FindAllStringSubmatch(text, -1) {
			c.tests[m[1]] = true
		}
		for _, rule := range ruleName.FindAllString(text, -1) {
			c.rules[rule] = true
		}
	case ".md":
		c.anchors[name] = anchorsOf(text)
	}
	if name == design || strings.HasPrefix(name, designPages) {
		for _, m := range section.FindAllStringSubmatch(text, -1) {
			c.sections[m[1]] = true
		}
		for _, m := range invariant.FindAllStringSubmatch(text, -1) {
			c.invariants[m[1]] = true
		}
	}
}

// anchorsOf returns the anchors of the headings of a document, as GitHub makes them.
func anchorsOf(text string) map[string]bool {
	anchors := make(map[string]bool)
	for line := range strings.Lines(withoutBlocks(text)) {
		m := heading.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil {
			continue
		}
		slug := slugOf(m[1])
		for i := 1; anchors[slug]; i++ {
			slug = fmt.Sprintf("%s-%d", slugOf(m[1]), i)
		}
		anchors[slug] = true
	}
	return anchors
}

// slugOf returns the anchor of a heading.
func slugOf(title string) string {
	title = link.ReplaceAllStringFunc(title, func(l string) string { return l[1:strings.Index(l, "]")] })
	var b strings.Builder
	for _, r := range strings.ToLower(title) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r > 127 && r != '…' && r != '§' && r != '–' && r != '×' && r != '−':
			b.WriteRune(r)
		}
	}
	return b.String()
}

// withoutBlocks replaces fenced code with empty lines.
func withoutBlocks(text string) string {
	var b strings.Builder
	fenced := false
	for line := range strings.Lines(text) {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fence || fenced {
			line = "\n"
		}
		if fence {
			fenced = !fenced
		}
		b.WriteString(line)
	}
	return b.String()
}

// check returns every reference without a target, as "file: reference: why".
func (c *checker) check() []string {
	c.problems = nil
	for name, text := range c.files {
		if strings.HasPrefix(name, "internal/docstest/") {
			continue // its references have no targets on purpose
		}
		switch path.Ext(name) {
		case ".md":
			c.document(name, text)
		case ".go":
			c.prose(name, proseOfGo(text))
		default:
			c.prose(name, joined(text))
		}
	}
	slices.Sort(c.problems)
	return slices.Compact(c.problems)
}

func (c *checker) report(file, reference, format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf("%s: %s: %s", file, reference, fmt.Sprintf(format, args...)))
}

// document checks a Markdown document.
func (c *checker) document(name, text string) {
	if strings.HasPrefix(name, "internal/configdoc/") {
		return // parts of docs/CONFIGURATION.md, which is checked
	}
	text = withoutBlocks(text)
	c.prose(name, joined(link.ReplaceAllString(text, "link")))
	for _, m := range link.FindAllStringSubmatch(inlineCode.ReplaceAllString(text, "code"), -1) {
		c.link(name, m[1])
	}
	for _, m := range place.FindAllStringSubmatch(joined(text), -1) {
		if !c.has(m[2], m[1][strings.LastIndex(m[1], ".")+1:]) {
			c.report(name, m[1], "not in %s", m[2])
		}
	}
	at := regexp.MustCompile(`^(?:\./)?((?:` + c.roots + `)(?:/[\w.-]+)+)/?$`)
	for _, code := range inlineCode.FindAllString(text, -1) {
		for _, word := range strings.Fields(strings.Trim(code, "`")) {
			if m := at.FindStringSubmatch(word); m != nil && !c.paths[m[1]] {
				c.report(name, m[1], "no such file")
			}
		}
		for _, test := range testName.FindAllString(code, -1) {
			c.test(name, code, test)
		}
		for _, rule := range ruleName.FindAllString(code, -1) {
			if !c.rules[rule] {
				c.report(name, rule, "there is no such rule of the machine")
			}
		}
	}
}

// has reports whether a file has a name, or a folder with Go files a test. It knows both by the end
// of their path. It is true if there is no such file or folder.
func (c *checker) has(where, name string) bool {
	word := regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`)
	found := false
	for file, text := range c.files {
		in := strings.HasSuffix("/"+file, "/"+where) && path.Ext(file) == ".go" ||
			testFunc.MatchString("func "+name+"(") && strings.HasSuffix("/"+path.Dir(file), "/"+where)
		if in && word.MatchString(text) {
			return true
		}
		found = found || in
	}
	return !found
}

// test checks the name of a test. In a command it may be the common beginning of several names.
func (c *checker) test(name, code, test string) {
	known := c.tests[test]
	for t := range c.tests {
		known = known || strings.Contains(code, "-run") && strings.HasPrefix(t, test)
	}
	if !known {
		c.report(name, test, "no such test")
	}
}

// link checks the target of a link in a document.
func (c *checker) link(name, target string) {
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return
	}
	file, anchor, anchored := strings.Cut(target, "#")
	to := name
	if file != "" {
		to = path.Join(path.Dir(name), file)
	}
	switch {
	case !c.paths[to]:
		c.report(name, target, "no %s", to)
	case anchored && !c.anchors[to][anchor]:
		c.report(name, target, "%s has no such heading", to)
	}
}

// prose checks the kinds of references that occur in both comments and documents. The text has no
// line breaks.
func (c *checker) prose(name, text string) {
	for _, list := range citation.FindAllString(text, -1) {
		for _, m := range paragraph.FindAllStringSubmatch(list, -1) {
			if !c.sections[m[1]] {
				c.report(name, "DESIGN §"+m[1], "%s has no such section", design)
			}
		}
	}
	for _, id := range cited.FindAllString(text, -1) {
		if !c.invariants[id] {
			c.report(name, id, "%s defines no such invariant", design)
		}
	}
	for _, m := range adrNumber.FindAllStringSubmatch(text, -1) {
		if !c.adr(m[1]) {
			c.report(name, m[0], "no such record in docs/adr")
		}
	}
	for _, m := range quotation.FindAllStringSubmatch(text, -1) {
		c.quotation(name, m[1], m[2])
	}
	c.fileNames(name, text)
}

// adr reports whether there is a decision with this number.
func (c *checker) adr(number string) bool {
	for file := range c.paths {
		if rest, ok := strings.CutPrefix(file, "docs/adr/"); ok && strings.HasPrefix(rest, fmt.Sprintf("%04s-", number)) {
			return true
		}
	}
	return false
}

// quotation checks that a document contains a quotation, as in README "Two nodes".
func (c *checker) quotation(name, document, quoted string) {
	for _, at := range []string{document + ".md", "docs/" + document + ".md"} {
		text, known := c.files[at]
		if !known {
			continue
		}
		for page := range c.files {
			if at == design && strings.HasPrefix(page, designPages) {
				text += c.files[page]
			}
		}
		if !strings.Contains(plain(text), plain(quoted)) {
			c.report(name, at+" "+quoted, "the document does not contain this")
		}
		return
	}
}

// plain returns a text in lower case, without markup and line breaks.
func plain(text string) string {
	text = strings.NewReplacer("`", "", "*", "").Replace(markup.ReplaceAllString(text, ""))
	return strings.ToLower(strings.Join(strings.Fields(text), " "))
}

// fileNames checks the names of files.
func (c *checker) fileNames(name, text string) {
	under := regexp.MustCompile(`(?:^|[\s("'])((?:` + c.roots + `)/[\w./-]*\w\.(?:go|lua|md|yaml|json))\b`)
	for _, m := range under.FindAllStringSubmatch(text, -1) {
		if !c.paths[m[1]] && !c.paths[path.Join(path.Dir(name), m[1])] {
			c.report(name, m[1], "no such file")
		}
	}
	for _, m := range goFile.FindAllStringSubmatch(text, -1) {
		if !c.names[m[1]] {
			c.report(name, m[1], "no such file")
		}
	}
}

// joined returns the text of a file without line breaks and the marks of comments.
func joined(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimLeft(strings.TrimSpace(line), "#-/> "))
		b.WriteByte(' ')
	}
	return b.String()
}

// proseOfGo returns the comments and the strings of a Go file.
func proseOfGo(text string) string {
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(text))
	s.Init(file, []byte(text), nil, scanner.ScanComments)
	var b strings.Builder
	for {
		_, kind, literal := s.Scan()
		switch kind {
		case token.EOF:
			return b.String()
		case token.COMMENT:
			b.WriteString(joined(literal))
		case token.STRING:
			b.WriteString(strings.ReplaceAll(literal, `\"`, `"`) + " ")
		}
	}
}

// checkMap compares the map of the packages in DESIGN.md with the folders. The map must name every
// folder with product code, except in other modules, and no folder that does not exist.
func (c *checker) checkMap() (problems []string) {
	_, after, _ := strings.Cut(c.files[design], "## 9. Packages\n")
	_, block, _ := strings.Cut(after, "```\n")
	block, _, _ = strings.Cut(block, "```")
	listed := make(map[string]bool)
	for line := range strings.Lines(block) {
		if line[0] == ' ' || line == "\n" {
			continue
		}
		folder := strings.Fields(line)[0]
		listed[folder] = true
		if !c.paths[folder] {
			problems = append(problems, folder+": no such folder")
		}
	}
	for file := range c.files {
		folder := path.Dir(file)
		product := strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go")
		if product && !listed[folder] && !c.inOtherModule(folder) {
			problems = append(problems, folder+": it is not on the map")
		}
	}
	slices.Sort(problems)
	return slices.Compact(problems)
}

// inOtherModule reports whether a folder belongs to another module than the product.
func (c *checker) inOtherModule(folder string) bool {
	for ; folder != "."; folder = path.Dir(folder) {
		if c.paths[folder+"/go.mod"] {
			return true
		}
	}
	return false
}
