package httpapi

import (
	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd/server/gate"
)

// snapshotPath is where all that the store has is downloaded.
const snapshotPath = "/snapshot"

// saveSnapshot answers GET /snapshot. A snapshot that fails has no last line.
func saveSnapshot(c *gin.Context, r *gate.Running) error {
	if _, err := readQuery(c.Request.URL.RawQuery); err != nil {
		return err
	}
	header := c.Writer.Header()
	header["Content-Type"] = []string{"application/octet-stream"}
	header["Content-Disposition"] = []string{`attachment; filename="seqd.snapshot"`}
	err := r.Snapshot(c.Request.Context(), patient{c})
	if err != nil && !c.Writer.Written() {
		header.Del("Content-Disposition")
	}
	return err
}

// patient gives each part of an answer the write timeout of the server.
type patient struct{ c *gin.Context }

// Write implements [io.Writer].
func (p patient) Write(part []byte) (int, error) {
	restartWriteTimeout(p.c)
	return p.c.Writer.Write(part)
}
