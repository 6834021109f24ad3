package audit_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/testlog"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/persist/storeclock"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/audit"
)

// store is a store that can be away.
type store struct {
	persist.Documents
	away atomic.Bool
	keep atomic.Int64 // calls of Keep
}

var errAway = errors.New("away")

func (s *store) Keep(ctx context.Context, list []persist.Document) error {
	s.keep.Add(1)
	if s.away.Load() {
		return errAway
	}
	return s.Documents.Keep(ctx, list)
}

func (s *store) List(ctx context.Context, kind, after string, limit int) ([]persist.Document, error) {
	if s.away.Load() {
		return nil, errAway
	}
	return s.Documents.List(ctx, kind, after, limit)
}

// bench is a log with its store, and what it logs.
type bench struct {
	*audit.Log
	store *store
	lines *testlog.Text
	end   func()
}

// newBench returns a log that runs. Call it inside of a bubble of synctest.
func newBench(t *testing.T) *bench {
	b := &bench{lines: new(testlog.Text)}
	memory := memory.New(time.Now)
	b.store = &store{Documents: memory.Documents()}
	b.Log = audit.New(slog.New(slog.NewTextHandler(b.lines, nil)), time.Now)
	b.Open(audit.Store{
		Documents: b.store, Clock: storeclock.New(memory, time.Now, nil), ID: "n1", Host: "web-1", Node: "127.0.0.1:8080",
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { b.Run(ctx); close(ended) }()
	b.end = func() { cancel(); <-ended }
	return b
}

// all returns all lines that are kept, read in pages.
func (b *bench) all(t *testing.T, limit int) (list []admin.AuditLine) {
	t.Helper()
	for after := ""; ; {
		page, next, err := b.List(t.Context(), admin.AuditOf{}, after, limit)
		if err != nil || len(page) > limit {
			t.Fatalf("%d lines, %v", len(page), err)
		}
		list = append(list, page...)
		if next == "" {
			return list
		}
		after = next
	}
}

func change(i int) admin.Attempt {
	return admin.Attempt{
		Caller: "ops", Addr: "192.0.2.1", RequestID: fmt.Sprint("r", i), Method: "PUT", Path: "/biz-types/order",
		Query: "force=true", Target: "order", Status: 200, Version: int64(i),
	}
}

func refused(i int) admin.Attempt {
	return admin.Attempt{Addr: "192.0.2.9", RequestID: fmt.Sprint("x", i), Method: "DELETE", Path: "/tokens/ops", Target: "ops", Status: 401}
}

// A line has everything that was written, and is in the log at once and in the store soon. Lines
// are listed from the newest on, those of one moment too.
func TestLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.end()
		began := time.Now()
		for i := range 450 {
			if i%3 == 0 {
				time.Sleep(time.Millisecond)
			}
			b.Write(t.Context(), change(i))
		}
		must.Equal(t, strings.Count(b.lines.String(), "msg=audit"), 450, "the lines logged")
		time.Sleep(time.Second)
		list := b.all(t, 7)
		for i, line := range list {
			if want := fmt.Sprint("r", 449-i); line.RequestID != want {
				t.Fatalf("line %d is %+v, want %s", i, line, want)
			}
		}
		if len(list) != 450 {
			t.Fatalf("%d lines are kept", len(list))
		}
		want := admin.AuditLine{
			At: began.Add(150 * time.Millisecond).UTC().Format("2006-01-02T15:04:05.000Z"), NodeID: "n1", Host: "web-1", Node: "127.0.0.1:8080", Attempt: change(449),
		}
		must.Equal(t, list[0], want)
		if n := b.store.keep.Load(); n > 5 {
			t.Errorf("450 lines took %d writes", n)
		}
	})
}

// Before the store is open lines wait, and a list says that the service is starting.
func TestNotOpenYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := audit.New(slog.New(slog.DiscardHandler), time.Now)
		log.Write(t.Context(), change(1))
		if _, _, err := log.List(t.Context(), admin.AuditOf{}, "", 10); seqd.CodeOf(err) != seqd.CodeStarting {
			t.Errorf("%v", err)
		}
		memory := memory.New(time.Now)
		log.Open(audit.Store{Documents: memory.Documents(), Clock: storeclock.New(memory, time.Now, nil), ID: "n1"})
		must.Do(t, log.Close(t.Context()))
		if list, _, err := log.List(t.Context(), admin.AuditOf{}, "", 10); len(list) != 1 || err != nil {
			t.Errorf("%v, %v", list, err)
		}
	})
}

// While the store is away lines wait, as many as fit, and are kept when it is back, with how many
// are missing. A list is refused meanwhile, and so is nothing else.
func TestStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.end()
		b.store.away.Store(true)
		for i := range 5000 {
			b.Write(t.Context(), change(i))
		}
		time.Sleep(time.Minute)
		if _, _, err := b.List(t.Context(), admin.AuditOf{}, "", 10); seqd.CodeOf(err) != seqd.CodeStoreUnavailable {
			t.Errorf("%v", err)
		}
		if n := b.store.keep.Load(); n > 70 {
			t.Errorf("the store was asked %d times in a minute", n)
		}
		b.store.away.Store(false)
		time.Sleep(5 * time.Second)
		b.Write(t.Context(), change(5000))
		time.Sleep(5 * time.Second)
		list, left := b.all(t, 1000), int64(0)
		for _, line := range list {
			left += line.LeftOut
		}
		if len(list) < 2000 || left+int64(len(list)) != 5001 || list[0].RequestID != "r5000" {
			t.Errorf("%d lines are kept, %d were left out, the last is %+v", len(list), left, list[0])
		}
		if log := b.lines.String(); strings.Count(log, "level=WARN") != 1 || !strings.Contains(log, "kept in the store again") {
			t.Errorf("the log does not say once that the store was away and is back")
		}
	})
}

// A flood of refused attempts is bounded, and every attempt is counted. Changes in between are
// kept.
func TestFloodOfRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.end()
		written, changes := 0, 0
		for range 600 { // 10 minutes
			for range 50 {
				b.Write(t.Context(), refused(written))
				written++
			}
			if written%3000 == 0 {
				b.Write(t.Context(), change(changes))
				changes++
			}
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		var kept, keptChanges int
		var left int64
		for _, line := range b.all(t, 100) {
			left += line.LeftOut
			if line.Status == 200 {
				keptChanges++
				continue
			}
			kept++
		}
		if keptChanges != changes || int64(kept)+left != int64(written) {
			t.Errorf("%d of %d changes, %d refused attempts and %d left out of %d", keptChanges, changes, kept, left, written)
		}
		if kept < 100 || kept > 100+10*6+7 {
			t.Errorf("%d refused attempts are kept", kept)
		}
	})
}

// Dry runs are in the log, and only those without permission in the store.
func TestDryRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.end()
		for _, status := range []int{200, 400, 401, 403, 409} {
			line := change(status)
			line.Status, line.DryRun = status, true
			b.Write(t.Context(), line)
		}
		time.Sleep(time.Second)
		list := b.all(t, 10)
		if len(list) != 2 || list[0].Status != 403 || list[1].Status != 401 || strings.Count(b.lines.String(), "msg=audit") != 5 {
			t.Errorf("%+v", list)
		}
	})
}

// A flood of lines that change nothing leaves few in the log, some of each caller, whatever is
// answered, and hides none of another caller, nor a change.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.end()
		for i := range 10_000 {
			line := refused(i)
			b.Write(t.Context(), line)
			line.Addr = fmt.Sprint("2001:db8::", i%1000)
			b.Write(t.Context(), line)
		}
		weak, list := refused(1), change(2)
		weak.Caller = "weak"
		list.Method, list.Path, list.Read = "GET", "/tokens", true
		for i := range 100 {
			weak.Status = []int{403, 404, 409, 429}[i%4] // such as signing in to the console too often
			weak.Addr = fmt.Sprint("2001:db8::", i)
			b.Write(t.Context(), weak)
			b.Write(t.Context(), list)
		}
		b.Write(t.Context(), change(1))
		count := func(of string) int { return strings.Count(b.lines.String(), of) }
		if all, one, weak, lists := count("msg=audit"), count("addr=192.0.2.9"), count("caller=weak"), count("path=/tokens "); all != 200+20+20+1 || one != 20 || weak != 20 || lists != 20 {
			t.Errorf("%d lines, %d of one address, %d of a token, %d lists", all, one, weak, lists)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		said := -160 // of callers with a token, of which nothing was said before
		for _, part := range strings.Split(b.lines.String(), "leftOut=")[1:] {
			n := 0
			must.Report(t, must.Err(fmt.Sscan(part, &n)))
			said += n
		}
		must.Equal(t, said, 20_000-200, "how many the lines say were left out")
		for _, line := range b.all(t, 1000) {
			if line.Method == "GET" {
				t.Errorf("%+v is kept", line)
			}
		}
	})
}

// A stop writes what waits. If the store is away it does not wait for it, and says so.
func TestClose(t *testing.T) {
	for _, away := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			b.end()
			b.store.away.Store(away)
			for i := range 300 {
				b.Write(t.Context(), change(i))
			}
			for i := range 300 {
				line := refused(i)
				line.Addr = fmt.Sprint("192.0.2.", i/20)
				b.Write(t.Context(), line)
			}
			began := time.Now()
			if err := b.Close(t.Context()); err != nil || time.Since(began) > 0 {
				t.Errorf("away %t: %v after %s", away, err, time.Since(began))
			}
			b.store.away.Store(false)
			list, warned := b.all(t, 1000), strings.Contains(b.lines.String(), "in this log only")
			if !away && (len(list) != 401 || list[0].LeftOut != 199) || away && len(list) != 0 || warned != away {
				t.Errorf("away %t: %d lines are kept, warned %t", away, len(list), warned)
			}
		})
	}
}

// Lines are removed after 30 days, and not before.
func TestPurge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.end()
		for i := range 500 {
			b.Write(t.Context(), change(i))
		}
		time.Sleep(24 * time.Hour)
		b.Write(t.Context(), change(500))
		time.Sleep(29 * 24 * time.Hour)
		must.Equal(t, len(b.all(t, 100)), 501, "the lines after 30 days")
		time.Sleep(3 * time.Hour)
		if list := b.all(t, 100); len(list) != 1 || list[0].RequestID != "r500" {
			t.Errorf("%+v after 30 days and 3 hours", list)
		}
		time.Sleep(24 * time.Hour)
		must.Equal(t, len(b.all(t, 100)), 0, "the lines after 31 days")
	})
}

// A line that is damaged is left out, and the pages go on.
func TestDamagedLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.end()
		b.Write(t.Context(), change(1))
		time.Sleep(time.Second)
		err := b.store.Keep(t.Context(), []persist.Document{{Kind: "audit", Key: "0", Revision: 1, Body: "}"}, {Kind: "audit", Key: "1", Revision: 1, Body: "[]"}})
		if list := b.all(t, 1); err != nil || len(list) != 1 || list[0].RequestID != "r1" {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

// Lines come from many requests at once, and with a clock that is set.
func TestConcurrentWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.end()
		var running sync.WaitGroup
		for w := range 8 {
			running.Go(func() {
				for i := range 100 {
					b.Write(t.Context(), change(1000*w+i))
					time.Sleep(time.Millisecond)
				}
			})
		}
		running.Wait()
		time.Sleep(time.Second)
		seen := make(map[string]bool)
		for _, line := range b.all(t, 33) {
			seen[line.RequestID] = true
		}
		must.Equal(t, len(seen), 800, "the different lines kept")
	})
}

// A search looks past other lines, from one time to another, and a page may be empty and go on.
func TestSearch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.end()
		began := time.Now()
		for i := range 1500 {
			b.Write(t.Context(), change(i))
			time.Sleep(10 * time.Millisecond)
		}
		other := change(1500)
		other.Caller = "other"
		b.Write(t.Context(), other)
		time.Sleep(time.Second)
		synctest.Wait()
		find := func(of admin.AuditOf, limit int) (found []string) {
			for after := ""; ; {
				list, next, err := b.List(t.Context(), of, after, limit)
				if err != nil || len(list) > limit {
					t.Fatalf("%d lines, %v", len(list), err)
				}
				for _, line := range list {
					found = append(found, line.RequestID)
				}
				if after = next; next == "" {
					return found
				}
			}
		}
		of := "ops"
		must.Equal(t, len(find(admin.AuditOf{Caller: &of}, 7)), 1500, "the lines of ops")
		must.Equal(t, fmt.Sprint(find(admin.AuditOf{RequestID: "r3"}, 7)), "[r3]", "the line of a request")
		must.Equal(t, fmt.Sprint(find(admin.AuditOf{From: began.Add(10 * time.Millisecond), To: began.Add(30 * time.Millisecond)}, 1)), "[r2 r1]", "the lines of 20 ms")
		must.Equal(t, fmt.Sprint(find(admin.AuditOf{Caller: &of, To: began.Add(20 * time.Millisecond)}, 1)), "[r1 r0]", "the lines before 20 ms")
		must.Equal(t, len(find(admin.AuditOf{From: began.Add(time.Hour)}, 7)), 0, "the lines after an hour")
	})
}
