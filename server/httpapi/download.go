package httpapi

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/sheet"
)

// listDownload is a list that is asked for as a file: all of it, or one page if there is a limit.
type listDownload struct {
	name   string // of the file, without its end
	format string // csv or jsonl; "" if the list is no file
	limit  int    // of a page
	whole  bool
}

// downloads reports whether a list is asked for as a file, which may take as long as its caller likes.
func downloads(c *gin.Context) bool {
	return c.Query("format") != "" || Prefers(c.Request.Header["Accept"], "text/csv")
}

// readDownload reads ?format= and ?limit=.
func readDownload(values map[string]string, name string) (d listDownload, err error) {
	format, there := values["format"]
	if there && format != "csv" && format != "jsonl" {
		return d, seqd.Errorf(seqd.CodeInvalidRequest, "format is %.40q and must be csv or jsonl", format)
	}
	d = listDownload{name: name, format: format, limit: largestPage, whole: true}
	if _, limited := values["limit"]; limited {
		d.whole = false
		d.limit, err = limitIn(values)
	}
	return d, err
}

// write answers with the pages that page returns, from one on. It holds one page in memory.
func (d listDownload) write(c *gin.Context, after string, page func(after string, limit int) (any, error)) error {
	var buf bytes.Buffer
	for begun := false; ; begun = true {
		shown, err := page(after, d.limit)
		if err != nil {
			return err
		}
		table, ok := seqd.TableOf(shown)
		if !ok {
			return seqd.Errorf(seqd.CodeInvalidRequest, "this is no list that can be downloaded: leave format out")
		}
		if !begun {
			header := c.Writer.Header()
			header["Content-Type"] = resultTypes[d.format]
			header["Content-Disposition"] = []string{`attachment; filename="` + d.name + "." + d.format + `"`}
		}
		d.encode(&buf, table, !begun)
		settle(c, buf.Bytes())
		restartWriteTimeout(c)
		if _, gone := buf.WriteTo(c.Writer); gone != nil {
			return nil
		}
		c.Writer.Flush() // rows may be rare
		next := table.NextPage()
		if !d.whole || next == "" {
			return nil
		}
		if next == after {
			return fmt.Errorf("the list %s does not end: after %q comes %q", d.name, after, next)
		}
		after = next
	}
}

// encode adds the rows of a page. The first page has the titles before them.
func (d listDownload) encode(buf *bytes.Buffer, table seqd.Table, first bool) {
	lines := json.NewEncoder(buf)
	cells := csv.NewWriter(buf)
	cells.UseCRLF = true
	if d.format == "csv" && first {
		buf.WriteString(sheet.Mark)
		_ = cells.Write(table.Columns()) // a buffer takes everything
	}
	for item, row := range table.Rows {
		if d.format == "csv" {
			_ = cells.Write(row)
		} else if err := lines.Encode(item); err != nil {
			panic(err) // as in writeJSON
		}
	}
	cells.Flush()
}
