package httpapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/gate"
)

const countersRoute = "/counters"

// listCounters answers GET /counters.
func listCounters(c *gin.Context, r *gate.Running) error {
	bizType, after, limit, err := pageOfBizType(c.Request.URL.RawQuery)
	if err != nil {
		return err
	}
	list, next, err := r.Standings.List(c.Request.Context(), bizType, after, limit)
	if err != nil {
		return err
	}
	writeJSON(c, http.StatusOK, jsonType, struct {
		Counters []admin.Standing `json:"counters"`
		Next     string           `json:"next,omitempty"`
	}{append([]admin.Standing{}, list...), next})
	return nil
}

// showCounter answers GET /biz-types/{bizType}/counter.
func showCounter(c *gin.Context, r *gate.Running) error {
	values, err := readQuery(c.Request.URL.RawQuery, "key", "period")
	if err != nil {
		return err
	}
	key, period, err := counterIn(values)
	if err != nil {
		return err
	}
	if err := seqd.CheckName(c.Param("bizType")); err != nil {
		return err
	}
	s, err := r.Standings.Show(c.Request.Context(), c.Param("bizType"), key, period)
	if err != nil {
		return err
	}
	writeJSON(c, http.StatusOK, jsonType, s)
	return nil
}
