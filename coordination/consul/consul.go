// Package consul keeps documents in the key-value store of Consul. It uses compare-and-set on single
// keys, and neither sessions nor locks of Consul: a session of Consul outlives its time by up to
// twice that.
package consul

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd/coordination"
	"github.com/seqd/seqd/persist"
)

// longestAnswer is more than all sessions of a large cluster, in bytes.
const longestAnswer = 64 << 20

// Documents are in Consul. They are safe for concurrent use.
type Documents struct {
	opts   coordination.Options
	client *http.Client
	agent  atomic.Int64 // the address that is used, modulo their number
}

var _ coordination.Coordinator = (*Documents)(nil)

// New returns the documents. It connects to nothing.
func New(opts coordination.Options) *Documents {
	return &Documents{opts: opts, client: &http.Client{
		Transport:     &http.Transport{DialContext: opts.Dial, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close closes connections that are idle.
func (d *Documents) Close() error {
	d.client.CloseIdleConnections()
	return nil
}

// entry is a key as Consul shows it. Value is in base64.
type entry struct {
	Key         string
	Value       []byte
	ModifyIndex uint64
}

// Create implements [coordination.Documents].
func (d *Documents) Create(ctx context.Context, doc persist.Document) error {
	if err := doc.CheckNew(); err != nil {
		return err
	}
	set, err := d.put(ctx, doc, 0)
	if err == nil && !set {
		return fmt.Errorf("%s: %w", doc.PersistID(), persist.ErrExists)
	}
	return err
}

// Read implements [coordination.Documents].
func (d *Documents) Read(ctx context.Context, kind, key string) (persist.Document, error) {
	doc, _, err := d.read(ctx, kind, key)
	return doc, err
}

// read returns a document, and the index that a compare-and-set names.
func (d *Documents) read(ctx context.Context, kind, key string) (doc persist.Document, index uint64, err error) {
	if err = persist.CheckDocument(kind, key); err != nil {
		return doc, 0, err
	}
	// A leader that has lost its followers would not know of the newest keys; with "consistent" it
	// asks them.
	entries, err := d.entries(ctx, d.path(kind, key), url.Values{"consistent": {""}})
	if err != nil {
		return doc, 0, err
	}
	if len(entries) == 0 {
		return doc, 0, fmt.Errorf("%s/%s: %w", kind, key, persist.ErrNotFound)
	}
	doc, err = entries[0].document(kind, key)
	return doc, entries[0].ModifyIndex, err
}

// document returns the document in an entry. One that is damaged has the index as its revision.
func (e *entry) document(kind, key string) (persist.Document, error) {
	doc, err := coordination.Decode(kind, key, e.Value)
	if err != nil {
		doc.Revision = int64(e.ModifyIndex)
	}
	return doc, err
}

// Update implements [coordination.Documents].
func (d *Documents) Update(ctx context.Context, doc persist.Document) error {
	if err := doc.Validate(); err != nil {
		return err
	}
	known, index, err := d.read(ctx, doc.Kind, doc.Key)
	if err == nil {
		err = known.CheckUpdate(doc)
	}
	if err != nil {
		return err
	}
	set, err := d.put(ctx, doc, index)
	return d.swapped(ctx, doc.Kind, doc.Key, known.Revision, set, err)
}

// Delete implements [coordination.Documents].
func (d *Documents) Delete(ctx context.Context, kind, key string, revision int64) error {
	known, index, err := d.read(ctx, kind, key)
	if err == nil || coordination.Damaged(known, err) {
		err = known.CheckRevision(revision)
	}
	if err != nil {
		return err
	}
	// A DELETE with an index would succeed as well if there is no such key any more.
	path := d.path(kind, key)
	body := fmt.Appendf(nil, `[{"KV":{"Verb":"check-index","Key":%q,"Index":%d}},{"KV":{"Verb":"delete","Key":%q}}]`, path, index, path) // it is ASCII
	answer, err := d.ask(ctx, http.MethodPut, "/v1/txn", nil, body)
	deleted := answer.status == http.StatusOK && bytes.Contains(answer.body, []byte(`"Results"`))
	if err == nil && !deleted && answer.status != http.StatusConflict {
		err = d.refused(answer)
	}
	return d.swapped(ctx, kind, key, revision, deleted, err)
}

// swapped returns the error of a compare-and-set.
func (d *Documents) swapped(ctx context.Context, kind, key string, revision int64, set bool, err error) error {
	if set || err != nil {
		return err
	}
	return persist.WhyNotRevision(ctx, d, kind, key, revision, persist.ErrNotFound)
}

// List implements [coordination.Documents].
func (d *Documents) List(ctx context.Context, kind, after string, limit int) (list []persist.Document, err error) {
	if err = persist.CheckDocuments(kind, after); err != nil {
		return nil, err
	}
	folder := d.path(kind, "")
	entries, err := d.entries(ctx, folder, url.Values{"recurse": {""}, "consistent": {""}})
	if err != nil {
		return nil, err
	}
	of, keys := make(map[string]*entry, len(entries)), make([]string, 0, len(entries))
	for i := range entries {
		if key, ok := coordination.KeyOf(strings.TrimPrefix(entries[i].Key, folder)); ok {
			of[key], keys = &entries[i], append(keys, key)
		}
	}
	for _, key := range coordination.Page(keys, after, limit) {
		doc, _ := of[key].document(kind, key) // its error is that it is damaged
		list = append(list, doc)
	}
	return list, nil
}

// path returns the key in Consul.
func (d *Documents) path(kind, key string) string {
	return d.opts.Prefix + "/" + kind + "/" + coordination.Name(key)
}

// put writes a document if its key has an index, 0 for none, and reports whether it had.
func (d *Documents) put(ctx context.Context, doc persist.Document, index uint64) (set bool, err error) {
	value, err := coordination.Encode(doc)
	if err != nil {
		return false, err
	}
	answer, err := d.ask(ctx, http.MethodPut, "/v1/kv/"+d.path(doc.Kind, doc.Key), url.Values{"cas": {fmt.Sprint(index)}}, value)
	said := strings.TrimSpace(string(answer.body))
	if err == nil && (answer.status != http.StatusOK || said != "true" && said != "false") {
		err = d.refused(answer)
	}
	return said == "true", err
}

// entries reads a key, or all below it.
func (d *Documents) entries(ctx context.Context, path string, query url.Values) (list []entry, err error) {
	answer, err := d.ask(ctx, http.MethodGet, "/v1/kv/"+path, query, nil)
	switch {
	case err != nil:
		return nil, err
	case answer.status == http.StatusNotFound && answer.index != "": // without one, Consul has not said it
		return nil, nil
	case answer.status != http.StatusOK, json.Unmarshal(answer.body, &list) != nil, len(list) == 0:
		return nil, d.refused(answer)
	}
	return list, nil
}

// answer is one of Consul.
type answer struct {
	agent  int64 // that gave it
	status int
	index  string // of the newest change
	body   []byte
}

// refused returns the error of an answer that says neither yes nor no, or is not that of Consul. The
// next request goes to the next agent.
func (d *Documents) refused(a answer) error {
	d.agent.CompareAndSwap(a.agent, a.agent+1)
	return coordination.Unavailable(fmt.Errorf("consul answers %d: %.200s", a.status, bytes.TrimSpace(a.body)))
}

// ask sends a request once, to the agent that answered last. If it does not answer, the next request
// goes to the next agent.
func (d *Documents) ask(ctx context.Context, method, path string, query url.Values, body []byte) (a answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.opts.Timeout)
	defer cancel()
	a.agent = d.agent.Load()
	defer func() {
		if err != nil && !errors.Is(err, context.Canceled) {
			d.agent.CompareAndSwap(a.agent, a.agent+1)
		}
	}()
	to := url.URL{Scheme: "http", Host: d.opts.Addrs[a.agent%int64(len(d.opts.Addrs))], Path: path, RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, method, to.String(), bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	if token := d.opts.Secret(); token != "" {
		req.Header.Set("X-Consul-Token", token)
	}
	resp, err := d.client.Do(req)
	if err != nil {
		return a, coordination.Unavailable(err)
	}
	defer resp.Body.Close()
	a.status, a.index = resp.StatusCode, resp.Header.Get("X-Consul-Index")
	if a.body, err = io.ReadAll(io.LimitReader(resp.Body, longestAnswer)); err != nil {
		err = coordination.Unavailable(err)
	}
	return a, err
}
