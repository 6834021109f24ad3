package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// timeForm is how the service writes times.
const timeForm = "2006-01-02T15:04:05.000Z"

// LeaseOptions says how a worker ID is leased.
type LeaseOptions struct {
	// Instance is the name by which the service shows the holder to people, such as
	// shop.8080.10.0.0.7: up to 200 bytes. If it is empty, it is made of the names of program and
	// host and of the process ID.
	Instance string
	// Wait is how long the service keeps the request while all worker IDs of the pool are held: up
	// to 1 minute. 0 means that it refuses at once, with [ErrNoMachineID].
	Wait time.Duration
}

// WorkerLease is the right to make IDs with a worker ID of a pool, with times in (After, Until]
// only: in milliseconds, by whatever clock. The service grants no time of a worker ID twice. So the
// IDs of two holders differ, whoever was paused, and whose clock is wrong.
//
// It is for programs that make IDs themselves. [Client.Snowflake] makes them.
type WorkerLease struct {
	Pool     string `json:"pool"`
	WorkerID int64  `json:"workerId"`
	// Lease is the text by which the service knows the lease. Renewals change it.
	Lease string    `json:"lease"`
	After time.Time `json:"after"`
	Until time.Time `json:"until"`
	// TTL is how far a lease or a renewal reaches. Renew after a third of it.
	TTL time.Duration `json:"-"`
	// Epoch is the time that IDs count from. An ID consists of the time in ms, a sequence of
	// BitsSequence bits and a worker ID of BitsMachine bits, from the highest bit to the lowest.
	Epoch        time.Time `json:"epoch"`
	BitsMachine  int       `json:"bitsMachine"`
	BitsSequence int       `json:"bitsSequence"`

	client *Client
}

// LeaseWorker leases a worker ID. If an answer gets lost, the request is repeated, and a worker ID
// stays held for the TTL of the pool.
func (c *Client) LeaseWorker(ctx context.Context, pool string, opts LeaseOptions) (*WorkerLease, error) {
	if err := checkPool(pool); err != nil {
		return nil, err
	}
	if opts.Wait < 0 || opts.Wait > time.Minute {
		return nil, &Error{Code: ErrInvalidRequest, Detail: fmt.Sprintf("the wait is %s and must be 0s to 1m", opts.Wait)}
	}
	if opts.Instance == "" {
		opts.Instance = instanceName()
	}
	target := "/workers/" + pool
	if opts.Wait > 0 {
		target += "?wait=" + opts.Wait.String()
	}
	l := &WorkerLease{Pool: pool, client: c}
	return l.ask(ctx, &call{op: "lease", target: target, body: jsonOf(map[string]string{"instance": opts.Instance}), timeout: c.timeout + opts.Wait}, http.StatusCreated)
}

// Renew returns the lease with a later Until. An error with the code lease_lost says that the lease
// has ended. After any other one, the lease is what it was: try again before Until.
func (l *WorkerLease) Renew(ctx context.Context) (*WorkerLease, error) {
	renewed := *l
	// a node that hangs must leave time to ask another one
	return renewed.ask(ctx, &call{op: "renew", target: l.path(), timeout: min(l.client.timeout, l.TTL/3)}, http.StatusOK)
}

// Release ends the lease, so that others can have the worker ID at once. last is the highest time
// that was used, or After if none was; zero if that is not known, which keeps all times up to Until
// from being used. Make no ID after that. That the lease has ended already is no error.
func (l *WorkerLease) Release(ctx context.Context, last time.Time) error {
	r := &call{op: "end lease", method: http.MethodDelete, target: l.path(), repeat: true, limit: usualLimit}
	if !last.IsZero() {
		r.body = jsonOf(map[string]string{"last": last.UTC().Format(timeForm)})
		r.header = http.Header{"Content-Type": {"application/json"}}
	}
	r.decode = func(a *answer) error {
		if a.status != http.StatusNoContent {
			return badAnswer("the answer is %s, not 204", statusText(a.status))
		}
		return nil
	}
	if err := l.client.do(ctx, r); !errors.Is(err, ErrLeaseLost) {
		return err
	}
	return nil
}

func (l *WorkerLease) path() string { return "/workers/" + l.Pool + "/" + url.PathEscape(l.Lease) }

// ask sends a call that is answered by what is new of the lease.
func (l *WorkerLease) ask(ctx context.Context, r *call, want int) (*WorkerLease, error) {
	r.method, r.accept, r.repeat, r.limit = http.MethodPost, "application/json", true, usualLimit
	if r.body != nil {
		r.header = http.Header{"Content-Type": {"application/json"}}
	}
	var got *WorkerLease
	r.decode = func(a *answer) (err error) {
		if a.status != want {
			return badAnswer("the answer is %s, not %d", statusText(a.status), want)
		}
		got, err = l.updated(a)
		return err
	}
	if err := l.client.do(ctx, r); err != nil {
		return nil, err
	}
	return got, nil
}

// updated returns the lease as an answer says that it is. It refuses one under which IDs could be
// made twice.
func (l *WorkerLease) updated(a *answer) (*WorkerLease, error) {
	got := struct {
		WorkerLease
		TTL string `json:"ttl"`
	}{*l, l.TTL.String()}
	if err := decodeJSON(a, &got); err != nil {
		return nil, err
	}
	ttl, err := time.ParseDuration(got.TTL)
	next := got.WorkerLease
	next.TTL = ttl
	bits := next.BitsMachine + next.BitsSequence
	switch {
	case err != nil || ttl <= 0 || next.Lease == "" || next.After.IsZero() || next.Until.Before(next.After):
		return nil, badAnswer("the answer is no lease")
	case next.BitsMachine < 1 || next.BitsSequence < 1 || bits > 62 || next.WorkerID < 0 || next.WorkerID >= 1<<next.BitsMachine:
		return nil, badAnswer("the worker ID %d does not fit into the IDs of the pool: %d bits of it, %d of the sequence", next.WorkerID, next.BitsMachine, next.BitsSequence)
	case next.Pool != l.Pool || l.Lease != "" && (next.WorkerID != l.WorkerID || next.BitsMachine != l.BitsMachine || next.BitsSequence != l.BitsSequence || !next.Epoch.Equal(l.Epoch)):
		return nil, badAnswer("the answer is for another lease: worker ID %d of %.80q", next.WorkerID, next.Pool)
	case next.Until.Before(l.Until):
		return nil, badAnswer("the renewed lease ends at %s, which is before %s", next.Until.Format(timeForm), l.Until.Format(timeForm))
	}
	return &next, nil
}

// checkPool refuses what cannot be the name of a pool, so that no name changes the path of a
// request.
func checkPool(name string) error {
	if checkBizType(name) == nil {
		return nil
	}
	return &Error{Code: ErrInvalidRequest, Detail: fmt.Sprintf("%.80q is not the name of a pool: 1 to 64 of A-Z a-z 0-9 . _ -, the first a letter", name)}
}

// instanceName returns a name of this process.
func instanceName() string {
	host, _ := os.Hostname() // without one the rest has to do
	return fmt.Sprintf("%.100s.%d@%.80s", filepath.Base(os.Args[0]), os.Getpid(), host)
}

// jsonOf returns text as a JSON object.
func jsonOf(fields map[string]string) []byte {
	body, _ := json.Marshal(fields) // text can always be JSON
	return body
}
