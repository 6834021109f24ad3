package httpapi

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/server/gate"
)

// resources serves what there is to see of a biz type: its account, its keys, its counter, and what
// plugins offer, such as its history.
type resources struct {
	gate     *gate.Gate
	accounts accounts
}

// show answers GET /biz-types/{bizType}/{resource}. The account, the keys and the counter have no
// routes of their own, because gin names wrong methods in Allow if a path has both a route and a
// route with a parameter.
func (r resources) show(c *gin.Context) error {
	switch c.Param("resource") {
	case "gaps":
		return r.accounts.gaps(c)
	case "keys":
		return r.accounts.keys(c)
	case "counter":
		return administration{r.gate}.handler(showCounter)(c)
	}
	return r.plugins(c)
}

// eraseHistory answers DELETE /biz-types/{bizType}/history.
func (r resources) eraseHistory(c *gin.Context) error {
	issuer, err := r.gate.Issuer()
	if err != nil {
		return err
	}
	read, err := readQuery(c.Request.URL.RawQuery, "before", "caller", "after")
	if err != nil {
		return err
	}
	query := make(url.Values, len(read))
	for name, value := range read {
		query.Set(name, value)
	}
	erased, err := issuer.Erase(c.Request.Context(), c.Param("bizType"), "history", query)
	if err != nil {
		return err
	}
	c.Writer.Header()["Cache-Control"] = noStore
	writeJSON(c, http.StatusOK, jsonType, erased)
	return nil
}

// plugins answers with what a plugin offers.
func (r resources) plugins(c *gin.Context) error {
	issuer, err := r.gate.Issuer()
	if err != nil {
		return err
	}
	query, err := url.ParseQuery(c.Request.URL.RawQuery)
	if err != nil {
		return seqd.Errorf(seqd.CodeInvalidRequest, "the query cannot be read")
	}
	if id := query.Get("id"); c.Param("resource") == "history" && id != "" && !query.Has("number") {
		// One that cannot be read, because it was issued otherwise, is looked for as it is.
		if p, err := issuer.ParseOf(c.Request.Context(), c.Param("bizType"), id, query.Get("key")); err == nil {
			query.Set("number", strconv.FormatInt(p.Number, 10))
			if p.Key != "" {
				query.Set("key", p.Key)
			}
		}
	}
	c.Writer.Header()["Cache-Control"] = noStore
	if c.Param("resource") == "history" && query.Has("format") {
		return downloadHistory(c, issuer, query)
	}
	shown, err := issuer.Resource(c.Request.Context(), c.Param("bizType"), c.Param("resource"), query)
	if err != nil {
		return err
	}
	writeJSON(c, http.StatusOK, jsonType, shown)
	return nil
}

// downloadHistory answers GET /biz-types/{bizType}/history?format=.
func downloadHistory(c *gin.Context, issuer *issuer.Issuer, query url.Values) error {
	values := make(map[string]string)
	for _, name := range []string{"format", "limit"} {
		if given := query[name]; len(given) > 1 {
			return seqd.Errorf(seqd.CodeInvalidRequest, "%s is given %d times", name, len(given))
		} else if len(given) == 1 {
			values[name] = given[0]
		}
	}
	d, err := readDownload(values, c.Param("bizType")+"-history")
	if err != nil {
		return err
	}
	query.Del("format")
	return d.write(c, query.Get("after"), func(after string, limit int) (any, error) {
		query.Set("limit", strconv.Itoa(limit))
		if after != "" {
			query.Set("after", after)
		}
		return issuer.Resource(c.Request.Context(), c.Param("bizType"), "history", query)
	})
}
