package httpapi

import (
	"bytes"
	"encoding/csv"
	"fmt"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/sheet"
	"github.com/seqd/seqd/issuer"
)

// csvType is the type of an account as CSV. Do not modify it.
var csvType = []string{"text/csv; charset=utf-8; header=present"}

// issuedState is the state of numbers that are in no gap.
const issuedState = "issued"

var csvHeader = []string{"from", "to", "fromId", "toId", "state", "at", "reason", "caller", "reservation", "expiresAt"}

// writeAccountCSV answers with an account as CSV (RFC 4180): a header, and a row for each run of
// numbers, issued ones too, so that each number is in exactly one row. If whole is set, it reads
// all pages, and otherwise one. Each row is as of the moment when its page was read.
func writeAccountCSV(c *gin.Context, issuer *issuer.Issuer, bizType string, q seqd.AccountQuery, whole bool) error {
	if whole {
		q.Limit = largestPage
	}
	page, err := issuer.Account(c.Request.Context(), bizType, q)
	if err != nil {
		return err
	}
	header := c.Writer.Header()
	header["Content-Type"] = csvType
	header["Content-Disposition"] = []string{`attachment; filename="` + fileName(bizType, q.Key, page.Period) + `"`}
	var rows accountRows
	rows.buf.WriteString(sheet.Mark)
	rows.write(csvHeader)
	for {
		rows.add(q.After, &page)
		if gone := rows.send(c) != nil; gone || !whole || page.Next == 0 {
			return nil
		}
		q.After, q.Period = page.Next, page.Period // the present period may end meanwhile
		if page, err = issuer.Account(c.Request.Context(), bizType, q); err == nil && page.Next != 0 && page.Next <= q.After {
			err = fmt.Errorf("the page of the account of %s after %d continues after %d", bizType, q.After, page.Next)
		}
		if err != nil {
			return err
		}
	}
}

func fileName(bizType, key string, period seqd.Period) string {
	name := bizType
	for _, part := range []string{key, period.String()} {
		if part != "" {
			name += "-" + part
		}
	}
	return name + ".csv"
}

// accountRows makes the rows of an account.
type accountRows struct{ buf bytes.Buffer }

// add adds the rows of the page that begins after a number.
func (r *accountRows) add(after int64, page *seqd.Account) {
	next := max(after+1, page.First)
	for _, g := range page.Gaps {
		r.issued(next, g.From-1)
		r.write([]string{
			sheet.Number(g.From), sheet.Number(g.To), sheet.ID(g.FromID), sheet.ID(g.ToID), g.State, shownTime(g.At),
			sheet.Text(g.Reason), sheet.Text(g.By), g.Reservation, shownTime(g.ExpiresAt),
		})
		next = g.To + 1
	}
	last := page.Next
	if last == 0 {
		last = page.Last
	}
	r.issued(next, last)
}

// issued adds a row of issued numbers, if there are any.
func (r *accountRows) issued(from, to int64) {
	if from <= to {
		r.write([]string{sheet.Number(from), sheet.Number(to), "", "", issuedState, "", "", "", "", ""})
	}
}

func (r *accountRows) write(row []string) {
	w := csv.NewWriter(&r.buf)
	w.UseCRLF = true
	_ = w.Write(row) // a buffer takes everything
	w.Flush()
}

// send sends the rows that were added. The caller has the write timeout of the server for them.
func (r *accountRows) send(c *gin.Context) error {
	settle(c, r.buf.Bytes())
	restartWriteTimeout(c)
	_, err := r.buf.WriteTo(c.Writer)
	return err
}
