package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd"
)

// BizType is a definition as administrators see it.
type BizType struct {
	Name string `json:"name"`
	// Version grows with every change. It is 0 if only the configuration defines the biz type.
	Version int64 `json:"version"`
	Enabled bool  `json:"enabled"`
	// Source is what first defined the biz type: config or api.
	Source string `json:"source"`
	// UpdatedAt is RFC 3339 in UTC.
	UpdatedAt string `json:"updatedAt,omitempty"`
	// Definition has the form of an item of bizTypes in the configuration, without secrets.
	Definition json.RawMessage `json:"definition"`
	// Warnings say what the change does not do although it may look so.
	Warnings []string `json:"warnings,omitempty"`
}

// Change holds the options of a change of a definition.
type Change struct {
	// DryRun checks everything and changes nothing.
	DryRun bool
	// Force accepts a definition whose IDs could repeat earlier ones.
	Force bool
	// Check gets the current version, 0 if there is none, and returns an error if the change must
	// not be made.
	Check func(version int64) error
}

// Catalogue lets administrators read and change biz types. It is safe for concurrent use. Its
// errors are of type [*seqd.Error].
type Catalogue interface {
	// List returns at most limit biz types in the order of their names, beginning after the name
	// after. next is the name to continue after, "" at the end.
	List(ctx context.Context, after string, limit int) (list []BizType, next string, err error)
	Get(ctx context.Context, name string) (BizType, error)
	// Put stores a definition. created is true if there was none.
	Put(ctx context.Context, name string, definition []byte, c Change) (b BizType, created bool, err error)
	// Patch changes a definition by a merge patch (RFC 7396).
	Patch(ctx context.Context, name string, patch []byte, c Change) (BizType, error)
	Enable(ctx context.Context, name string, enabled bool, c Change) (BizType, error)
	// Delete replaces the definition by a tombstone and returns the tombstone's version.
	Delete(ctx context.Context, name string, c Change) (BizType, error)
}

// Node is one process of the cluster.
type Node struct {
	// ID is a random ID of the process.
	ID string `json:"id"`
	// Self is true for the node that answers.
	Self bool `json:"self"`
	// Addr is the address it listens on.
	Addr string `json:"addr"`
	Host string `json:"host"`
	// Build is the version of the program.
	Build string `json:"build"`
	// StartedAt and SeenAt are RFC 3339 in UTC.
	StartedAt string `json:"startedAt"`
	SeenAt    string `json:"seenAt"`
	// Catalogue is the number of the newest change that it knows.
	Catalogue int64 `json:"catalogue"`
	// BizTypes is the number of biz types that it knows.
	BizTypes int `json:"bizTypes"`
	// MachineIDs are the machine IDs that it holds, by biz type; at most 100.
	MachineIDs map[string]int64 `json:"machineIds"`
	// Backends are its store and Redis.
	Backends map[string]Backend `json:"backends"`
}

// Backend is the state of a back end as a node sees it.
type Backend struct {
	// State is ok or away.
	State string `json:"state"`
	// Detail says why it is away. The log says more.
	Detail string `json:"detail,omitempty"`
}

// Nodes lists the processes of the cluster.
type Nodes interface {
	// Nodes returns the processes in the order of their IDs. complete is false if the store is away
	// and only the process that answers is known.
	Nodes(ctx context.Context) (list []Node, complete bool)
}

// Administer sets what the routes of administrators use. Until then they answer that the service is
// starting.
func (a *API) Administer(c Catalogue, n Nodes) { a.admin.Store(&administration{c, n}) }

type administration struct {
	catalogue Catalogue
	nodes     Nodes
}

// adminRoutes adds the routes of administrators.
func (a *API) adminRoutes() {
	r := a.engine
	r.GET("/biz-types", a.administered(a.listBizTypes))
	r.GET("/biz-types/:bizType", a.administered(a.getBizType))
	r.PUT("/biz-types/:bizType", a.administered(a.putBizType))
	r.PATCH("/biz-types/:bizType", a.administered(a.patchBizType))
	r.DELETE("/biz-types/:bizType", a.administered(a.deleteBizType))
	r.POST("/biz-types/:bizType/enable", a.administered(a.enableBizType(true)))
	r.POST("/biz-types/:bizType/disable", a.administered(a.enableBizType(false)))
	r.GET("/nodes", a.administered(a.listNodes))
}

// administered returns a handler that needs the administration.
func (a *API) administered(f func(*gin.Context, *administration) error) gin.HandlerFunc {
	return a.lent(func(c *gin.Context) {
		to := a.admin.Load()
		if to == nil {
			a.fail(c, a.waiting.Load())
			return
		}
		c.Writer.Header()["Cache-Control"] = noStore
		if err := f(c, to); err != nil {
			a.fail(c, err)
		}
	})
}

func (a *API) listBizTypes(c *gin.Context, to *administration) error {
	after, limit, err := readPage(c.Request.URL.RawQuery)
	if err != nil {
		return err
	}
	list, next, err := to.catalogue.List(c.Request.Context(), after, limit)
	if err != nil {
		return err
	}
	answer := struct {
		BizTypes []BizType `json:"bizTypes"`
		Next     string    `json:"next,omitempty"`
	}{append([]BizType{}, list...), next}
	writeJSON(c, http.StatusOK, jsonType, answer)
	return nil
}

func (a *API) getBizType(c *gin.Context, to *administration) error {
	name, err := bizTypeOf(c)
	if err != nil {
		return err
	}
	b, err := to.catalogue.Get(c.Request.Context(), name)
	if err != nil {
		return err
	}
	writeBizType(c, http.StatusOK, b)
	return nil
}

func (a *API) putBizType(c *gin.Context, to *administration) error {
	name, change, err := changeOf(c, "dryRun", "force")
	if err != nil {
		return err
	}
	text, err := body(c)
	if err != nil {
		return err
	}
	b, created, err := to.catalogue.Put(c.Request.Context(), name, text, change)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created && !change.DryRun {
		status = http.StatusCreated
	}
	writeBizType(c, status, b)
	return nil
}

func (a *API) patchBizType(c *gin.Context, to *administration) error {
	name, change, err := changeOf(c, "dryRun", "force")
	if err != nil {
		return err
	}
	text, err := body(c)
	if err != nil {
		return err
	}
	b, err := to.catalogue.Patch(c.Request.Context(), name, text, change)
	if err != nil {
		return err
	}
	writeBizType(c, http.StatusOK, b)
	return nil
}

func (a *API) deleteBizType(c *gin.Context, to *administration) error {
	name, change, err := changeOf(c, "dryRun")
	if err != nil {
		return err
	}
	b, err := to.catalogue.Delete(c.Request.Context(), name, change)
	if err != nil {
		return err
	}
	setRevision(c, b.Version)
	c.Writer.WriteHeader(http.StatusNoContent)
	return nil
}

func (a *API) enableBizType(enabled bool) func(*gin.Context, *administration) error {
	return func(c *gin.Context, to *administration) error {
		name, change, err := changeOf(c)
		if err != nil {
			return err
		}
		b, err := to.catalogue.Enable(c.Request.Context(), name, enabled, change)
		if err != nil {
			return err
		}
		writeBizType(c, http.StatusOK, b)
		return nil
	}
}

func (a *API) listNodes(c *gin.Context, to *administration) error {
	if _, err := readQuery(c.Request.URL.RawQuery); err != nil {
		return err
	}
	list, complete := to.nodes.Nodes(c.Request.Context())
	writeJSON(c, http.StatusOK, jsonType, struct {
		Nodes    []Node `json:"nodes"`
		Complete bool   `json:"complete"`
	}{list, complete})
	return nil
}

func writeBizType(c *gin.Context, status int, b BizType) {
	if b.Version > 0 {
		setETag(c.Writer.Header(), b.Version)
		setRevision(c, b.Version)
	}
	writeJSON(c, status, jsonType, b)
}

// bizTypeOf returns the biz type in the path of a request that takes no parameters.
func bizTypeOf(c *gin.Context) (string, error) {
	if _, err := readQuery(c.Request.URL.RawQuery); err != nil {
		return "", err
	}
	name := c.Param("bizType")
	return name, seqd.CheckName(name)
}

// changeOf reads the name and the options of a change. flags are the query parameters that are
// allowed.
func changeOf(c *gin.Context, flags ...string) (name string, change Change, err error) {
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
	match, err := readIfMatch(c.Request)
	if err != nil {
		return "", change, err
	}
	none, err := readIfNoneMatch(c.Request)
	if err == nil && none && match.asks() {
		err = seqd.Errorf(seqd.CodeInvalidRequest, "If-Match and If-None-Match cannot both be true")
	}
	change.Check = func(version int64) error {
		if !none {
			return match.check(version)
		}
		if version > 0 {
			return seqd.Errorf(seqd.CodePreconditionFailed, "If-None-Match is *, and there is version %d", version)
		}
		return nil
	}
	return name, change, err
}

// readIfNoneMatch reads the header If-None-Match. Only * makes sense for a change.
func readIfNoneMatch(r *http.Request) (none bool, err error) {
	lines := r.Header["If-None-Match"]
	if len(lines) == 0 {
		return false, nil
	}
	if len(lines) > 1 || strings.TrimSpace(lines[0]) != "*" {
		return false, seqd.Errorf(seqd.CodeInvalidRequest, "If-None-Match can only be * here")
	}
	return true, nil
}

// Time formats a time in ms since the Unix epoch as RFC 3339 in UTC, to the millisecond.
func Time(ms int64) string { return time.UnixMilli(ms).UTC().Format(timeFormat) }
