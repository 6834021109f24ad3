package generate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seqd/seqd/client"
	"github.com/seqd/seqd/client/admin"
	"github.com/seqd/seqd/command/clitool"
	"github.com/seqd/seqd/internal/testing/must"
)

// worker is a fake of a service that has one job at most. It is for one run at a time.
type worker struct {
	*service
	mu    sync.Mutex // guards what follows, while requests may be under way
	job   admin.Job
	once  string
	made  int
	lines string // does not change then
	// at is called before each request, and may answer it.
	at func(w http.ResponseWriter, r *http.Request) bool
}

const jobID = "0123456789abcdef0123456789abcdef"

// works starts a fake service whose job ends in a state.
func works(t *testing.T, count int, state string) *worker {
	s := &worker{service: &service{maxCount: 1000}}
	s.lines = string(s.service.lines(count))
	s.service.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", r.Header.Get("X-Request-Id"))
		var at func(w http.ResponseWriter, r *http.Request) bool
		s.locked(func() { at = s.at })
		if at != nil && at(w, r) {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		switch r.Method + " " + strings.ReplaceAll(r.URL.Path, jobID, "ID") {
		case "POST /jobs":
			if s.once = r.Header.Get("Idempotency-Key"); s.made == 0 {
				must.Do(t, json.NewDecoder(r.Body).Decode(&s.job))
				s.job.ID, s.job.State, s.job.Format = jobID, "running", "text"
			}
			s.made++
			s.answer(t, w, http.StatusAccepted)
		case "GET /jobs/ID":
			if s.job.ID == "" {
				problem(w, 404, "unknown_job", "there is no job", "")
				return
			}
			s.answer(t, w, http.StatusOK)
			if s.job.Done += s.job.Count / 2; s.job.Done >= s.job.Count { // as the next request finds it
				s.job.Done, s.job.State, s.job.EndedAt = s.job.Count, state, time.Now()
			}
		case "GET /jobs/ID/result":
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("Etag", `"a"`)
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader(s.lines))
		default:
			problem(w, 404, "not_found", "there is nothing", "")
		}
	}))
	t.Cleanup(s.Close)
	t.Chdir(t.TempDir())
	return s
}

func (s *worker) locked(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *worker) answer(t *testing.T, w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	must.Do(t, json.NewEncoder(w).Encode(s.job))
}

// on reports whether a request has a method, and a path with this end.
func on(r *http.Request, method, ending string) bool {
	return r.Method == method && strings.HasSuffix(r.URL.Path, ending)
}

// A file is made through a job, and one that is complete is left alone.
func TestJob(t *testing.T) {
	s := works(t, 2000, "done")
	got := command(t, s.service, "invite", "--count=2000", "-o", "codes.txt", "--job")
	if got.err != nil || !strings.HasPrefix(got.out, "codes.txt: 2000 lines in ") {
		t.Errorf("%+v", got)
	}
	checkFile(t, "codes.txt", 2000, s.next.Load())
	got = command(t, s.service, "invite", "--count=2000", "-o", "-", "--job="+jobID)
	if got.err != nil || got.out != s.lines {
		t.Errorf("to the standard output: %v, %d bytes", got.err, len(got.out))
	}
	s.locked(func() { must.Equal(t, s.made, 1, "jobs that were asked for") })
}

// Whatever breaks a run, the same command with --resume makes the same file from one job.
func TestJobResumed(t *testing.T) {
	// More than the two parts of 4 MiB that are asked for at a time.
	const lines = 1_000_000
	for name, broken := range map[string]func(s *worker, w http.ResponseWriter, r *http.Request, n int64, interrupt func()) bool{
		"the answer to the request is lost": func(s *worker, w http.ResponseWriter, r *http.Request, _ int64, interrupt func()) bool {
			if !on(r, "POST", "/jobs") {
				return false
			}
			s.locked(func() { s.at = nil })
			s.Config.Handler.ServeHTTP(httptest.NewRecorder(), r)
			interrupt()
			panic(http.ErrAbortHandler)
		},
		"Ctrl-C while it runs": func(_ *worker, _ http.ResponseWriter, r *http.Request, _ int64, interrupt func()) bool {
			if on(r, "GET", jobID) {
				interrupt()
			}
			return false
		},
		"Ctrl-C while it is downloaded": func(_ *worker, _ http.ResponseWriter, r *http.Request, _ int64, interrupt func()) bool {
			if on(r, "GET", "/result") && !strings.HasPrefix(r.Header.Get("Range"), "bytes=0-") {
				interrupt()
			}
			return false
		},
		"the node refuses": func(_ *worker, w http.ResponseWriter, r *http.Request, n int64, _ func()) bool {
			if n == 5 {
				problem(w, 409, "conflict", "it shows numbers in another way", "")
			}
			return n == 5
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := works(t, lines, "done")
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			var requests atomic.Int64
			s.at = func(w http.ResponseWriter, r *http.Request) bool {
				return broken(s, w, r, requests.Add(1), interrupt)
			}
			o := job{BizType: "invite", Count: lines, Output: "codes.txt", Job: newJob, Client: client.Config{Addrs: []string{s.URL}}}
			_, err := generate(ctx, o)
			if _, ok := errors.AsType[*resumableError](err); !ok {
				t.Fatalf("the run ends with %v", err)
			}
			found := must.Get(os.ReadFile("codes.txt" + noteSuffix))(t)
			s.locked(func() { s.at = nil })
			for _, args := range [][]string{{"--resume"}, {"--resume", "--job=other"}} {
				got := command(t, s.service, append([]string{"invite", "--count", fmt.Sprint(lines), "-o", "codes.txt"}, args...)...)
				must.Is(t, got.err, clitool.ErrUsage, "%q", args)
			}
			o.Resume = true
			sum := must.Get(generate(t.Context(), o))(t)
			must.Equal(t, string(must.Get(os.ReadFile("codes.txt"))(t)) == s.lines, true, "the file is the result, after %s", found)
			must.Equal(t, sum.Lines, lines, "lines")
			s.locked(func() {
				must.Equal(t, strings.Contains(string(found), s.once), true, "the note has the Idempotency-Key")
			})
		})
	}
}

// A job that will have no result leaves no file.
func TestJobEnds(t *testing.T) {
	s := works(t, 10, "failed")
	s.job.Error = &admin.JobError{Code: "disabled", Detail: "the biz type is disabled"}
	got := command(t, s.service, "invite", "--count=10", "-o", "codes.txt", "--job")
	if got.err == nil || !strings.Contains(got.err.Error(), "is failed after 10 of 10 numbers: disabled: the biz type is disabled") || strings.Contains(got.err.Error(), "resume") {
		t.Errorf("%v", got.err)
	}
	s = works(t, 10, "done")
	s.at = func(w http.ResponseWriter, _ *http.Request) bool {
		problem(w, 403, "forbidden", "the token lacks the scope", "")
		return true
	}
	must.Equal(t, command(t, s.service, "invite", "--count=10", "-o", "codes.txt", "--job").err != nil, true, "a refusal is an error")
	for _, file := range []string{"codes.txt", "codes.txt" + noteSuffix} {
		must.Is(t, must.Err(os.Stat(file)), os.ErrNotExist, file)
	}
}

// A job that does not fit, is gone, or is shorter than it says, is said to be.
func TestJobMistakes(t *testing.T) {
	s := works(t, 10, "done")
	s.job = admin.Job{ID: jobID, BizType: "invite", Count: 10, Format: "csv", State: "running"}
	for _, args := range [][]string{
		{"invite", "--count=10", "-o", "-", "--job=" + jobID},
		{"invite", "--count=10", "-o", "-", "--job=fedcba9876543210fedcba9876543210"},
		{"invite", "--count=10", "-o", "-", "--job="},
		{"invite", "--count=11", "-o", "new", "--job=" + jobID},
	} {
		got := command(t, s.service, args...)
		if got.err == nil || got.out != "" {
			t.Errorf("%q: %+v", args, got)
		}
	}
	must.Equal(t, command(t, s.service, "invite", "--count=10", "-o", "-", "--job", "--batch=5").err != nil, true, "--job and --batch exclude each other")
	s.locked(func() { s.job.Format, s.lines = "text", "N1\nN2\n" })
	got := command(t, s.service, "invite", "--count=10", "-o", "codes.txt", "--job="+jobID)
	if got.err == nil || !strings.Contains(got.err.Error(), "has 2 lines in place of 10") {
		t.Errorf("%+v", got)
	}
	s.locked(func() { s.job.ID = "" })
	got = command(t, s.service, "invite", "--count=10", "-o", "codes.txt", "--job", "--resume")
	if got.err == nil || !strings.Contains(got.err.Error(), "begin again with --force") {
		t.Errorf("%+v", got)
	}
}

// Lines may come in any parts.
func TestLineWriter(t *testing.T) {
	var text strings.Builder
	out := &output{w: &text, count: 3}
	w := lineWriter{out: out, progress: func(int64) {}}
	for _, part := range []string{"N", "1", "\nN2\nN", "3", "\n"} {
		must.Get(io.WriteString(&w, part))(t)
	}
	must.Do(t, out.flush())
	must.Equal(t, text.String(), "N1\nN2\nN3\n", "the lines")
}
