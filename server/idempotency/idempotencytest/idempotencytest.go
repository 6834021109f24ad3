// Package idempotencytest is the suite that every [idempotency.Backend] must pass. Call [Run].
package idempotencytest

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/idempotency"
)

// long is longer than any test.
const long = time.Hour

// Factory returns an empty backend, and a second one on the same records, as another node has it.
// pass lets time pass for both and then removes what has ended.
type Factory func(t *testing.T) (one, two idempotency.Backend, pass func(time.Duration))

// suite is the backends of one test.
type suite struct {
	*testing.T
	one, two idempotency.Backend
	pass     func(time.Duration)
}

// Run runs the suite.
func Run(t *testing.T, open Factory) {
	for _, test := range []struct {
		name string
		run  func(*suite)
	}{
		{"a claim holds until its lease ends", testClaim},
		{"a swap needs what the caller put there", testSwap},
		{"a swap if nothing is kept any more", testSwapMissing},
		{"what is kept ends", testEnds},
		{"a swap prolongs", testProlong},
		{"a drop needs what the caller put there", testDrop},
		{"records do not affect each other", testApart},
		{"a record of a megabyte", testLarge},
		{"of many claims one wins", testClaimRace},
		{"of many swaps one wins", testSwapRace},
		{"of many claims of a record that has ended one wins", testTakeOverRace},
		{"an ended context is an error", testContext},
		{"many requests with few keys issue once for each", testRequests},
	} {
		t.Run(test.name, func(t *testing.T) {
			one, two, pass := open(t)
			test.run(&suite{t, one, two, pass})
		})
	}
}

func (s *suite) claims(b idempotency.Backend, id, text string, lease time.Duration, want string) {
	s.Helper()
	if held, err := b.Claim(s.Context(), id, text, lease); held != want || err != nil {
		s.Errorf("a claim of %s found %.80q, %v, want %.80q", id, held, err, want)
	}
}

func (s *suite) swaps(b idempotency.Backend, id, old, text string, keep time.Duration, want string) {
	s.Helper()
	if held, err := b.Swap(s.Context(), id, old, text, keep); held != want || err != nil {
		s.Errorf("a swap of %s found %.80q, %v, want %.80q", id, held, err, want)
	}
}

func (s *suite) drops(b idempotency.Backend, id, old string) {
	s.Helper()
	if err := b.Drop(s.Context(), id, old); err != nil {
		s.Errorf("drop of %s: %v", id, err)
	}
}

// claim and answer return texts as package idempotency writes them.
func claim(name string) string  { return "1 p " + name + " 1" }
func answer(name string) string { return "1 d owner 1 t" + name }

func testClaim(s *suite) {
	s.claims(s.one, "a", claim("first"), 2*time.Minute, "")
	s.claims(s.two, "a", claim("second"), long, claim("first"))
	s.claims(s.one, "a", claim("first"), long, claim("first")) // changes nothing
	s.pass(121 * time.Second)
	s.claims(s.two, "a", claim("second"), long, "")
	s.claims(s.one, "a", claim("first"), long, claim("second"))
}

func testSwap(s *suite) {
	s.claims(s.one, "a", claim("first"), long, "")
	s.swaps(s.two, "a", claim("second"), answer("done"), long, claim("first"))
	s.swaps(s.one, "a", claim("first"), answer("done"), long, "")
	s.swaps(s.one, "a", claim("first"), answer("done"), long, answer("done"))
	// a late renewal
	s.swaps(s.one, "a", claim("first"), claim("first"), long, answer("done"))
	s.claims(s.two, "a", claim("second"), long, answer("done"))
}

func testSwapMissing(s *suite) {
	lapsed := func(id string) {
		s.Helper()
		for _, text := range []string{claim("first"), answer("done")} {
			if held, err := s.one.Swap(s.Context(), id, claim("first"), text, long); held != "" || seqd.CodeOf(err) != seqd.CodeTimeout {
				s.Errorf("a swap of %s found %.80q, %v", id, held, err)
			}
		}
		s.claims(s.two, id, claim("third"), long, "")
	}
	lapsed("a")
	s.claims(s.one, "b", claim("first"), time.Minute, "")
	s.pass(61 * time.Second)
	s.claims(s.two, "b", claim("second"), long, "")
	s.drops(s.two, "b", claim("second")) // it was answered from elsewhere
	lapsed("b")
	s.claims(s.one, "c", claim("first"), time.Minute, "")
	s.pass(61 * time.Second)
	s.claims(s.two, "c", claim("second"), long, "")
	s.swaps(s.one, "c", claim("first"), answer("done"), long, claim("second"))
	s.swaps(s.two, "c", claim("second"), answer("done"), long, "")
}

func testEnds(s *suite) {
	s.claims(s.one, "a", claim("first"), long, "")
	s.swaps(s.one, "a", claim("first"), answer("done"), 2*time.Minute, "")
	s.claims(s.two, "a", claim("second"), long, answer("done"))
	s.pass(10 * time.Minute)
	s.claims(s.two, "a", claim("second"), long, "")
}

func testProlong(s *suite) {
	s.claims(s.one, "a", claim("first"), 2*time.Minute, "")
	for range 3 {
		s.pass(time.Minute)
		s.swaps(s.one, "a", claim("first"), claim("first"), 2*time.Minute, "")
	}
	s.claims(s.two, "a", claim("second"), long, claim("first"))
	s.pass(121 * time.Second)
	s.claims(s.two, "a", claim("second"), long, "")
}

func testDrop(s *suite) {
	s.drops(s.one, "a", claim("first"))
	s.claims(s.one, "a", claim("first"), long, "")
	s.drops(s.two, "a", claim("second"))
	s.claims(s.two, "a", claim("second"), long, claim("first"))
	s.drops(s.one, "a", claim("first"))
	s.drops(s.one, "a", claim("first"))
	s.claims(s.two, "a", claim("second"), long, "")
	s.drops(s.one, "a", claim("first"))
	s.swaps(s.two, "a", claim("second"), answer("done"), long, "")
	s.drops(s.two, "a", claim("second"))
	s.claims(s.one, "a", claim("first"), long, answer("done"))
}

func testApart(s *suite) {
	ids := []string{"a", "A", "ab", "a-", "a_"}
	for _, id := range ids {
		s.claims(s.one, id, claim(id), long, "")
	}
	s.drops(s.two, "ab", claim("ab"))
	for _, id := range ids {
		want := claim(id)
		if id == "ab" {
			want = ""
		}
		s.claims(s.two, id, claim("other"), long, want)
	}
}

func testLarge(s *suite) {
	large := answer(strings.Repeat("ü", 1<<19-200))
	s.claims(s.one, "a", claim("first"), long, "")
	s.swaps(s.one, "a", claim("first"), large, long, "")
	s.claims(s.two, "a", claim("second"), long, large)
}

// crowd runs f many times at once on both nodes and returns how many calls returned "".
func (s *suite) crowd(f func(b idempotency.Backend, name string) (string, error)) int {
	var (
		wg  sync.WaitGroup
		won atomic.Int64
	)
	for i := range 16 {
		b := s.one
		if i%2 == 1 {
			b = s.two
		}
		wg.Go(func() {
			held, err := f(b, strconv.Itoa(i))
			if err != nil {
				s.Error(err)
			} else if held == "" {
				won.Add(1)
			}
		})
	}
	wg.Wait()
	return int(won.Load())
}

func testClaimRace(s *suite) {
	for id := range 10 {
		if won := s.crowd(func(b idempotency.Backend, name string) (string, error) {
			return b.Claim(context.Background(), strconv.Itoa(id), claim(name), long)
		}); won != 1 {
			s.Errorf("%d claimed it", won)
		}
	}
}

func testSwapRace(s *suite) {
	for id := range 10 {
		s.claims(s.one, strconv.Itoa(id), claim("claim"), long, "")
		if won := s.crowd(func(b idempotency.Backend, name string) (string, error) {
			return b.Swap(context.Background(), strconv.Itoa(id), claim("claim"), answer(name), long)
		}); won != 1 {
			s.Errorf("%d swapped it", won)
		}
	}
}

func testTakeOverRace(s *suite) {
	for id := range 10 {
		s.claims(s.one, strconv.Itoa(id), claim("claim"), time.Minute, "")
	}
	s.pass(61 * time.Second)
	for id := range 10 {
		if won := s.crowd(func(b idempotency.Backend, name string) (string, error) {
			return b.Claim(context.Background(), strconv.Itoa(id), claim(name), long)
		}); won != 1 {
			s.Errorf("%d took it over", won)
		}
	}
}

func testContext(s *suite) {
	s.claims(s.one, "a", claim("first"), long, "")
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	// The claim may have been made although ctx has ended. It must not find a claim that it did not
	// make.
	if held, err := s.two.Claim(ctx, "a", claim("second"), long); held != claim("first") && seqd.CodeOf(err) != seqd.CodeCanceled {
		s.Errorf("claim: %q, %v", held, err)
	}
	if held, err := s.two.Swap(ctx, "a", claim("second"), claim("x"), long); held != claim("first") && seqd.CodeOf(err) != seqd.CodeCanceled {
		s.Errorf("swap: %q, %v", held, err)
	}
	s.claims(s.two, "a", claim("second"), long, claim("first"))
}

// testRequests checks that all requests with one key get the same number, and that no two keys get
// the same one.
func testRequests(s *suite) {
	const keys, repeats = 8, 12
	var (
		issued atomic.Int64
		mu     sync.Mutex // guards got
		wg     sync.WaitGroup
	)
	got := make(map[string]string)
	var nodes [2]*idempotency.Answers
	for i, backend := range []idempotency.Backend{s.one, s.two} {
		nodes[i] = idempotency.New(idempotency.Options{Backend: backend, Cluster: "c", TTL: long, Wait: time.Minute, Log: slog.New(slog.DiscardHandler)})
	}
	for i := range keys * repeats {
		wg.Go(func() {
			key := "key " + strconv.Itoa(i/2%keys)
			call := &seqd.Call{BizType: "order", Count: 1}
			replayed, err := nodes[i%2].Once(context.Background(), key, call, func(_ context.Context, call *seqd.Call) error {
				call.Sequence.Add(issued.Add(1), 1, 1)
				return nil
			})
			if err != nil {
				s.Error(err)
				return
			}
			if replayed == "" {
				replayed = strings.Join(call.Sequence.IDs(), "\n")
			}
			mu.Lock()
			defer mu.Unlock()
			if before, known := got[key]; known && before != replayed {
				s.Errorf("%s got %s and %s", key, before, replayed)
			}
			got[key] = replayed
		})
	}
	wg.Wait()
	if issued.Load() != keys {
		s.Errorf("issued %d times for %d keys", issued.Load(), keys)
	}
}
