package httpapi

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/literal"
	"github.com/seqd/seqd/server/admin"
)

const eventsRoute = "/events"

// listEvents answers GET /events.
func listEvents(c *gin.Context, events admin.Events) error {
	values, err := readQuery(c.Request.URL.RawQuery, "bizType", "after", "limit", "wait")
	if err != nil {
		return err
	}
	limit, err := limitIn(values)
	if err != nil {
		return err
	}
	after := int64(-1)
	if text, given := values["after"]; given {
		n, ok := literal.Int(text)
		if after = n; !ok || n < 0 {
			return seqd.Errorf(seqd.CodeInvalidRequest, "after is %.40q and must be a position, such as next of the previous page", text)
		}
	}
	wait, err := waitIn(values)
	if err != nil {
		return err
	}
	c.Writer.Header()["Cache-Control"] = noStore
	list, next, last, err := events.List(c.Request.Context(), values["bizType"], after, limit, wait)
	restartWriteTimeout(c) // it may have waited for longer
	if err != nil {
		return err
	}
	writeJSON(c, http.StatusOK, jsonType, struct {
		Events []admin.Event `json:"events"`
		Next   int64         `json:"next"`
		Last   int64         `json:"last"`
	}{append([]admin.Event{}, list...), next, last})
	return nil
}

// waitIn returns the time to wait among the parameters of a request, 0 if there is none.
func waitIn(values map[string]string) (wait time.Duration, err error) {
	text, given := values["wait"]
	if !given {
		return 0, nil
	}
	wait, ok := literal.Duration(text)
	if !ok || wait < 0 || wait > mostWait {
		return 0, seqd.Errorf(seqd.CodeInvalidRequest, "wait: %.40q is not a duration of 0s to 1m, such as 20s", text)
	}
	return wait, nil
}
