package httpapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/admin"
)

// listBizTypes answers GET /biz-types.
func listBizTypes(c *gin.Context, catalogue admin.Catalogue) error {
	want, err := readListing(c.Request.URL.RawQuery)
	if err != nil {
		return err
	}
	list, next, err := catalogue.List(c.Request.Context(), want)
	if err != nil {
		return err
	}
	answer := struct {
		BizTypes []admin.BizType `json:"bizTypes"`
		Next     string          `json:"next,omitempty"`
	}{append([]admin.BizType{}, list...), next}
	writeJSON(c, http.StatusOK, jsonType, answer)
	return nil
}

// longestMatch is the longest pattern, in bytes: more than any useful one has.
const longestMatch = 256

// readListing reads the query of a list of biz types.
func readListing(query string) (want admin.Listing, err error) {
	values, err := readQuery(query, "after", "limit", "match")
	if err != nil {
		return want, err
	}
	if want.After, want.Limit, err = pageIn(values); err != nil {
		return want, err
	}
	want.Match = values["match"]
	if len(want.Match) > longestMatch {
		return want, seqd.Errorf(seqd.CodeInvalidRequest, "match has %d bytes, more than %d", len(want.Match), longestMatch)
	}
	for _, r := range want.Match {
		if r != '*' && !harmless(string(r)) {
			return want, seqd.Errorf(seqd.CodeInvalidRequest, "match has the character %q, which no name has: "+
				"it is letters, digits, '.', '_', '-' and '*' for any characters", r)
		}
	}
	return want, nil
}

// getBizType answers GET /biz-types/{bizType}.
func getBizType(c *gin.Context, catalogue admin.Catalogue) error {
	name, err := bizTypeOf(c)
	if err != nil {
		return err
	}
	b, err := catalogue.Get(c.Request.Context(), name)
	return answerBizType(c, http.StatusOK, b, err)
}

// putBizType answers PUT /biz-types/{bizType}.
func putBizType(c *gin.Context, catalogue admin.Catalogue) error {
	name, text, change, err := definitionOf(c)
	if err != nil {
		return err
	}
	b, created, err := catalogue.Put(c.Request.Context(), name, text, change)
	status := http.StatusOK
	if created && !change.DryRun {
		status = http.StatusCreated
	}
	return answerBizType(c, status, b, err)
}

// patchBizType answers PATCH /biz-types/{bizType}.
func patchBizType(c *gin.Context, catalogue admin.Catalogue) error {
	name, text, change, err := definitionOf(c)
	if err != nil {
		return err
	}
	b, err := catalogue.Patch(c.Request.Context(), name, text, change)
	return answerBizType(c, http.StatusOK, b, err)
}

// deleteBizType answers DELETE /biz-types/{bizType}.
func deleteBizType(c *gin.Context, catalogue admin.Catalogue) error {
	name, change, err := changeOf(c, "dryRun", "force")
	if err != nil {
		return err
	}
	b, err := catalogue.Delete(c.Request.Context(), name, change)
	if err != nil {
		return err
	}
	setRevision(c, b.Version)
	c.Writer.WriteHeader(http.StatusNoContent)
	return nil
}

// enableBizType returns the handler of POST /biz-types/{bizType}/enable or /disable.
func enableBizType(enabled bool) func(*gin.Context, admin.Catalogue) error {
	return func(c *gin.Context, catalogue admin.Catalogue) error {
		name, change, err := changeOf(c)
		if err != nil {
			return err
		}
		b, err := catalogue.Enable(c.Request.Context(), name, enabled, change)
		return answerBizType(c, http.StatusOK, b, err)
	}
}

// answerBizType answers with a biz type, and with an ETag if it has a version.
func answerBizType(c *gin.Context, status int, b admin.BizType, err error) error {
	if err != nil {
		return err
	}
	if b.Version > 0 {
		setETag(c.Writer.Header(), b.Version)
		setRevision(c, b.Version)
	}
	writeJSON(c, status, jsonType, b)
	return nil
}

// bizTypeOf returns the biz type in the path of a request that takes no parameters.
func bizTypeOf(c *gin.Context) (string, error) {
	if _, err := readQuery(c.Request.URL.RawQuery); err != nil {
		return "", err
	}
	name := c.Param("bizType")
	return name, seqd.CheckName(name)
}

// definitionOf reads a request that changes a definition: the name of the biz type, the body, and
// what the query and the headers ask for.
func definitionOf(c *gin.Context) (name string, text []byte, change admin.Change, err error) {
	name, change, err = changeOf(c, "dryRun", "force")
	return name, body(c), change, err
}

// changeOf reads the name and the options of a change. flags are the query parameters that are
// allowed.
func changeOf(c *gin.Context, flags ...string) (name string, change admin.Change, err error) {
	name = c.Param("bizType")
	if err = seqd.CheckName(name); err != nil {
		return "", change, err
	}
	query, err := readQuery(c.Request.URL.RawQuery, flags...)
	if err != nil {
		return "", change, err
	}
	for flag, text := range query {
		if text != "true" && text != "false" {
			return "", change, seqd.Errorf(seqd.CodeInvalidRequest, "%s is %.40q and must be true or false", flag, text)
		}
	}
	change.DryRun, change.Force = query["dryRun"] == "true", query["force"] == "true"
	change.By = callerName(c)
	change.Check, err = readCondition(c.Request)
	return name, change, err
}
