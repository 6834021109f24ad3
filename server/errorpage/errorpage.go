// Package errorpage has a page for each error code: what the code means, who can mend it, and how.
// The type of a problem document leads there.
package errorpage

import (
	"bytes"
	"fmt"
	"html/template"
	"strings"

	"github.com/seqd/seqd"
)

// Policy is the Content-Security-Policy of the HTML pages.
const Policy = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// Text returns the page of a code as plain text. Status is the status in full.
func Text(m seqd.Meaning, status string) []byte {
	return fmt.Appendf(nil, "%s (%s)\n\n%s.\nWho can mend it: %s.\nWhat to do: %s\n", m.Code, status, m.What, m.Who, m.Todo)
}

var page = template.Must(template.New("").Parse(strings.TrimSpace(`
<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{{.Code}} · seqd</title></head>
<body>
<h1>{{.What}}</h1>
<p>Code <code>{{.Code}}</code>, status {{.Status}}</p>
<h2>Who can mend it</h2>
<p>{{.Who}}.</p>
<h2>What to do</h2>
<p>{{.Todo}}</p>
</body>
</html>
`) + "\n"))

// HTML returns the page of a code as HTML.
func HTML(m seqd.Meaning, status string) ([]byte, error) {
	var b bytes.Buffer
	err := page.Execute(&b, struct {
		seqd.Meaning
		Status string
	}{m, status})
	return b.Bytes(), err
}
