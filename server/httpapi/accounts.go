package httpapi

import (
	"net/http"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/literal"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/gate"
)

// accounts serves what became of the numbers of a biz type: its account, its voids and its keys.
type accounts struct{ gate *gate.Gate }

// shownAccount is a page of an account. Numbers are text, as IDs are.
type shownAccount struct {
	BizType string     `json:"bizType"`
	Key     string     `json:"key,omitempty"`
	Period  string     `json:"period,omitempty"`
	First   int64      `json:"first,string"`
	Last    int64      `json:"last,string"`
	Issued  int64      `json:"issued"`
	Gaps    []shownGap `json:"gaps"`
	Next    int64      `json:"next,string,omitempty"`
}

type shownGap struct {
	From        int64  `json:"from,string"`
	To          int64  `json:"to,string"`
	FromID      string `json:"fromId,omitempty"`
	ToID        string `json:"toId,omitempty"`
	State       string `json:"state"`
	At          string `json:"at,omitempty"`
	Reason      string `json:"reason,omitempty"`
	Caller      string `json:"caller,omitempty"`
	Reservation string `json:"reservation,omitempty"`
	ExpiresAt   string `json:"expiresAt,omitempty"`
}

func showGap(g seqd.NumberGap) shownGap {
	return shownGap{
		From: g.From, To: g.To, FromID: g.FromID, ToID: g.ToID, State: g.State, At: shownTime(g.At), Reason: g.Reason, Caller: g.By,
		Reservation: g.Reservation, ExpiresAt: shownTime(g.ExpiresAt),
	}
}

// shownTime returns a time in UTC, "" for the zero time.
func shownTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(admin.TimeFormat)
}

// gaps answers GET /biz-types/{bizType}/gaps.
func (a accounts) gaps(c *gin.Context) error {
	issuer, err := a.gate.Issuer()
	if err != nil {
		return err
	}
	bizType := c.Param("bizType")
	q, whole, err := readAccountQuery(c.Request.URL.RawQuery)
	if err != nil {
		return err
	}
	c.Writer.Header()["Cache-Control"] = noStore
	if Prefers(c.Request.Header["Accept"], "text/csv") {
		return writeAccountCSV(c, issuer, bizType, q, whole)
	}
	account, err := issuer.Account(c.Request.Context(), bizType, q)
	if err != nil {
		return err
	}
	shown := shownAccount{
		BizType: bizType, Key: q.Key, Period: account.Period.String(), First: account.First, Last: account.Last,
		Issued: account.Issued, Gaps: make([]shownGap, 0, len(account.Gaps)), Next: account.Next,
	}
	for _, g := range account.Gaps {
		shown.Gaps = append(shown.Gaps, showGap(g))
	}
	writeJSON(c, http.StatusOK, jsonType, shown)
	return nil
}

// readAccountQuery reads ?key=, ?period=, ?after= and ?limit=. whole is true without a limit.
func readAccountQuery(query string) (q seqd.AccountQuery, whole bool, err error) {
	values, err := readQuery(query, "key", "period", "after", "limit")
	if err != nil {
		return q, false, err
	}
	if q.Key, q.Period, err = counterIn(values); err != nil {
		return q, false, err
	}
	if after, there := values["after"]; there {
		n, ok := literal.Int(after)
		if q.After = n; !ok || n < 0 {
			return q, false, seqd.Errorf(seqd.CodeInvalidRequest, "after is %.40q and must be a number, such as next of the previous page", after)
		}
	}
	_, limited := values["limit"]
	q.Limit, err = limitIn(values)
	return q, !limited, err
}

// counterIn reads the parameters that name a counter of a biz type.
func counterIn(values map[string]string) (key string, period seqd.Period, err error) {
	key, there := values["key"]
	if there {
		if err := seqd.CheckKey(key); err != nil {
			return "", 0, err
		}
	}
	if text, there := values["period"]; there {
		period, err = readPeriod(text)
	}
	return key, period, err
}

// readPeriod reads a period as answers show it.
func readPeriod(text string) (seqd.Period, error) {
	resets := map[int]seqd.Reset{len("2006"): seqd.ResetYearly, len("2006-01"): seqd.ResetMonthly, len(time.DateOnly): seqd.ResetDaily}
	if reset, known := resets[len(text)]; known {
		day, err := time.Parse(time.DateOnly[:len(text)], text)
		if period := reset.Of(day); err == nil && period.Check() == nil {
			return period, nil
		}
	}
	return 0, seqd.Errorf(seqd.CodeInvalidRequest, "period is %.40q and must be a year, month or day from %d to %d, such as 2026, 2026-11 or 2026-11-20",
		text, seqd.FirstYear, seqd.LastYear)
}

// void answers POST /biz-types/{bizType}/voids.
func (a accounts) void(c *gin.Context) error {
	c.Writer.Header()["Cache-Control"] = noStore
	issuer, err := a.gate.Issuer()
	if err != nil {
		return err
	}
	id, v, err := readVoid(c)
	if err != nil {
		return err
	}
	if err := issuer.Void(c.Request.Context(), c.Param("bizType"), id, v); err != nil {
		return err
	}
	c.Writer.WriteHeader(http.StatusNoContent)
	return nil
}

// readVoid reads {"id":"…","reason":"…"}, and ?key= and ?period=, which are for IDs that do not show
// them.
func readVoid(c *gin.Context) (id string, v seqd.Voiding, err error) {
	values, err := readQuery(c.Request.URL.RawQuery, "key", "period")
	if err != nil {
		return "", v, err
	}
	if v.Key, v.Period, err = counterIn(values); err != nil {
		return "", v, err
	}
	o, err := readObject(body(c), "id", "reason")
	if err != nil {
		return "", v, err
	}
	if err := o.take("id", "text", &id); err != nil {
		return "", v, err
	}
	if err := o.take("reason", "text", &v.Reason); err != nil {
		return "", v, err
	}
	v.Caller.Name, v.Caller.RequestID = callerName(c), requestID(c)
	if id == "" {
		return "", v, invalidBody("id: it is missing; it is the ID to make void, as it was issued")
	}
	return id, v, checkReason(v.Reason)
}

// longestReason is how many characters a reason may have.
const longestReason = 200

// checkReason returns an error unless a reason is a line of text.
func checkReason(reason string) error {
	n := utf8.RuneCountInString(reason)
	if n < 1 || n > longestReason {
		return invalidBody("reason: it has %d characters and must have 1 to %d", n, longestReason)
	}
	for _, r := range reason {
		if unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp) {
			return invalidBody("reason: it has the control character %U", r)
		}
	}
	return nil
}

// keys answers GET /biz-types/{bizType}/keys.
func (a accounts) keys(c *gin.Context) error {
	issuer, err := a.gate.Issuer()
	if err != nil {
		return err
	}
	after, limit, err := readPage(c.Request.URL.RawQuery)
	if err != nil {
		return err
	}
	bizType := c.Param("bizType")
	list, err := issuer.Keys(c.Request.Context(), bizType, after, limit+1) // one more tells whether there is a next page
	if err != nil {
		return err
	}
	answer := struct {
		BizType string   `json:"bizType"`
		Keys    []string `json:"keys"`
		Next    string   `json:"next,omitempty"`
	}{BizType: bizType, Keys: append([]string{}, list...)}
	if len(list) > limit {
		answer.Keys, answer.Next = answer.Keys[:limit], list[limit-1]
	}
	c.Writer.Header()["Cache-Control"] = noStore
	writeJSON(c, http.StatusOK, jsonType, answer)
	return nil
}
