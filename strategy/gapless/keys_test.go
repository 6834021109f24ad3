package gapless_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/strategy/gapless"
)

// A key that another node has created meanwhile needs no place.
func TestKeyBornElsewhere(t *testing.T) {
	for code, settings := range map[seqd.Code]func(*gapless.Settings){
		seqd.CodeTooManyKeys: func(s *gapless.Settings) { s.Keyed, s.MaxKeys = true, 1 },
		seqd.CodeRateLimited: func(s *gapless.Settings) { s.Keyed, s.NewKeysPerCaller = true, 1 },
	} {
		synctest.Test(t, func(t *testing.T) {
			s, o := newScene(t, false, settings), seqd.Order{Count: 1, Caller: seqd.Caller{Owner: "app"}}
			one, two := s.begun(true), s.begun(false)
			must.Code(t, must.Err(two.Find(t.Context(), strings.Repeat("0", 20)+"..k1", &seqd.Sequence{})), seqd.CodeUnknownReservation)
			_, _, err := order(one, "k1", o)
			must.Do(t, err)
			time.Sleep(2 * time.Second)
			for key, want := range map[string]seqd.Code{"k1": "", "k2": code} {
				_, _, err = order(two, key, o)
				must.Code(t, err, want, key)
			}
		})
	}
}

// A failover may have lost places, and then no key is new until an operator says so.
func TestNoPlaceAfterFailover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, true, keyed)
		s.behind = map[string]bool{"invoice/": true}
		_, _, err := order(s.begun(true), "k1", seqd.Order{Count: 1})
		must.Code(t, err, seqd.CodeStoreFailedOver)
	})
}

// A caller waits for the place that another one is taking for the same key no longer than it may.
func TestPlaceIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, false, keyed)
		node := s.begun(true)
		s.before("allocate invoice/", func() { time.Sleep(time.Minute) })
		go func() { _, _, _ = order(node, "k1", seqd.Order{Count: 1}) }()
		synctest.Wait()
		began := time.Now()
		_, _, err := order(node, "k1", seqd.Order{Count: 1})
		if waited := time.Since(began); seqd.CodeOf(err) != seqd.CodeTimeout || waited != s.settings.AcquireTimeout {
			t.Errorf("after %v: %v", waited, err)
		}
		time.Sleep(time.Minute)
	})
}

// A counter that is closed while a write may still create its ledger leaves a place in doubt. The
// keys are counted, so that the place is free again if there is no ledger.
func TestPlaceOfACounterThatIsClosedDuringAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, false, keyed)
		node := s.begun(true)
		places := func(want int64) {
			t.Helper()
			must.Equal(t, must.Get(s.Store.Counters().Read(t.Context(), "invoice/"))(t).Max, want, "places")
		}
		_, _, err := order(node, "k1", seqd.Order{Count: 1})
		must.Do(t, err)
		time.Sleep(5 * time.Minute) // the count after the first key has ended
		s.before("create ledger/invoice/k2", func() {
			time.Sleep(time.Hour)
			s.away("create")
		})
		_, _, err = order(node, "k2", seqd.Order{Count: 1})
		must.Code(t, err, seqd.CodeTimeout)
		time.Sleep(5 * time.Minute)
		places(2)
		time.Sleep(20 * time.Minute) // nobody uses the key, so its counter is closed
		places(1)
		time.Sleep(time.Hour)
		s.mend()
	})
}

// Of two nodes that begin or hand over at the same time one is first, and that is no error. A
// ledger that a failover may have lost is not created, also if it comes as late as that.
func TestNotFirst(t *testing.T) {
	for code, first := range map[seqd.Code]func(*scene){
		"":                       func(s *scene) { must.Do(s.t, s.node().Init(s.t.Context(), true)) },
		seqd.CodeStoreFailedOver: func(s *scene) { s.failOver("f2") },
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, true, nil)
			s.before("create ledger/invoice", func() { first(s) })
			must.Code(t, s.node().Init(t.Context(), true), code)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, false, nil)
		s.filled()
		s.before("create invoice", func() { s.counter(5) })
		must.Do(t, s.handOver())
		must.Equal(t, must.Get(s.Store.Counters().Read(t.Context(), "invoice"))(t).Max, 10, "the counter is at")
	})
}
