package remote_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd/client"
	"github.com/seqd/seqd/client/admin"
	"github.com/seqd/seqd/internal/testing/must"
)

// A job is made and downloaded, at once and in two parts, and removed.
func TestJobs(t *testing.T) {
	l := serving(t, "store: {driver: memory}\nbizTypes: [{name: coupon}]\n")
	made := l.until("jobs", "create", "coupon", "600000", "--name", "spring", "--idempotency-key", "k")
	id := strings.TrimSpace(made.out)
	must.Equal(t, made.code, 0, "making a job: %s", made.errs)
	must.Equal(t, l.run("jobs", "create", "coupon", "600000", "--name", "spring", "--idempotency-key", "k").out, made.out, "the same command again")

	file := filepath.Join(t.TempDir(), "coupons.txt")
	must.Equal(t, l.run("jobs", "download", id, "--output", file, "--wait"), outcome{}, "downloading it")
	all := must.Get(os.ReadFile(file))(t)
	must.Equal(t, strings.Count(string(all), "\n"), 600_000, "lines")
	must.Equal(t, l.run("jobs", "download", id, "-o", file), outcome{}, "downloading what is there")
	must.Equal(t, string(must.Get(os.ReadFile(file))(t)) == string(all), true, "the file is the same")
	must.Do(t, os.Truncate(file, 12_345))
	must.Equal(t, l.run("jobs", "download", id, "-o", file), outcome{}, "going on with it")
	must.Equal(t, string(must.Get(os.ReadFile(file))(t)) == string(all), true, "the file is the same")
	must.Equal(t, l.run("jobs", "download", id).out == string(all), true, "standard output is the same")

	for _, args := range [][]string{{"jobs", "list", "--biz-type", "coupon"}, {"jobs", "get", id}} {
		got := l.run(args...)
		if !strings.Contains(got.out, id) || !strings.Contains(got.out, "spring") || !strings.Contains(got.out, "done") {
			t.Errorf("%v: %+v", args, got)
		}
	}
	must.Equal(t, l.run("jobs", "remove", id).code, 0, "removing it")
	schedule := strings.TrimSpace(l.run("jobs", "create", "coupon", "5", "--at", "2099-01-01T06:00:00Z", "--every", "month", "--time-zone", "Asia/Tokyo").errs)
	must.Equal(t, strings.Contains(schedule, "more than a year ahead"), true, "%s", schedule)
	schedule = strings.TrimSpace(l.run("jobs", "create", "coupon", "5", "--every", "month", "--time-zone", "Asia/Tokyo").out)
	if got := l.run("jobs", "get", schedule); !strings.Contains(got.out, "scheduled") {
		t.Errorf("a schedule: %+v", got)
	}
	for _, args := range [][]string{{"jobs", "get", id}, {"jobs", "download", id}, {"jobs", "create", "coupon", "x"}, {"jobs", "create", "coupon", "1", "--at", "soon"}, {"jobs", "create", "coupon", "0"}, {"jobs", "create", "nothing", "1"}} {
		if got := l.run(args...); got.code == 0 || got.errs == "" {
			t.Errorf("%v: %+v", args, got)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A result may take as long as it likes over a slow network: the time-out is how long nothing of it
// arrives.
func TestSlowDownload(t *testing.T) {
	for _, stops := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := must.Get(client.New(client.Config{Addrs: []string{"http://a"}, Timeout: time.Second, Wait: -1, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				body, w := io.Pipe()
				go func() {
					for range 10 {
						time.Sleep(900 * time.Millisecond)
						_, _ = io.WriteString(w, "more")
					}
					if stops {
						<-r.Context().Done()
					}
					_ = w.CloseWithError(r.Context().Err())
				}()
				header := http.Header{"X-Request-Id": r.Header["X-Request-Id"]}
				return &http.Response{StatusCode: http.StatusOK, Header: header, Body: body, ContentLength: -1, Request: r}, nil
			})}))(t)
			var got strings.Builder
			_, err := admin.New(c).JobResult(t.Context(), "x", 0, false, &got)
			switch {
			case !stops:
				must.Do(t, err)
				must.Equal(t, got.String(), strings.Repeat("more", 10), "the result")
			case err == nil || !strings.Contains(err.Error(), "nothing of the answer arrived for 1s"):
				t.Errorf("a node that stops in its answer gives the error %v", err)
			}
		})
	}
}
