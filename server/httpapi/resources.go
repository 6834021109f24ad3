package httpapi

import (
	"net/http"
	"net/url"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/gate"
)

// resources serves what plugins offer, such as the history of a biz type.
type resources struct{ gate *gate.Gate }

// show answers GET /biz-types/{bizType}/{resource} with what a plugin offers.
func (r resources) show(c *gin.Context) error {
	issuer, err := r.gate.Issuer()
	if err != nil {
		return err
	}
	query, err := url.ParseQuery(c.Request.URL.RawQuery)
	if err != nil {
		return seqd.Errorf(seqd.CodeInvalidRequest, "the query cannot be read")
	}
	shown, err := issuer.Resource(c.Request.Context(), c.Param("bizType"), c.Param("resource"), query)
	if err != nil {
		return err
	}
	c.Writer.Header()["Cache-Control"] = noStore
	writeJSON(c, http.StatusOK, jsonType, shown)
	return nil
}
