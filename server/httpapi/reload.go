package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd/server/admin"
)

// ReloadPath lets the node read its configuration again.
const ReloadPath = "/reload"

// levelPath is the level of the log.
const levelPath = "/log-level"

// Reloader reads the configuration of the node again. It is safe for concurrent use. Its errors are
// [seqd.CodeConflict]; after one nothing has changed.
type Reloader interface {
	Reload(ctx context.Context) (admin.Reloaded, error)
	// Level returns the level of the log, and SetLevel sets it, to one of those that there are, until the
	// next reload.
	Level() (admin.LogLevel, error)
	SetLevel(level string) (admin.LogLevel, error)
}

// Change applies those of the options that a reload changes: MaxBodyBytes, Hosts, PublicMetrics.
func (a *API) Change(opts Options) { a.middleware.limits.change(opts) }

// reloadRoutes adds the routes of the configuration.
func (a *API) reloadRoutes(r Reloader) {
	a.engine.POST(ReloadPath, a.lent(func(c *gin.Context) error {
		if _, err := readQuery(c.Request.URL.RawQuery); err != nil {
			return err
		}
		done, err := r.Reload(c.Request.Context())
		return answerChange(c, done, err)
	}))
	a.engine.GET(levelPath, a.lent(func(c *gin.Context) error {
		if _, err := readQuery(c.Request.URL.RawQuery); err != nil {
			return err
		}
		level, err := r.Level()
		return answerChange(c, level, err)
	}))
	a.engine.PUT(levelPath, a.lent(func(c *gin.Context) error {
		if _, err := readQuery(c.Request.URL.RawQuery); err != nil {
			return err
		}
		level, err := readLevel(body(c))
		if err != nil {
			return err
		}
		setTarget(c, level)
		set, err := r.SetLevel(level)
		return answerChange(c, set, err)
	}))
}

// answerChange answers with value, which must not be kept, or returns err.
func answerChange(c *gin.Context, value any, err error) error {
	if err != nil {
		return err
	}
	c.Writer.Header()["Cache-Control"] = noStore
	writeJSON(c, http.StatusOK, jsonType, value)
	return nil
}

// levels are those of the log.
var levels = []string{"debug", "info", "warn", "error"}

// readLevel reads a body such as {"level":"debug"}.
func readLevel(text []byte) (level string, err error) {
	o, err := readObject(text, "level")
	if err != nil {
		return "", err
	}
	if err := o.take("level", "text", &level); err != nil {
		return "", err
	}
	if !slices.Contains(levels, level) {
		return "", invalidBody("level is %.20q and must be one of %s", level, strings.Join(levels, ", "))
	}
	return level, nil
}
