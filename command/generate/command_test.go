package generate

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seqd/seqd/command/clitool"
	"github.com/seqd/seqd/internal/testing/must"
)

// outcome is what a command line wrote, and its error.
type outcome struct {
	out, errs string
	err       error
}

// command runs seqd generate with arguments.
func command(t *testing.T, s *service, args ...string) outcome {
	t.Helper()
	var out, errs bytes.Buffer
	env := clitool.New(strings.NewReader(""), &out, &errs, []string{"SEQD_CLIENT_ADDR=" + s.URL})
	cmd := New(env)
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(t.Context())
	return outcome{out.String(), errs.String(), err}
}

func TestCommand(t *testing.T) {
	t.Chdir(t.TempDir())
	s := serve(t)
	got := command(t, s, "invite", "--count", "20_000", "-o", "codes.txt", "--json")
	var sum summary
	if err := json.Unmarshal([]byte(got.out), &sum); err != nil || got.err != nil {
		t.Fatal(err, got)
	}
	if sum.BizType != "invite" || sum.Output != "codes.txt" || sum.Lines != 20_000 || sum.Rate < 1 || sum.TookMS <= 0 {
		t.Errorf("%+v", sum)
	}
	checkFile(t, "codes.txt", 20_000, s.next.Load())
	got = command(t, s, "invite", "--count", "20_000", "-o", "codes.txt", "--force")
	if got.err != nil || !strings.HasPrefix(got.out, "codes.txt: 20000 lines in ") || got.errs != "" {
		t.Errorf("%+v", got)
	}
	got = command(t, s, "invite", "--count=5", "-o", "-")
	if got.err != nil || got.errs != "" {
		t.Errorf("%+v", got)
	}
	checkLines(t, strings.NewReader(got.out), 5, s.next.Load())
}

func TestCommandMistakes(t *testing.T) {
	t.Chdir(t.TempDir())
	must.Do(t, os.WriteFile("there", nil, 0o600))
	s := serve(t)
	for _, args := range [][]string{
		{"invite", "--count", "5", "-o", "there"},
		{"invite", "--count", "0", "-o", "new"},
		{"invite", "--count", "5", "-o", "-", "--json"},
		{"invite", "--count", "5", "-o", "-", "--resume"},
		{"invite", "--count", "5", "-o", "new", "--addr", "nonsense"},
		{"invite", "--count", "5", "-o", "new", "--batch", "-1"},
		{"--count", "5", "-o", "new"},
		{"invite", "order", "--count", "5", "-o", "new"},
	} {
		if got := command(t, s, args...); !errors.Is(got.err, clitool.ErrUsage) || got.out != "" {
			t.Errorf("%q: %+v", args, got)
		}
	}
	for _, args := range [][]string{{"invite", "-o", "new"}, {"invite", "--count", "5"}, {"invite", "--count", "many", "-o", "new"}} {
		if got := command(t, s, args...); got.err == nil || got.out != "" {
			t.Errorf("%q: %+v", args, got)
		}
	}
	// Not a mistake of the command line: the biz type may exist later.
	if got := command(t, s, "typo", "--count", "5", "-o", "new"); got.err == nil || errors.Is(got.err, clitool.ErrUsage) || !strings.Contains(got.err.Error(), "unknown_biz_type") {
		t.Errorf("%+v", got)
	}
	must.Is(t, must.Err(os.Stat("new")), os.ErrNotExist, "a file was left")
}

// A run that ends early says how far it came and how to continue, and the next one that it does.
func TestCommandResumes(t *testing.T) {
	t.Chdir(t.TempDir())
	s := serve(t)
	s.fault = func(w http.ResponseWriter, _ *http.Request, count int) bool {
		if s.next.Load() < 10_000 {
			return false
		}
		problem(w, 409, "disabled", "the biz type is disabled", "")
		return true
	}
	got := command(t, s, "invite", "--count", "50000", "-o", "codes.txt", "--parallel", "1")
	if got.err == nil || errors.Is(got.err, clitool.ErrUsage) || got.out != "" || !strings.HasPrefix(got.err.Error(), "disabled: the biz type is disabled") ||
		!strings.Contains(got.err.Error(), "codes.txt has 10000 of 50000 lines; the same command with --resume continues") {
		t.Errorf("%+v", got)
	}
	s.fault = nil
	got = command(t, s, "invite", "--count", "50000", "-o", "codes.txt", "--resume")
	if got.err != nil || !strings.Contains(got.errs, "codes.txt has 10000 of 50000 lines; it continues there") || !strings.Contains(got.out, "; 10000 were there") {
		t.Errorf("%+v", got)
	}
	checkFile(t, "codes.txt", 50_000, s.next.Load())
}

// A service that is away for a moment is waited for, and the command says so once.
func TestCommandWaits(t *testing.T) {
	t.Chdir(t.TempDir())
	s := serve(t)
	var refusals atomic.Int64
	s.fault = func(w http.ResponseWriter, _ *http.Request, _ int) bool {
		if refusals.Add(1) > 3 {
			return false
		}
		problem(w, 503, "starting", "the service is starting", "")
		return true
	}
	got := command(t, s, "invite", "--count", "5000", "-o", "codes.txt")
	if got.err != nil || strings.Count(got.errs, "\n") != 1 || !strings.HasPrefix(got.errs, "codes.txt waits: starting: the service is starting") {
		t.Errorf("%+v", got)
	}
	checkFile(t, "codes.txt", 5000, s.next.Load())
}

// Without a terminal progress is a line now and then.
func TestProgressLines(t *testing.T) {
	var errs bytes.Buffer
	p := newProgress(clitool.New(nil, nil, &errs, nil), &job{Output: filepath.Join("a", "codes.txt"), Count: 1000})
	now := time.Now()
	p.now = func() time.Time { return now }
	p.report(0)
	p.report(100)
	if errs.Len() > 0 {
		t.Errorf("at once it says %q", &errs)
	}
	now = now.Add(10 * time.Second)
	p.report(500)
	p.report(600)
	p.end()
	must.Equal(t, errs.String(), "a/codes.txt: 500 of 1000 lines, 50/s, 10s left\n", "it says")
}
