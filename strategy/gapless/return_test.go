package gapless_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/gapless"
)

// stuck is a store whose documents do not change while a test holds its lock: a channel, because
// the fake clock stands still while somebody waits for a mutex.
type stuck struct {
	persist.Store
	lock chan struct{}
}

func newStuck(store persist.Store) *stuck { return &stuck{store, make(chan struct{}, 1)} }

func (s *stuck) Lock()   { s.lock <- struct{}{} }
func (s *stuck) Unlock() { <-s.lock }

func (s *stuck) Documents() persist.Documents { return stuckDocuments{s.Store.Documents(), s} }

type stuckDocuments struct {
	persist.Documents
	lock sync.Locker
}

func (d stuckDocuments) Create(ctx context.Context, doc persist.Document) error {
	d.lock.Lock()
	defer d.lock.Unlock()
	return d.Documents.Create(ctx, doc)
}

func (d stuckDocuments) Update(ctx context.Context, doc persist.Document) error {
	d.lock.Lock()
	defer d.lock.Unlock()
	return d.Documents.Update(ctx, doc)
}

// Numbers that nobody got come back, also if the store takes longer than callers wait.
func TestReturnWaits(t *testing.T) {
	synctest.Test(t, returnWaits)
}

func returnWaits(t *testing.T) {
	store := newStuck(memory.New(time.Now))
	s := newStrategy(t, store, func(s *gapless.Settings) { s.AcquireTimeout = 10 * time.Millisecond })
	var seq seqd.Sequence
	must.Do(t, s.Generate(t.Context(), 1, &seq))
	store.Lock()
	var none seqd.Sequence
	_ = s.Generate(t.Context(), 1, &none) // what is written now keeps others from being written
	s.Return(&seq, errors.New("a plugin failed"))
	for range 10 { // each waits as long as callers do
		_ = s.Generate(t.Context(), 1, &none)
	}
	store.Unlock()
	await.Eventually(t, "no number is issued that nobody got", func() error {
		a, err := s.Account(t.Context(), seqd.AccountQuery{Limit: 10})
		if err == nil && a.Issued != 0 {
			err = fmt.Errorf("the account is %+v", a)
		}
		return err
	})
}

// quota counts how long what is kept for whom.
type quota map[string][]time.Duration

func (q quota) Admit(owner string) error {
	if owner == "full" {
		return &seqd.Error{Code: seqd.CodeTooManyAnswers}
	}
	return nil
}

func (q quota) Kept(owner string, _ int, life time.Duration) { q[owner] = append(q[owner], life) }

// Answers, how reservations end, and numbers that become void are counted once, also if the caller
// has gone meanwhile. An owner that keeps too much gets nothing that may leave more.
func TestRecordsAreCounted(t *testing.T) {
	day := 24 * time.Hour
	for onRelease, want := range map[string]quota{
		gapless.Reuse: {"repeats": {time.Hour}, "reserves": {day, day}, "both": {time.Hour, day}, "confirms": {day}},
		gapless.Void:  {"issues": {day, day}, "repeats": {time.Hour}, "reserves": {day, day, day, day}, "both": {time.Hour, day, day}, "confirms": {day}},
	} {
		t.Run(onRelease, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if kept := recordsOf(t, onRelease); !reflect.DeepEqual(kept, want) {
					t.Errorf("%v is kept, want %v", kept, want)
				}
			})
		})
	}
}

// recordsOf returns what is kept of callers each of which leaves before its answer, and then asks
// again. What they get comes back: by Return, by a release, or by expiry.
func recordsOf(t *testing.T, onRelease string) quota {
	kept := quota{}
	store := newStuck(memory.New(time.Now))
	settings := gapless.DefaultSettings()
	settings.OnRelease = onRelease
	node := newNode(t, strategy.Env{Store: store, Now: time.Now, AnswerTTL: time.Hour, Quota: kept}, settings)
	must.Do(t, node.Init(t.Context(), true))
	leaves := func(call func(context.Context)) {
		ctx, cancel := context.WithCancel(t.Context())
		store.Lock()
		go call(ctx)
		synctest.Wait()
		cancel()
		synctest.Wait()
		store.Unlock()
		time.Sleep(time.Second)
	}
	for name, o := range map[string]seqd.Order{"issues": {}, "repeats": {Once: "a"}, "reserves": {Reserve: true}, "both": {Reserve: true, Once: "b"}} {
		o.Count, o.Caller = 1, seqd.Caller{Owner: name}
		leaves(func(ctx context.Context) { _, _, _ = node.HandOut(ctx, o, new(seqd.Sequence)) })
		var seq seqd.Sequence
		seq.AskedBy(name)
		r, _, err := node.HandOut(t.Context(), o, &seq)
		must.Do(t, err)
		switch name {
		case "issues":
			node.Return(&seq, errors.New("a plugin failed"))
		case "reserves":
			must.Do(t, node.Release(t.Context(), seqd.Settlement{ID: r.ID, Admin: true, Caller: seqd.Caller{Owner: "admin"}}))
		}
		synctest.Wait()
	}
	confirms := seqd.Caller{Owner: "confirms"}
	r, _, err := node.HandOut(t.Context(), seqd.Order{Count: 1, Reserve: true, Caller: confirms}, new(seqd.Sequence))
	must.Do(t, err)
	leaves(func(ctx context.Context) {
		_, _ = node.Confirm(ctx, seqd.Settlement{ID: r.ID, Caller: confirms}, new(seqd.Sequence))
	})
	time.Sleep(time.Hour) // longer than the reservation of both
	must.Do(t, node.Reclaim(t.Context(), "", 0))
	full := seqd.Caller{Owner: "full"}
	_, _, err = order(node, "", seqd.Order{Count: 1, Reserve: true, Caller: full})
	must.Code(t, err, seqd.CodeTooManyAnswers)
	_, _, err = order(node, "", seqd.Order{Count: 1, Reserve: true, TTL: -1, Caller: seqd.Caller{Owner: "other"}})
	must.Code(t, err, seqd.CodeInvalidTTL, "a quota does not make an order valid")
	var seq seqd.Sequence
	seq.AskedBy("full")
	if err = node.Generate(t.Context(), 1, &seq); (onRelease == gapless.Void) != (seqd.CodeOf(err) == seqd.CodeTooManyAnswers) {
		t.Errorf("who keeps too much gets %v", err)
	}
	must.Report(t, node.Close(t.Context()))
	return kept
}
