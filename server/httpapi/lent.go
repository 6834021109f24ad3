package httpapi

import (
	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd/internal/literal"
	"github.com/seqd/seqd/server/gate"
)

// loanKey is the key under which [write] finds the loan of a request.
const loanKey = "loan"

// lent wraps the handler of a route whose answers can be large. Such a route issues no numbers, so
// it need not be fast.
func lent(room *gate.Room, noRoom *busyReply, errs *errorWriter, handler gin.HandlerFunc) gin.HandlerFunc {
	return func(c *gin.Context) {
		l, ok := room.Borrow(c.Request.URL.Path, itemsOf(c), gate.Items)
		if !ok {
			errs.refuse(c, noRoom)
			return
		}
		defer l.End()
		c.Set(loanKey, &l)
		handler(c)
	}
}

// itemsOf returns how many items an answer can have at once: the limit, or the default page.
func itemsOf(c *gin.Context) int {
	limit, ok := literal.Int(c.Query("limit"))
	switch {
	case downloads(c):
		return largestPage
	case !ok || limit < 1:
		return usualPage
	}
	return int(min(limit, largestPage))
}

// settle settles the loan of a request, if it has one.
func settle(c *gin.Context, body []byte) {
	if len(c.Keys) == 0 { // a request for numbers has none
		return
	}
	if l, lent := c.Get(loanKey); lent {
		l.(*gate.Loan).Settle(len(body), cap(body))
	}
}
