package jobs

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
)

// shown shows numbers of which those below 1000 have quotes and commas, and others their second.
func shown(_ context.Context, c *seqd.Call) error {
	made := c.Sequence.Made().Unix() % 10
	c.Sequence.Show(func(dst []byte, n int64, _ []byte) []byte {
		if n < 1000 {
			return fmt.Appendf(dst, `"%d",`, n)
		}
		return fmt.Appendf(dst, "%d-%d", n, made)
	})
	return nil
}

// issuing is a machine whose node is killed now and then, between issuing and writing.
type issuing struct {
	t     *testing.T
	rng   *rand.Rand
	store *memory.Store
	next  int64
	now   time.Time
	want  strings.Builder
	kept  int // chunks that count
	lost  int // chunks that do not
}

// chunk issues a chunk in pieces.
func (s *issuing) chunk(n int) *seqd.Sequence {
	seq := new(seqd.Sequence)
	for n > 0 {
		part := min(n, 1+s.rng.IntN(2*n))
		seq.Add(s.next, part, 1)
		s.next += int64(part) + s.rng.Int64N(3)
		n -= part
	}
	return seq
}

// run runs a job to its end and returns it.
func (s *issuing) run(id string, j *job) *job {
	ctx := s.t.Context()
	for {
		written := j.encode()
		var full []pageBody
		pages := len(j.Pages)
		line := ""
		switch j.act() {
		case nothing:
			return j
		case begin:
			j.begun("display", false, s.now)
		case issue:
			seq := s.chunk(j.next())
			seq.MadeAt(s.now)
			call := &seqd.Call{}
			call.Sequence.CopyFrom(seq)
			must.Do(s.t, shown(ctx, call))
			full = j.issued(blockOf(&call.Sequence, j.Format, s.now), s.now)
			var text []byte
			for one := range call.Sequence.Displays() {
				text = appendLine(text, j.Format, one)
			}
			line = string(text)
		case end:
			full = j.end(s.now, time.Hour, false)
		}
		if s.rng.IntN(20) == 0 {
			s.now = s.now.Add(time.Second)
		}
		must.Do(s.t, s.store.Documents().Keep(ctx, pagesOf(j.under(id), pages, full)))
		if s.rng.IntN(4) == 0 { // the node is killed before it writes the job
			if line != "" {
				s.lost++
			}
			var err error
			j, err = decode(id, written)
			must.Do(s.t, err)
			continue
		}
		if line != "" {
			s.kept++
		}
		s.want.WriteString(line)
	}
}

func TestResultIsWhatWasWritten(t *testing.T) {
	for seed := range uint64(15) {
		rng := rand.New(rand.NewPCG(seed, 7))
		s := &issuing{t: t, rng: rng, store: memory.New(time.Now), next: 1, now: time.Unix(1_800_000_000, 0)}
		format := []string{formatText, formatCSV, formatJSONL}[seed%3]
		j := s.run("x", &job{BizType: "coupon", Count: 1 + rng.Int64N(6000), Format: format, Chunk: 20 + rng.IntN(200), State: queued, Created: 1})
		must.Equal(t, j.State, done, "state")
		must.Equal(t, j.Done, j.Count, "numbers")
		must.Equal(t, j.Chunks, int64(s.kept), "chunks")
		must.Equal(t, len(j.Tail), 0, "the tail")

		want := header(format) + s.want.String()
		must.Equal(t, j.size(), int64(len(want)), "size")
		r := newResult(t.Context(), "x", j, shown, s.store.Documents())
		all, err := io.ReadAll(iotest.HalfReader(r))
		must.Do(t, err)
		if string(all) != want {
			t.Fatalf("seed %d: the result has %d bytes, and not the %d that were written", seed, len(all), len(want))
		}
		for range 50 {
			from := rng.Int64N(int64(len(want)))
			n := min(1+rng.Int64N(500), int64(len(want))-from)
			must.Do(t, must.Err(r.Seek(from, io.SeekStart)))
			got := make([]byte, n)
			_, err := io.ReadFull(r, got)
			must.Do(t, err)
			must.Equal(t, string(got), want[from:from+n], "a range")
		}
	}
}

// A byte far from what was read before is found at once if lines have one length.
func TestRangeShowsOnePart(t *testing.T) {
	const count = 1_000_000
	j := &job{Count: count, Done: count, Format: formatText, Tail: []block{{Length: 8, Bytes: 8 * count, Runs: []run{{1_000_000, count, 1}}}}}
	parts := 0
	r := newResult(t.Context(), "x", j, func(context.Context, *seqd.Call) error { parts++; return nil }, nil)
	for _, at := range []int64{0, 8 * 999_999} {
		must.Do(t, must.Err(r.Seek(at, io.SeekStart)))
		got := make([]byte, 8)
		must.Do(t, must.Err(io.ReadFull(r, got)))
		must.Equal(t, string(got), fmt.Sprintf("%d\n", 1_000_000+at/8), "a line")
	}
	must.Equal(t, parts, 2, "parts that were shown")
}

// However long the lines are, who downloads a result keeps little of it in memory.
func TestPartIsSmall(t *testing.T) {
	const count, length = 100_000, 300
	j := &job{Count: count, Done: count, Format: formatText, Tail: []block{{Length: length, Bytes: length * count, Runs: []run{{1, count, 1}}}}}
	r := newResult(t.Context(), "x", j, func(_ context.Context, call *seqd.Call) error {
		call.Sequence.Show(func(dst []byte, _ int64, _ []byte) []byte { return append(dst, strings.Repeat("x", length-1)...) })
		return nil
	}, nil)
	all := must.Get(io.Copy(io.Discard, r))(t)
	must.Equal(t, all, count*length, "bytes")
	if most := cap(r.text); most > 2*inPart {
		t.Errorf("a part takes %d bytes", most)
	}
}

func TestPages(t *testing.T) {
	// Runs that never merge fill pages; those that do need none.
	j := &job{Count: 1 << 40, Chunk: mostChunk, Format: formatText, Display: "d"}
	for n := range int64(500) {
		b := block{Made: 1, Length: 5, Bytes: 50 * 10}
		for i := range int64(10) {
			b.Runs = append(b.Runs, run{(n*10 + i) * 100, 10, 1})
		}
		j.issued(b, time.Unix(1, 0))
	}
	must.Equal(t, len(j.Pages), 4, "pages")
	must.Equal(t, j.Done, 500*100, "numbers")
	if text := j.encode(); len(text) > 64<<10 {
		t.Errorf("the document of the job has %d bytes", len(text))
	}
	j = &job{Count: 1 << 40, Chunk: mostChunk, Format: formatText, Display: "d"}
	for n := range int64(10_000) {
		j.issued(block{Made: 1, Length: 5, Bytes: 5 * mostChunk, Runs: []run{{1 + n*mostChunk, mostChunk, 1}}}, time.Unix(1, 0))
	}
	must.Equal(t, runsOf(j.Tail), 1, "runs of 10^9 numbers")
	// A chunk in very many pieces goes to several pages.
	big := block{Made: 1, Length: 9, Bytes: 9 * 20_000}
	for i := range int64(20_000) {
		big.Runs = append(big.Runs, run{1<<60 + i*3, 1, 1})
	}
	full := j.issued(big, time.Unix(1, 0))
	must.Equal(t, len(full), 5, "pages")
	for _, doc := range pagesOf("x/n/", 0, full) {
		must.Do(t, doc.CheckNew())
	}
	for range mostPages {
		j.Pages = append(j.Pages, page{})
	}
	j.issued(big, time.Unix(1, 0))
	must.Equal(t, j.act(), end, "what comes next")
	j.end(time.Unix(1, 0), time.Hour, false)
	must.Equal(t, j.State, failed, "state")
}

func TestRefused(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	fresh := func() *job {
		return &job{Count: 1000, Chunk: 100, Format: formatText, Display: "d", State: running}
	}
	j := fresh()
	must.Equal(t, j.refused(&seqd.Error{Code: seqd.CodeRateLimited, RetryAfter: time.Minute}), 10*time.Second, "wait")
	must.Equal(t, j.refused(&seqd.Error{Code: seqd.CodeStoreUnavailable}), 100*time.Millisecond, "wait")
	must.Equal(t, j.next(), 100, "chunk")
	j.refused(&seqd.Error{Code: seqd.CodeInvalidCount})
	must.Equal(t, j.next(), 50, "chunk")
	for range 6 {
		j.refused(&seqd.Error{Code: seqd.CodeInvalidCount})
	}
	must.Equal(t, j.next(), 1, "chunk")
	j.refused(&seqd.Error{Code: seqd.CodeInvalidCount, Detail: "none"})
	must.Equal(t, j.act(), end, "what comes next")
	j.end(now, time.Hour, false)
	must.Equal(t, j.State+" "+j.Code+" "+j.Detail, "failed invalid_count none", "state and why")
	must.Equal(t, j.due(time.Hour), now.Add(time.Hour).UnixMilli(), "due")

	j = fresh() // the ledger issued a chunk without an answer, and a limit was lowered before it is repeated
	j.Ledger = true
	for range 2 {
		j.refused(&seqd.Error{Code: seqd.CodeInvalidCount})
	}
	for _, chunk := range []int{50, 100} {
		j.refused(&seqd.Error{Code: seqd.CodeIdempotencyKeyReused})
		must.Equal(t, j.next(), chunk, "chunk")
	}
	must.Equal(t, j.refused(&seqd.Error{Code: seqd.CodeInvalidCount}), 10*time.Second, "wait")
	must.Equal(t, j.next(), 100, "chunk")
	j.issued(block{Runs: []run{{1, 100, 1}}}, now)
	j.refused(&seqd.Error{Code: seqd.CodeInvalidCount})
	must.Equal(t, j.next(), 50, "the next chunk")

	j = fresh() // the biz type was changed before it issued anything
	j.refused(&seqd.Error{Code: seqd.CodeConflict})
	must.Equal(t, j.act(), begin, "what comes next")
	j.begun("e", false, now)
	j.refused(&seqd.Error{Code: seqd.CodeConflict})
	must.Equal(t, j.act(), begin, "what comes next")
	j.begun("e", false, now)
	j.refused(&seqd.Error{Code: seqd.CodeConflict})
	must.Equal(t, j.act(), end, "what comes next")

	j = fresh() // and after
	j.issued(block{Runs: []run{{1, 100, 1}}}, now)
	j.refused(&seqd.Error{Code: seqd.CodeConflict})
	must.Equal(t, j.act(), end, "what comes next")
}

func TestStop(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	j := &job{Count: 1000, Chunk: 100, Format: formatText, State: queued}
	j.stop(now, time.Hour, false)
	must.Equal(t, j.State, cancelled, "state")

	j = &job{Count: 1000, Chunk: 100, Format: formatText, Display: "d", State: running}
	j.stop(now, time.Hour, false)
	must.Equal(t, j.act(), end, "what comes next")

	j = &job{Count: 1000, Chunk: 100, Format: formatText, Display: "d", State: running, Ledger: true}
	j.stop(now, time.Hour, false)
	// A chunk may have been issued that was not written: it is asked for again.
	must.Equal(t, j.act(), issue, "what comes next")
	j.issued(block{Runs: []run{{1, 100, 1}}}, now)
	must.Equal(t, j.act(), end, "what comes next")
	j.end(now, time.Hour, false)
	must.Equal(t, j.State, cancelled, "state")
}

func TestOnceIsThatOfTheChunk(t *testing.T) {
	j := &job{Nonce: "n", Count: 250, Chunk: 100, Format: formatText, Display: "d", Ledger: true}
	must.Equal(t, j.once("x"), "job/x/n/0", "once")
	_, err := decode("x", j.encode())
	must.Is(t, err, persist.ErrInvalid, "a job without a state")
	j.issued(block{Runs: []run{{1, 100, 1}}}, time.Unix(1, 0))
	j.issued(block{Runs: []run{{101, 100, 1}}}, time.Unix(1, 0))
	must.Equal(t, j.once("x"), "job/x/n/2", "once")
	must.Equal(t, j.next(), 50, "the last chunk")
}
