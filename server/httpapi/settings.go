package httpapi

import (
	"encoding/json"
	"net/http"
	"sync"

	"github.com/gin-gonic/gin"
)

// settingsRoute returns the handler of GET /settings. What can be set does not change while the
// program runs, so the answer is made once.
func settingsRoute(settings func() any) func(*gin.Context) error {
	encoded := sync.OnceValues(func() ([]byte, error) {
		answer, err := json.Marshal(settings())
		return append(answer, '\n'), err
	})
	return func(c *gin.Context) error {
		if _, err := readQuery(c.Request.URL.RawQuery); err != nil {
			return err
		}
		answer, err := encoded()
		if err != nil {
			return err
		}
		c.Writer.Header()["Cache-Control"] = noStore
		write(c, http.StatusOK, jsonType, answer)
		return nil
	}
}
