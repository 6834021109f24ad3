package lease

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/seqd/seqd/client"
	"github.com/seqd/seqd/command/clitool"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/testlog"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// leaseOf returns a lease of the times (noon+after, noon+until].
func leaseOf(after, until time.Duration) *client.WorkerLease {
	return &client.WorkerLease{WorkerID: 7, After: noon.Add(after), Until: noon.Add(until), TTL: 30 * time.Second}
}

// wants checks what is to be done at noon+at, or how long there is nothing to be done.
func (t *tenure) wants(tb testing.TB, at time.Duration, want act, wait time.Duration) {
	tb.Helper()
	what, got := t.next(noon.Add(at))
	must.Equal(tb, fmt.Sprint(what, got), fmt.Sprint(want, wait), "at %s", at)
}

// A command begins after the lease begins, and is gone before it ends.
func TestTenure(t *testing.T) {
	const s = time.Second
	refused, lost := &client.Error{Code: client.ErrStoreUnavailable}, &client.Error{Code: "lease_lost"}
	begun := func() *tenure {
		var v tenure
		v.granted(leaseOf(0, 30*s), noon)
		v.wants(t, 0, nothing, time.Millisecond)
		v.wants(t, s, start, 0)
		v.wants(t, s, nothing, s)
		return &v
	}

	v := begun()
	v.wants(t, 9500*time.Millisecond, nothing, s/2)
	v.wants(t, 10*s, renew, 0)
	v.wants(t, 10*s, nothing, s) // one at a time
	v.renewed(nil, refused, noon.Add(11*s))
	v.wants(t, 12500*time.Millisecond, nothing, s/2)
	v.wants(t, 13*s, renew, 0)
	v.renewed(leaseOf(0, 43*s), nil, noon.Add(13*s))
	v.wants(t, 23*s, renew, 0)
	v.wants(t, 32500*time.Millisecond, nothing, s/2)
	v.wants(t, 33*s, terminate, 0) // no answer
	v.renewed(leaseOf(0, 63*s), nil, noon.Add(33*s))
	v.wants(t, 34*s, nothing, s) // it has been told
	v.wants(t, 61500*time.Millisecond, kill, 0)
	v.wants(t, 62*s, nothing, s)

	v = begun()
	v.wants(t, 10*s, renew, 0)
	v.renewed(nil, lost, noon.Add(10*s))
	v.wants(t, 10*s, terminate, 0)
	v.wants(t, 28*s, nothing, s/2)
	v.wants(t, 28500*time.Millisecond, kill, 0)

	v = begun()
	v.wants(t, time.Hour, kill, 0) // paused
	v.wants(t, 0, nothing, s)

	v = begun()
	v.answered = noon.Add(-10 * s) // its clock was set back by 10 s meanwhile
	v.wants(t, 10*s, terminate, 0)

	v = new(tenure)
	v.granted(leaseOf(-time.Hour, 30*s), noon.Add(25*s)) // its clock is ahead
	v.wants(t, 25*s, terminate, 0)
}

// service leases one worker ID, and answers to other requests as it is told.
type service struct {
	now    func() time.Time
	status atomic.Int32 // of renewals; 0 renews
	mu     sync.Mutex
	asked  []string
	url    string
}

func newService(t *testing.T, now func() time.Time) *service {
	v := &service{now: now}
	s := httptest.NewServer(v)
	t.Cleanup(s.Close)
	v.url = s.URL
	return v
}

func (v *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	v.mu.Lock()
	v.asked = append(v.asked, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
	v.mu.Unlock()
	status, code := 201, ""
	if strings.Count(r.URL.Path, "/") == 3 {
		if status = int(v.status.Load()); status == 0 {
			status = 200
		}
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case status >= 400:
		if code = "store_unavailable"; status == 409 {
			code = "lease_lost"
		}
		w.Header().Set("Content-Type", "application/problem+json")
	case r.Method == http.MethodDelete:
		status = 204
	}
	w.WriteHeader(status)
	if status != 204 {
		_ = json.NewEncoder(w).Encode(map[string]any{
			"code": code, "pool": "shop", "workerId": 7, "lease": "x", "after": noon.Add(time.Minute), "until": v.now().Add(2 * time.Hour), "ttl": "1h",
			"epoch": "2025-01-01T00:00:00.000Z", "bitsMachine": 10, "bitsSequence": 12,
		})
	}
}

// last returns the newest request.
func (v *service) last() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.asked[len(v.asked)-1]
}

// running is a shell script that runs under a lease of an hour, after noon+1m, and a clock.
type running struct {
	*service
	t         *testing.T
	ms        atomic.Int64
	signals   chan os.Signal
	out, errs testlog.Text
	stop      context.CancelFunc
	ended     chan error
}

func runScript(t *testing.T, script string) *running {
	r := &running{t: t, signals: make(chan os.Signal, 1), ended: make(chan error, 1)}
	now := func() time.Time { return time.UnixMilli(r.ms.Load()) }
	r.ms.Store(noon.UnixMilli())
	r.service = newService(t, now)
	c := must.Get(client.New(client.Config{Addrs: []string{r.url}, Wait: -1, Timeout: await.Patience}))(t)
	l := must.Get(c.LeaseWorker(t.Context(), "shop", client.LeaseOptions{Instance: "a"}))(t)
	env := clitool.New(strings.NewReader(""), clitool.Escaped(&r.out), clitool.Escaped(&r.errs), []string{"A=b"})
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	go func() {
		v := runner{env: env, cmd: exec.Command("sh", "-c", script), now: now, signals: r.signals}
		r.ended <- v.run(ctx, l)
	}()
	return r
}

// until adds to the clock, and waits until a text was printed.
func (r *running) until(add time.Duration, text string) {
	r.t.Helper()
	r.ms.Add(add.Milliseconds())
	await.True(r.t, text, func() bool { return strings.Contains(r.out.String()+r.errs.String(), text) })
}

// A command gets what it needs to know once its lease begins, and signals. Its lease is renewed, and
// released with the time of its end.
func TestRun(t *testing.T) {
	r := runScript(t, `trap 'exit 7' TERM; echo $A $WORKER_ID $WORKER_POOL $WORKER_AFTER $WORKER_UNTIL; while :; do sleep 0.01; done`)
	r.until(61*time.Second, "b 7 shop 2026-11-30T12:01:00.000Z 2026-11-30T14:00:00.000Z\n")
	r.ms.Add(30 * time.Minute.Milliseconds())
	await.True(t, "the renewal", func() bool { return r.last() == "POST /workers/shop/x" })
	r.stop() // ends nothing
	r.signals <- syscall.SIGTERM
	must.Is(t, <-r.ended, clitool.Exit(7))
	must.Equal(t, r.last(), `DELETE /workers/shop/x {"last":"2026-11-30T12:31:01.000Z"}`)
	must.Equal(t, r.errs.String(), "")
}

// A command may have used what the clock showed before it was set back: the next holder of the worker
// ID begins above that.
func TestRunSetBack(t *testing.T) {
	r := runScript(t, `trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done`)
	r.until(61*time.Second, "up\n")
	r.ms.Add(30 * time.Minute.Milliseconds())
	await.True(t, "the renewal", func() bool { return r.last() == "POST /workers/shop/x" })
	r.ms.Add(-20 * time.Minute.Milliseconds())
	r.signals <- syscall.SIGTERM
	must.Do(t, <-r.ended)
	must.Equal(t, r.last(), `DELETE /workers/shop/x {"last":"2026-11-30T12:31:01.000Z"}`)
}

// A command that has not begun is not begun any more once seqd is to end, or the lease is lost.
func TestRunNeverBegins(t *testing.T) {
	r := runScript(t, `echo no`)
	r.stop()
	must.Is(t, <-r.ended, context.Canceled)
	must.Equal(t, r.last(), `DELETE /workers/shop/x {"last":"2026-11-30T12:01:00.000Z"}`)

	r = runScript(t, `echo no`)
	r.ms.Add(3 * time.Hour.Milliseconds())
	must.Is(t, <-r.ended, exitLost)
	must.Equal(t, r.out.String(), "")
}

// A command whose lease is lost is told to end, and is killed before the lease ends.
func TestRunLosesTheLease(t *testing.T) {
	for _, status := range []int{409, 503} {
		for _, obeys := range []bool{true, false} {
			t.Run(fmt.Sprint(status, obeys), func(t *testing.T) {
				does := "echo bye; exit 0"
				if !obeys {
					does = "echo bye"
				}
				r := runScript(t, `trap '`+does+`' TERM; echo up; while :; do sleep 0.01; done`)
				r.status.Store(int32(status))
				r.until(61*time.Second, "up\n")
				r.ms.Add((30 * time.Minute).Milliseconds()) // of 60, by the clock that nobody sets
				if status == 503 {
					await.True(t, "a renewal", func() bool { return r.last() == "POST /workers/shop/x" })
					r.ms.Add((11 * time.Minute).Milliseconds())
				}
				r.until(0, "bye\n")
				if !obeys {
					r.ms.Store(noon.Add(59 * time.Minute).UnixMilli())
					r.until(0, "sh is killed\n")
				}
				must.Is(t, <-r.ended, exitLost)
				want := map[int]string{409: "is lost: lease_lost", 503: "is lost: store_unavailable"}[status]
				if !strings.Contains(r.errs.String(), want) || strings.HasPrefix(r.last(), "DELETE") {
					t.Errorf("%q, and asked %q", r.errs.String(), r.last())
				}
			})
		}
	}
}

// That the lease could not be released changes nothing but a message.
func TestRunCannotRelease(t *testing.T) {
	r := runScript(t, `kill -9 $$`)
	r.status.Store(503)
	r.ms.Add(61_000)
	must.Is(t, <-r.ended, clitool.Exit(128+9))
	if want := "seqd: worker ID 7 stays held until 2026-11-30T14:00:00.000Z: store_unavailable"; !strings.HasPrefix(r.errs.String(), want) {
		t.Error(r.errs.String())
	}
}
