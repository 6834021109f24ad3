package httpapi

import (
	"net/http/pprof"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd"
)

// profileRoute has the profiles of the Go runtime, for scope admin. cmdline is left out: flags can have
// secrets.
const profileRoute = "/debug/pprof/*profile"

func profile(c *gin.Context) error {
	switch name := strings.TrimPrefix(c.Param("profile"), "/"); name {
	case "profile":
		pprof.Profile(c.Writer, c.Request)
	case "trace":
		pprof.Trace(c.Writer, c.Request)
	case "allocs", "block", "goroutine", "heap", "mutex", "threadcreate":
		pprof.Handler(name).ServeHTTP(c.Writer, c.Request)
	default:
		return seqd.Errorf(seqd.CodeNotFound, "profiles are allocs, block, goroutine, heap, mutex, profile, threadcreate and trace")
	}
	return nil
}
