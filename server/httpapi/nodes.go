package httpapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd/server/admin"
)

// listNodes answers GET /nodes.
func listNodes(c *gin.Context, nodes admin.Nodes) error {
	if _, err := readQuery(c.Request.URL.RawQuery); err != nil {
		return err
	}
	list, complete := nodes.Nodes(c.Request.Context())
	writeJSON(c, http.StatusOK, jsonType, struct {
		Nodes    []admin.Node `json:"nodes"`
		Complete bool         `json:"complete"`
	}{list, complete})
	return nil
}
