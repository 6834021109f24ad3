// Package admin reads and changes biz types and tokens over HTTP, and asks nodes how they are. Its
// requests go through a [client.Client], which chooses the node. What only reads is repeated on
// another node if an answer gets lost. A change is not: then the error says by its field Unknown
// whether the change may have been made. Look before you make it again, or name the version that
// you change.
package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/seqd/seqd/client"
)

// Admin administers a service. It is safe for concurrent use.
type Admin struct{ client *client.Client }

// New returns an Admin whose requests go through c. It sends nothing.
func New(c *client.Client) *Admin { return &Admin{c} }

// named returns the path of a biz type or token.
func named(folder, name string) string { return folder + url.PathEscape(name) }

// Page says which part of a list to return. The zero value is the first 100.
type Page struct {
	// After is the name that the page begins after.
	After string
	// Limit is the number of names, 1 to 1000; 0 means 100.
	Limit int
	// Match is a pattern that the names match, in which * stands for any characters; "" for all. A
	// page can then have fewer names than Limit, even none, although others follow. Only for
	// [Admin.BizTypes].
	Match string
}

func (p Page) query() url.Values {
	q := url.Values{}
	if p.Match != "" {
		q.Set("match", p.Match)
	}
	if p.After != "" {
		q.Set("after", p.After)
	}
	if p.Limit != 0 {
		q.Set("limit", strconv.Itoa(p.Limit))
	}
	return q
}

// Change holds the options of a change. The zero value changes whatever version there is.
type Change struct {
	// IfMatch is the version to change. If there is another one, the change is refused with
	// [client.ErrPreconditionFailed]. 0 sets no condition.
	IfMatch int64
	// IfNoneMatch changes nothing if the biz type or pool exists.
	IfNoneMatch bool
	// DryRun checks everything and changes nothing. Only for PutBizType, PatchBizType and
	// DeleteBizType.
	DryRun bool
	// Force accepts a definition whose IDs could repeat earlier ones, and a change by which the result
	// of a job cannot be shown any more, for PutBizType, PatchBizType and DeleteBizType. For
	// DeleteWorkerPool it accepts that worker IDs are held.
	Force bool
}

// apply puts the options into a request. What the service does not know there it refuses.
func (c Change) apply(r *client.Request) {
	if c.IfMatch != 0 {
		r.Header.Set("If-Match", strconv.Quote(strconv.FormatInt(c.IfMatch, 10)))
	}
	if c.IfNoneMatch {
		r.Header.Set("If-None-Match", "*")
	}
	r.Query = url.Values{}
	if c.DryRun {
		r.Query.Set("dryRun", "true")
	}
	if c.Force {
		r.Query.Set("force", "true")
	}
}

// BizType is a biz type as administrators see it.
type BizType struct {
	Name string `json:"name"`
	// Version grows with every change. It is 0 if only the configuration defines the biz type.
	Version int64 `json:"version"`
	Enabled bool  `json:"enabled"`
	// Source is what first defined the biz type: config, api or store.
	Source    string    `json:"source"`
	UpdatedAt time.Time `json:"updatedAt,omitzero"`
	// Definition is JSON of the form of an item of bizTypes in the configuration. Secrets read
	// (secret); written back as that, they stay as they are.
	Definition json.RawMessage `json:"definition"`
	// Warnings say what a change does not do although it may look so.
	Warnings []string `json:"warnings,omitempty"`
	// SettingWarnings are those of them that concern one setting.
	SettingWarnings []SettingWarning `json:"settingWarnings,omitempty"`
	// Example is what the first ID would be. It is in the answer to a dry run of PutBizType or
	// PatchBizType, and "" if the service cannot know it.
	Example string `json:"example,omitempty"`
}

// SettingWarning is a warning that concerns one setting.
type SettingWarning struct {
	Key  string `json:"key"`
	Text string `json:"text"`
}

// BizTypes returns a page of the biz types in the order of their names. next is the name to continue
// after, "" on the last page.
func (a *Admin) BizTypes(ctx context.Context, p Page) (list []BizType, next string, err error) {
	var page struct {
		BizTypes []BizType `json:"bizTypes"`
		Next     string    `json:"next"`
	}
	_, err = a.ask(ctx, client.Request{Op: "list biz types", Path: "/biz-types", Query: p.query()}, &page)
	if err == nil && page.BizTypes == nil {
		err = errNoList
	}
	return page.BizTypes, page.Next, err
}

// BizType returns a biz type.
func (a *Admin) BizType(ctx context.Context, name string) (b BizType, err error) {
	_, err = a.ask(ctx, client.Request{Op: "get biz type", Path: named("/biz-types/", name)}, &b)
	return b, err
}

// PutBizType creates or replaces a biz type. definition is a JSON object. created is false for a dry
// run.
func (a *Admin) PutBizType(ctx context.Context, name string, definition []byte, c Change) (b BizType, created bool, err error) {
	status, err := a.change(ctx, "put biz type", http.MethodPut, named("/biz-types/", name), definition, c, &b)
	return b, status == http.StatusCreated, err
}

// PatchBizType changes a biz type by a JSON merge patch (RFC 7396): null removes a key.
func (a *Admin) PatchBizType(ctx context.Context, name string, patch []byte, c Change) (b BizType, err error) {
	_, err = a.change(ctx, "patch biz type", http.MethodPatch, named("/biz-types/", name), patch, c, &b)
	return b, err
}

// DeleteBizType deletes a biz type. Its numbers are never issued again.
func (a *Admin) DeleteBizType(ctx context.Context, name string, c Change) error {
	_, err := a.change(ctx, "delete biz type", http.MethodDelete, named("/biz-types/", name), nil, c, nil)
	return err
}

// EnableBizType lets a biz type issue numbers, or refuse them.
func (a *Admin) EnableBizType(ctx context.Context, name string, enabled bool, c Change) (b BizType, err error) {
	verb := "disable"
	if enabled {
		verb = "enable"
	}
	_, err = a.change(ctx, verb+" biz type", http.MethodPost, named("/biz-types/", name)+"/"+verb, nil, c, &b)
	return b, err
}

// change sends a request that changes something, and reads its answer into v, unless v is nil.
func (a *Admin) change(ctx context.Context, op, method, target string, body []byte, c Change, v any) (status int, err error) {
	r := client.Request{Op: op, Method: method, Path: target, Header: http.Header{}, Body: body}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	c.apply(&r)
	return a.ask(ctx, r, v)
}

// ask sends a request and reads its answer into v, unless v is nil.
func (a *Admin) ask(ctx context.Context, r client.Request, v any) (status int, err error) {
	if path.Clean(r.Path) != r.Path {
		return 0, &client.Error{Code: client.ErrInvalidRequest, Detail: "the name is empty or made of dots"}
	}
	answer, err := a.client.Do(ctx, r)
	if err != nil {
		return 0, err
	}
	if v == nil {
		return answer.Status, checkNoContent(answer)
	}
	if err := answer.JSON(v); err != nil {
		return 0, err
	}
	return answer.Status, nil
}

// checkNoContent refuses an answer that is not the one to a deletion, such as a page of another
// program.
func checkNoContent(a *client.Answer) error {
	if a.Status == http.StatusNoContent {
		return nil
	}
	return &client.Error{Code: client.ErrBadAnswer, Status: a.Status, Addr: a.Addr, RequestID: a.RequestID, Detail: "the answer to a deletion is not 204, so it is not one of seqd"}
}

// errNoList is for JSON that is not the list that was asked for.
var errNoList = &client.Error{Code: client.ErrBadAnswer, Detail: "the answer has no list, so it is not one of seqd"}

// Readiness is how a node is.
type Readiness struct {
	// Status is ready, degraded, or unready: then the node should get no requests.
	Status string `json:"status"`
	// Code and Detail say why it is unready.
	Code   client.Code `json:"code,omitempty"`
	Detail string      `json:"detail,omitempty"`
	// BizTypes are those that cannot issue, and then those that do not issue as they should: the first
	// 100 of Total. With tokens they are shown to callers with the scope read only.
	BizTypes []BizTypeState `json:"bizTypes,omitempty"`
	Total    int            `json:"total,omitempty"`
	// Store is what an operator has to look at in the store; nil if there is nothing.
	Store *Trouble `json:"store,omitempty"`
	// Details are what strategies report to operators, by biz type.
	Details map[string]map[string]any `json:"details,omitempty"`
}

// BizTypeState says why a biz type cannot issue, or not as it should.
type BizTypeState struct {
	BizType string      `json:"bizType"`
	Code    client.Code `json:"code"`
	Detail  string      `json:"detail"`
	// Unready is true if it cannot issue.
	Unready bool `json:"unready,omitempty"`
}

// Trouble is something that an operator has to look at.
type Trouble struct {
	Code   client.Code `json:"code"`
	Detail string      `json:"detail"`
}

// Ready asks a node how it is, and whether it can issue: something, or all of the biz types that
// are named, at most 100. A node that is not ready is not an error. To ask a certain node, use
// [client.Client.Only].
func (a *Admin) Ready(ctx context.Context, bizTypes ...string) (Readiness, error) {
	query := url.Values{}
	if len(bizTypes) > 0 {
		query.Set("bizType", strings.Join(bizTypes, ","))
	}
	answer, err := a.client.Do(ctx, client.Request{Op: "ready", Path: "/readyz", Query: query, Also: []int{http.StatusServiceUnavailable}})
	if err != nil {
		return Readiness{}, err
	}
	var got struct {
		Readiness
		// Status is a text in an answer that the node is ready, and a number in a problem document.
		Status            any `json:"status"`
		Degraded, Unready int
	}
	if err := answer.JSON(&got); err != nil {
		return Readiness{}, err
	}
	r := got.Readiness
	r.Total = got.Degraded + got.Unready
	if answer.Status == http.StatusServiceUnavailable {
		r.Status = "unready"
		if r.Code == "" {
			return Readiness{}, &client.Error{Code: client.ErrUnreachable, Status: answer.Status, Addr: answer.Addr, Detail: "a proxy answered, not seqd"}
		}
		return r, nil
	}
	text, ok := got.Status.(string)
	if !ok || text == "" {
		return Readiness{}, &client.Error{Code: client.ErrBadAnswer, Status: answer.Status, Addr: answer.Addr, Detail: "the answer does not say how the node is"}
	}
	r.Status, r.Code, r.Detail = text, "", ""
	return r, nil
}

// Node is one process of the service.
type Node struct {
	// ID is a random ID of the process.
	ID string `json:"id"`
	// Self is true for the node that answers.
	Self bool `json:"self"`
	// Leader is true for the node that does what one node of the cluster does.
	Leader bool `json:"leader,omitempty"`
	// Addr is the address it listens on.
	Addr string `json:"node"`
	Host string `json:"host"`
	// Build is the version of the program.
	Build     string    `json:"build"`
	StartedAt time.Time `json:"startedAt"`
	SeenAt    time.Time `json:"seenAt"`
	// BizTypesFrom is where its definitions come from: store or config; "" if it does not say, as a
	// node of an earlier version.
	BizTypesFrom string `json:"bizTypesFrom,omitempty"`
	// Coordination is what keeps its session: store, or the ID of a coordinator; "" if that is not known.
	Coordination string `json:"coordination,omitempty"`
	// Catalogue is the number of the newest change of biz types that it knows.
	Catalogue int64 `json:"catalogue"`
	// BizTypes is the number of biz types that it knows.
	BizTypes int `json:"bizTypes"`
	// MachineIDs are the machine IDs that it holds, by biz type; at most 100.
	MachineIDs map[string]int64 `json:"machineIds"`
	// ClockOffsetMS is by how many milliseconds its clock is ahead of that of the store, or else of a
	// registry of machine IDs; nil if that is not known.
	ClockOffsetMS *float64 `json:"clockOffsetMs,omitempty"`
	// Config is the configuration that it has read; nil if it does not say, as a node of an earlier
	// version.
	Config *NodeConfig `json:"config,omitempty"`
	// Backends are its store and Redis.
	Backends map[string]Backend `json:"backends"`
}

// Backend is the state of a back end as a node sees it.
type Backend struct {
	// State is ok, away or failed_over.
	State  string `json:"state"`
	Detail string `json:"detail,omitempty"`
}

// Nodes returns the nodes in the order of their IDs. complete is false if only the node that answers
// is known, because the store is away.
func (a *Admin) Nodes(ctx context.Context) (list []Node, complete bool, err error) {
	var answer struct {
		Nodes    []Node `json:"nodes"`
		Complete bool   `json:"complete"`
	}
	if _, err = a.ask(ctx, client.Request{Op: "list nodes", Path: "/nodes"}, &answer); err != nil {
		return nil, false, err
	}
	if len(answer.Nodes) == 0 {
		return nil, false, errNoList
	}
	return answer.Nodes, answer.Complete, nil
}
