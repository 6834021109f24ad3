package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/seqd/seqd/client"
)

// WorkerPool is a pool of worker IDs that programs lease: see [client.Client.Snowflake].
type WorkerPool struct {
	Pool string `json:"pool"`
	// BitsMachine and BitsSequence are how many bits of an ID the worker ID and the sequence have.
	BitsMachine  int       `json:"bitsMachine"`
	BitsSequence int       `json:"bitsSequence"`
	Epoch        time.Time `json:"epoch"`
	// TTL is how far a lease reaches, as a duration such as 30s.
	TTL       string    `json:"ttl"`
	Version   int64     `json:"version"`
	UpdatedAt time.Time `json:"updatedAt,omitzero"`
	// Held and Free are how many worker IDs are held and free, and StandingBy how many programs wait
	// for one at the node that answers. Holders are at most 1,000. Only [Admin.WorkerPool] returns
	// them.
	Held       int64          `json:"held,omitempty"`
	Free       int64          `json:"free,omitempty"`
	StandingBy int64          `json:"standingBy,omitempty"`
	Holders    []WorkerHolder `json:"holders,omitempty"`
}

// WorkerHolder is a program that holds a worker ID.
type WorkerHolder struct {
	WorkerID int64     `json:"workerId"`
	Instance string    `json:"instance"`
	Until    time.Time `json:"until"`
}

// WorkerPools returns a page of the pools in the order of their names. next is the name to continue
// after, "" on the last page.
func (a *Admin) WorkerPools(ctx context.Context, p Page) (list []WorkerPool, next string, err error) {
	var page struct {
		Pools []WorkerPool `json:"pools"`
		Next  string       `json:"next"`
	}
	_, err = a.ask(ctx, client.Request{Op: "list worker pools", Path: "/worker-pools", Query: p.query()}, &page)
	if err == nil && page.Pools == nil {
		err = errNoList
	}
	return page.Pools, page.Next, err
}

// WorkerPool returns a pool, and who holds its worker IDs.
func (a *Admin) WorkerPool(ctx context.Context, name string) (p WorkerPool, err error) {
	_, err = a.ask(ctx, client.Request{Op: "get worker pool", Path: named("/worker-pools/", name)}, &p)
	return p, err
}

// PutWorkerPool creates or replaces a pool. definition is a JSON object; what it leaves out has its
// default.
func (a *Admin) PutWorkerPool(ctx context.Context, name string, definition []byte, c Change) (p WorkerPool, created bool, err error) {
	status, err := a.change(ctx, "put worker pool", http.MethodPut, named("/worker-pools/", name), definition, c, &p)
	return p, status == http.StatusCreated, err
}

// PatchWorkerPool changes a pool by a JSON merge patch (RFC 7396): null removes a key.
func (a *Admin) PatchWorkerPool(ctx context.Context, name string, patch []byte, c Change) (p WorkerPool, err error) {
	_, err = a.change(ctx, "patch worker pool", http.MethodPatch, named("/worker-pools/", name), patch, c, &p)
	return p, err
}

// DeleteWorkerPool deletes a pool. No program can lease or renew one of its worker IDs any more.
func (a *Admin) DeleteWorkerPool(ctx context.Context, name string, c Change) error {
	_, err := a.change(ctx, "delete worker pool", http.MethodDelete, named("/worker-pools/", name), nil, c, nil)
	return err
}
