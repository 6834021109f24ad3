package generate

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seqd/seqd/client"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
)

func options(s *service, path string, count int64) job {
	return job{BizType: "invite", Count: count, Output: path, Client: client.Config{Addrs: []string{s.URL}, Timeout: await.Patience}}
}

func TestGenerate(t *testing.T) {
	for _, count := range []int64{1, 2, 999, 1000, 1001, 123_457} {
		s, path := serve(t), filepath.Join(t.TempDir(), "codes.txt")
		o := options(s, path, count)
		var last int64 = -1
		o.Progress = func(lines int64) {
			if lines < last {
				t.Errorf("%d lines after %d", lines, last)
			}
			last = lines
		}
		sum := must.Get(generate(t.Context(), o))(t)
		checkFile(t, path, count, s.next.Load())
		if sum.Lines != count || sum.Skipped != 0 || sum.Resumed != 0 || last != count || s.next.Load() != count {
			t.Errorf("%d: %+v, the last progress %d, issued %d", count, sum, last, s.next.Load())
		}
		if most := s.largest.Load(); count > 1000 && most != 1000 {
			t.Errorf("%d: it asked for at most %d at a time, and 1000 are allowed", count, most)
		}
	}
}

// The file is in the order of the batches, whatever the order of the answers.
func TestOrderOfBatches(t *testing.T) {
	s, path := serve(t), filepath.Join(t.TempDir(), "codes.txt")
	var order sync.Mutex
	var held atomic.Int64
	s.fault = func(w http.ResponseWriter, _ *http.Request, count int) bool {
		order.Lock()
		text := s.lines(count)
		order.Unlock()
		if held.Add(1)%4 == 1 { // of four that are under way, the first answers last
			time.Sleep(5 * time.Millisecond)
		}
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write(text)
		return true
	}
	o := options(s, path, 5000)
	o.Batch, o.Parallel = 100, 1
	must.Get(generate(t.Context(), o))(t)
	text := must.Get(os.ReadFile(path))(t)
	lines := strings.Fields(string(text))
	if !slices.IsSortedFunc(lines, func(a, b string) int { return len(a) - len(b) }) {
		t.Error("one request at a time, and the file is not in order")
	}
	checkFile(t, path, 5000, s.next.Load())
}

// Whatever the service or a proxy answers, only whole batches reach the file.
func TestRandomFaults(t *testing.T) {
	for seed := range longtest.Or(uint64(3), 100) {
		s, path := serve(t), filepath.Join(t.TempDir(), "codes.txt")
		s.fault = faults(s, seed)
		random := rand.New(rand.NewPCG(seed, 1))
		o := options(s, path, 30_000+random.Int64N(5000))
		o.Batch, o.Parallel = 300+random.IntN(2000), 1+random.IntN(8)
		o.Resume = true
		var added int64
		for range 100 { // several damaged answers in a row end a run
			sum, err := generate(t.Context(), o)
			added += sum.Lines - sum.Resumed
			if err == nil {
				break
			}
			if sum.Skipped == 0 {
				t.Errorf("seed %d: %v, and nothing was skipped", seed, err)
			}
			if _, ok := errors.AsType[*resumableError](err); !ok && sum.Lines > 0 {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		checkFile(t, path, o.Count, s.next.Load())
		must.Equal(t, added, o.Count, "seed %d: the lines that the runs say they added", seed)
	}
}

// A run that is stopped at a random moment leaves a file that can be continued, without a line
// lost.
func TestStopAndResume(t *testing.T) {
	s, path := serve(t), filepath.Join(t.TempDir(), "codes.txt")
	random := rand.New(rand.NewPCG(1, 2))
	o := options(s, path, 400_000)
	o.Batch, o.Resume = 1000, true
	var before []byte
	stops := 0
	for {
		ctx, cancel := context.WithCancel(t.Context())
		stopAt := random.Int64N(60_000)
		first := int64(-1)
		o.Progress = func(lines int64) {
			if first < 0 {
				first = lines
			}
			if lines-first > stopAt {
				cancel()
			}
		}
		sum, err := generate(ctx, o)
		cancel()
		now := must.Get(os.ReadFile(path))(t)
		if !bytes.HasPrefix(now, before) {
			t.Fatal("lines were lost")
		}
		if n := int64(bytes.Count(now, newline)); n != sum.Lines || !bytes.HasSuffix(now, newline) {
			t.Fatalf("the file has %d lines, and the run says %d", n, sum.Lines)
		}
		before = now
		if err == nil {
			break
		}
		if resumable, ok := errors.AsType[*resumableError](err); !ok || resumable.Lines != sum.Lines || !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		stops++
	}
	checkFile(t, path, o.Count, s.next.Load())
	if stops < 3 {
		t.Errorf("it was stopped only %d times", stops)
	}
}

// A file is resumed after whatever a crash can leave at its end.
func TestResumeAfterCrash(t *testing.T) {
	whole := "N1\nN2\nN3\n"
	for name, tt := range map[string]struct{ left, want string }{
		"empty":                 {"", ""},
		"whole lines":           {whole, whole},
		"partial line":          {whole + "N4", whole},
		"only a partial line":   {"N", ""},
		"zeros":                 {whole + "\x00\x00\x00", whole},
		"zeros in a line":       {whole + "N\x00\nN5\n", whole},
		"zeros, then lines":     {whole + "\x00\x00\nN9\n", whole},
		"zeros from the start":  {strings.Repeat("\x00", 5000), ""},
		"many blocks":           {strings.Repeat(whole, 1<<18) + "N", strings.Repeat(whole, 1<<18)},
		"a zero in a far block": {strings.Repeat(whole, 1<<18) + "\x00" + whole, strings.Repeat(whole, 1<<18)},
	} {
		t.Run(name, func(t *testing.T) {
			s, path := serve(t), filepath.Join(t.TempDir(), "codes.txt")
			count := int64(strings.Count(tt.want, "\n")) + 2500
			must.Do(t, (note{Format: noteFormat, BizType: "invite", Count: count}).write(path))
			must.Do(t, os.WriteFile(path, []byte(tt.left), 0o600))
			o := options(s, path, count)
			o.Resume = true
			sum := must.Get(generate(t.Context(), o))(t)
			text := must.Get(os.ReadFile(path))(t)
			rest, ok := bytes.CutPrefix(text, []byte(tt.want))
			if !ok || sum.Resumed != count-2500 || sum.Lines != count {
				t.Fatalf("%+v, the file begins with %.60q", sum, text)
			}
			checkLines(t, bytes.NewReader(rest), 2500, s.next.Load())
		})
	}
}

// Mistakes have a message that says what to do, and leave what is there as it is.
func TestMistakes(t *testing.T) {
	dir := t.TempDir()
	existing, incomplete, folderName := filepath.Join(dir, "existing"), filepath.Join(dir, "incomplete"), filepath.Join(dir, "folder")
	for _, path := range []string{existing, incomplete} {
		must.Do(t, os.WriteFile(path, []byte("precious\n"), 0o600))
	}
	must.Do(t, (note{Format: noteFormat, BizType: "invite", Count: 100}).write(incomplete))
	must.Do(t, os.Mkdir(folderName, 0o700))
	s := serve(t)
	for name, tt := range map[string]struct {
		change func(*job)
		want   string
	}{
		"exists":            {func(o *job) { o.Output = existing }, "--resume"},
		"not resumable":     {func(o *job) { o.Output, o.Resume = existing, true }, "cannot be resumed: it is complete, or"},
		"another biz type":  {func(o *job) { o.Output, o.Resume, o.BizType = incomplete, true, "order" }, `is for numbers of "invite", not of "order"`},
		"another count":     {func(o *job) { o.Output, o.Resume, o.Count = incomplete, true, 200 }, "--count 100"},
		"folder":            {func(o *job) { o.Output = folderName }, "is a folder"},
		"no output":         {func(o *job) { o.Output = "" }, "output is missing"},
		"no biz type":       {func(o *job) { o.BizType = "" }, "biz type is missing"},
		"count 0":           {func(o *job) { o.Count = 0 }, "count is 0"},
		"count -1":          {func(o *job) { o.Count = -1 }, "count is -1"},
		"batch":             {func(o *job) { o.Batch = mostBatch + 1 }, "batch is"},
		"memory":            {func(o *job) { o.Batch, o.Parallel = mostBatch, 5 }, "batch times parallel is 5000000"},
		"parallel":          {func(o *job) { o.Parallel = -1 }, "parallel is"},
		"patience":          {func(o *job) { o.Patience = -1 }, "patience is"},
		"resume and force":  {func(o *job) { o.Resume, o.Force = true, true }, "use one of them"},
		"resume the stream": {func(o *job) { o.Output, o.Resume = stdout, true }, "standard output"},
		"force the stream":  {func(o *job) { o.Output, o.Force = stdout, true }, "standard output"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(s, filepath.Join(dir, "new"), 100)
			tt.change(&o)
			_, err := generate(t.Context(), o)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !errors.Is(err, errMistake) {
				t.Errorf("%v, want a mistake with %q", err, tt.want)
			}
		})
	}
	for _, path := range []string{existing, incomplete} {
		must.Equal(t, string(must.Get(os.ReadFile(path))(t)), "precious\n", "%s", path)
	}
	if s.requests.Load() > 0 {
		t.Error("the service was asked")
	}
}

// A refusal that no patience helps ends the run at once and leaves no empty file.
func TestRefused(t *testing.T) {
	s, path := serve(t), filepath.Join(t.TempDir(), "codes.txt")
	o := options(s, path, 5000)
	o.BizType = "typo"
	_, err := generate(t.Context(), o)
	must.Is(t, err, client.ErrUnknownBizType)
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if n := s.requests.Load(); n > 2*defaultParallel {
		t.Errorf("it asked %d times", n)
	}
}

// A biz type that is exhausted in the middle leaves what there is.
func TestExhausted(t *testing.T) {
	s, path := serve(t), filepath.Join(t.TempDir(), "codes.txt")
	s.fault = func(w http.ResponseWriter, _ *http.Request, count int) bool {
		if s.next.Load() < 10_000 {
			return false
		}
		problem(w, 409, "exhausted", "no number is left", "")
		return true
	}
	o := options(s, path, 50_000)
	o.Parallel = 1
	sum, err := generate(t.Context(), o)
	if resumable, ok := errors.AsType[*resumableError](err); !ok || resumable.Lines != 10_000 || sum.Lines != 10_000 {
		t.Fatalf("%+v, %v", sum, err)
	}
	s.fault = nil
	o.Resume = true
	must.Get(generate(t.Context(), o))(t)
	checkFile(t, path, 50_000, s.next.Load())
}

// A service that is away for longer than Patience ends the run; Retry-After is heeded.
func TestPatience(t *testing.T) {
	s, path := serve(t), filepath.Join(t.TempDir(), "codes.txt")
	s.fault = func(w http.ResponseWriter, _ *http.Request, _ int) bool {
		problem(w, 503, "starting", "the service is starting", "1")
		return true
	}
	o := options(s, path, 5000)
	o.Patience = 300 * time.Millisecond
	_, err := generate(t.Context(), o)
	must.Is(t, err, client.ErrStarting)
	s.CloseClientConnections()
	s.Close()
	if _, err = generate(t.Context(), o); !errors.Is(err, client.ErrUnreachable) {
		t.Error(err)
	}
}

// What a service allows is learned also if it changes, or if its words do.
func TestLimitIsLearned(t *testing.T) {
	for _, detail := range []string{"must be a whole number from 1 to 70", "too large", "from 1 to 0", "from 1 to 999999999999999999"} {
		s, path := serve(t), filepath.Join(t.TempDir(), "codes.txt")
		s.maxCount = 1000
		s.fault = func(w http.ResponseWriter, _ *http.Request, count int) bool {
			if s.next.Load() < 5000 || count <= 70 {
				return false
			}
			problem(w, 400, "invalid_count", detail, "")
			return true
		}
		o := options(s, path, 20_000)
		if _, err := generate(t.Context(), o); err != nil {
			t.Fatalf("%q: %v", detail, err)
		}
		checkFile(t, path, 20_000, s.next.Load())
	}
}

func TestStdout(t *testing.T) {
	s := serve(t)
	var out bytes.Buffer
	o := options(s, stdout, 12_345)
	o.Stdout = &out
	sum, err := generate(t.Context(), o)
	if err != nil || sum.Lines != 12_345 {
		t.Fatalf("%+v, %v", sum, err)
	}
	checkLines(t, &out, 12_345, s.next.Load())
}

// A device that is full is an error that says so; a stream cannot be resumed.
func TestFullDevice(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("/dev/full is a file of Linux")
	}
	o := options(serve(t), "/dev/full", 100_000)
	_, err := generate(t.Context(), o)
	if _, ok := errors.AsType[*resumableError](err); err == nil || ok || !strings.Contains(err.Error(), "no space left") {
		t.Error(err)
	}
}

// A write that fails half-way leaves whole lines, and as many as the run says.
func TestHalfAWrite(t *testing.T) {
	for _, room := range []int{0, 1, 2, 3, 4, 700, 300_000, 300_001, 600_000} {
		s, path := serve(t), filepath.Join(t.TempDir(), "codes.txt")
		o := options(s, path, 100_000)
		o.Resume = true
		must.Do(t, o.complete())
		out := must.Get(open(&o))(t)
		out.w = &partly{out.file, room}
		from, err := newSource(&o)
		must.Do(t, err)
		err = out.end((&generator{job: o, out: out, source: from}).run(t.Context()))
		if !errors.Is(err, errFull) {
			t.Fatalf("room %d: %v", room, err)
		}
		if out.resumable() {
			text, err := os.ReadFile(path)
			if n := int64(bytes.Count(text, newline)); err != nil || n != out.lines() || len(text) > room || !bytes.HasSuffix(text, newline) {
				t.Errorf("room %d: %d bytes with %d lines, %d are said; %v", room, len(text), n, out.lines(), err)
			}
		} else if room > 20 {
			t.Errorf("room %d: not resumable", room)
		}
		must.Get(generate(t.Context(), o))(t)
		checkFile(t, path, o.Count, s.next.Load())
	}
}

var errFull = errors.New("no space left")

// partly writes to a file until the room is used up.
type partly struct {
	file *os.File
	room int
}

func (p *partly) Write(text []byte) (int, error) {
	n, err := p.file.Write(text[:min(len(text), p.room)])
	p.room -= n
	if err == nil && n < len(text) {
		err = errFull
	}
	return n, err
}

// Of two runs on one file, one is refused, whether it begins, resumes or replaces.
func TestTwoAtOnce(t *testing.T) {
	s, path := serve(t), filepath.Join(t.TempDir(), "codes.txt")
	o := options(s, path, 50_000)
	tried := false
	o.Progress = func(lines int64) {
		if lines < 10_000 || tried {
			return
		}
		tried = true
		for _, change := range []func(*job){func(*job) {}, func(o *job) { o.Resume = true }, func(o *job) { o.Force = true }} {
			second := options(s, path, 50_000)
			change(&second)
			if _, err := generate(t.Context(), second); err == nil {
				t.Error("a second run was let in")
			} else if !second.Resume && !second.Force != strings.Contains(err.Error(), "exists") {
				t.Error(err)
			}
		}
	}
	if _, err := generate(t.Context(), o); err != nil || !tried {
		t.Fatal(err)
	}
	checkFile(t, path, o.Count, s.next.Load())
}

// A file that is taken away or changed while it grows is not reported as complete.
func TestFileTakenAway(t *testing.T) {
	for name, harm := range map[string]func(path string) error{
		"removed": os.Remove,
		"renamed": func(path string) error { return os.Rename(path, path+".old") },
		"replaced": func(path string) error {
			return errors.Join(os.Remove(path), os.WriteFile(path, []byte("mine\n"), 0o600))
		},
		"truncated": func(path string) error { return os.Truncate(path, 0) },
		"appended": func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt([]byte("mine\n"), 1<<20)
			return errors.Join(err, f.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, path := serve(t), filepath.Join(t.TempDir(), "codes.txt")
			o, done := options(s, path, 50_000), false
			o.Progress = func(lines int64) {
				if lines < 40_000 || done {
					return
				}
				done = true
				must.Report(t, harm(path))
			}
			_, err := generate(t.Context(), o)
			if err == nil || !strings.Contains(err.Error(), path) || !done {
				t.Fatalf("got %v", err)
			}
			if _, resumable := errors.AsType[*resumableError](err); resumable != (name == "truncated" || name == "appended") {
				t.Errorf("resumable: %v: %v", resumable, err)
			}
		})
	}
}

// Force replaces a file, also one that is longer, and one of another biz type.
func TestForce(t *testing.T) {
	s, path := serve(t), filepath.Join(t.TempDir(), "codes.txt")
	must.Do(t, os.WriteFile(path, bytes.Repeat([]byte("old\n"), 100_000), 0o600))
	must.Do(t, (note{Format: noteFormat, BizType: "order", Count: 7}).write(path))
	o := options(s, path, 2000)
	o.Force = true
	must.Get(generate(t.Context(), o))(t)
	checkFile(t, path, 2000, s.next.Load())
}

// The memory of a run does not depend on its length.
func TestMemoryIsFlat(t *testing.T) {
	longtest.Only(t)
	s := serve(t)
	s.maxCount = 10_000
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	o := job{BizType: "invite", Count: 5_000_000, Output: filepath.Join(t.TempDir(), "codes.txt"), Client: client.Config{Addrs: []string{s.URL}, Transport: direct{s}}, Batch: 10_000}
	var early, late uint64
	o.Progress = func(lines int64) {
		switch {
		case early == 0 && lines >= 500_000:
			early = heap()
		case late == 0 && lines >= 4_900_000:
			late = heap()
		}
	}
	must.Get(generate(t.Context(), o))(t)
	if late > early+8<<20 {
		t.Errorf("the heap grew from %d to %d bytes", early, late)
	}
	checkFile(t, o.Output, o.Count, s.next.Load())
}

func FuzzCheck(f *testing.F) {
	f.Add([]byte("a\nb\n"), 2)
	f.Add([]byte("a\nb"), 2)
	f.Add([]byte(""), 1)
	f.Add([]byte("\n\n"), 2)
	f.Add([]byte("a\x00\n"), 1)
	f.Fuzz(func(t *testing.T, text []byte, count int) {
		if count < 1 || check(text, count) != nil {
			return
		}
		if lines := strings.SplitAfter(string(text), "\n"); len(lines) != count+1 || lines[count] != "" {
			t.Errorf("%q passes as %d lines", text, count)
		}
	})
}
