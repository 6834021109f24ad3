package answerquota

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
)

const ttl = 8 * time.Hour

// documents are those of a store that may be away.
type documents struct {
	persist.Documents
	away atomic.Bool
}

func (d *documents) List(ctx context.Context, kind, after string, limit int) ([]persist.Document, error) {
	if d.away.Load() {
		return nil, persist.ErrUnavailable
	}
	return d.Documents.List(ctx, kind, after, limit)
}

// begin returns a quota of a process that runs until stop is called.
func begin(t *testing.T, docs persist.Documents, most, mostPerOwner int64) (q *Quota, stop func()) {
	q = New(Options{Documents: docs, Clock: time.Now, Bounds: func() (int64, int64) { return most, mostPerOwner }, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); q.Follow(ctx) }()
	synctest.Wait()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return q, stop
}

// soon is when all processes have written, and read what others had written. It is no multiple of
// pause, so that nothing happens when a test looks.
const soon = 2*pause + pause/3

// wants checks what a quota says to an owner, and after how many hours of the test a refusal ends,
// unless that is 0.
func wants(t *testing.T, q *Quota, owner string, code seqd.Code, hours int) {
	t.Helper()
	err := q.Admit(owner)
	if seqd.CodeOf(err) != code {
		t.Errorf("%s gets %v, want %s", owner, err, code)
	} else if hours > 0 {
		ends := time.Now().Add(seqd.AsError(err).RetryAfter)
		if want := time.Date(2000, 1, 1, hours, 0, 0, 0, time.UTC); !ends.Equal(want) { // when each bubble begins
			t.Errorf("%s is refused until %v, want %v", owner, ends, want)
		}
	}
}

func open(t *testing.T) *documents {
	store := memory.New(nil)
	t.Cleanup(func() { _ = store.Close() })
	return &documents{Documents: store.Documents()}
}

// One owner is bounded before all are. What is kept counts until it ends, and on all nodes.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := open(t)
		a, _ := begin(t, docs, 5000, 2000)
		b, stop := begin(t, docs, 5000, 2000)
		time.Sleep(time.Hour/2 + pause/4) // no multiple of pause, nor are the times of what follows
		a.Kept("x", 1800, ttl)
		wants(t, a, "x", seqd.CodeTooManyAnswers, 9)
		wants(t, a, "y", "", 0)
		wants(t, b, "x", "", 0) // it has not looked yet
		time.Sleep(soon)
		wants(t, b, "x", seqd.CodeTooManyAnswers, 9)
		time.Sleep(2 * time.Hour)
		b.Kept("y", 1000, ttl)
		b.Kept("z", 1800, ttl)
		wants(t, b, "", seqd.CodeAnswersFull, 9)
		wants(t, b, "z", seqd.CodeTooManyAnswers, 11)
		time.Sleep(soon)
		must.Equal(t, a.Bytes(), 5200, "the bytes")
		stop()
		again, _ := begin(t, docs, 5000, 2000)
		wants(t, again, "w", seqd.CodeAnswersFull, 9)
		time.Sleep(7 * time.Hour)
		wants(t, again, "x", "", 0)
		wants(t, again, "z", seqd.CodeTooManyAnswers, 11)
		time.Sleep(2 * ttl)
		again.Kept("x", 0, ttl)
		time.Sleep(soon)
		if list, err := docs.Documents.List(t.Context(), kind, "", 10); err != nil || len(list) != 1 || again.Bytes() != overhead || a.Bytes() != overhead {
			t.Errorf("%v, %v, %d bytes", list, err, a.Bytes())
		}
	})
}

// Without a bound nothing is refused.
func TestUnbounded(t *testing.T) {
	q := New(Options{Clock: time.Now, Bounds: func() (int64, int64) { return 0, 0 }})
	q.Kept("x", 1<<40, ttl)
	wants(t, q, "x", "", 0)
}

// While the store is away what was read last counts, and what is kept meanwhile is written later. A
// damaged document counts nothing.
func TestStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := open(t)
		must.Do(t, docs.Create(t.Context(), persist.Document{Kind: kind, Key: "damaged", Revision: 1, Body: "{", Timestamp: 1, Expires: time.Now().Add(ttl).UnixMilli()}))
		a, _ := begin(t, docs, 0, 1000)
		b, _ := begin(t, docs, 0, 1000)
		a.Kept("x", 900, ttl)
		time.Sleep(soon)
		docs.away.Store(true)
		a.Kept("y", 900, ttl)
		time.Sleep(soon)
		for _, owner := range []string{"x", "y"} {
			wants(t, a, owner, seqd.CodeTooManyAnswers, 0)
		}
		wants(t, b, "y", "", 0)
		docs.away.Store(false)
		time.Sleep(soon)
		if b.Admit("x") == nil || b.Admit("y") == nil {
			t.Error("b does not know what a keeps")
		}
	})
}

// Owners beyond the bound count in all only, so that a document stays small.
func TestManyOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := open(t)
		a, _ := begin(t, docs, 0, 1000)
		for i := range mostOwners + 10 {
			a.Kept(fmt.Sprint("owner", i), 900, ttl)
		}
		time.Sleep(soon)
		wants(t, a, "owner0", seqd.CodeTooManyAnswers, 0)
		wants(t, a, fmt.Sprint("owner", mostOwners+1), "", 0)
		if got, want := a.Bytes(), int64(mostOwners+10)*1100; got != want || len(a.kept[0].Bytes) != mostOwners+1 {
			t.Errorf("%d bytes of %d owners, want %d", got, len(a.kept[0].Bytes), want)
		}
	})
}

// What all processes keep counts, however many there were, and each thing until it ends.
func TestManyProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := open(t)
		ends := time.Now().Add(time.Minute).UnixMilli()
		for i := range mostPurged + 1 {
			body := fmt.Sprintf(`[{"ends":%d,"bytes":{"x":10}}]`, ends)
			doc := persist.Document{Kind: kind, Key: fmt.Sprint(i), Revision: 1, Body: body, Timestamp: 1, Expires: ends}
			must.Do(t, docs.Create(t.Context(), doc))
		}
		a, _ := begin(t, docs, 0, 10*(mostPurged+1))
		a.Kept("y", 800, 3*ttl)
		a.Kept("y", 800, ttl)
		time.Sleep(soon)
		wants(t, a, "x", seqd.CodeTooManyAnswers, 0)
		must.Equal(t, a.Bytes(), int64(10*(mostPurged+1)+2000), "the bytes")
		time.Sleep(2 * ttl)
		must.Equal(t, a.Bytes(), 1000, "the bytes left, which are kept longer,")
	})
}
