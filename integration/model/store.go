package model

import (
	"errors"

	"github.com/seqd/seqd/persist"
)

// store is the store: one counter, with the product's own arithmetic.
type store struct {
	counter persist.Counter
	down    bool
	failover
	// backup is an older copy.
	backup persist.Counter
	// before is the epoch before the present one.
	before string
	// highest is the last number that ever left the store, restored or not.
	highest int64
}

// allocate hands out a range. There is none for a cursor that does not count.
func (s *store) allocate(req persist.Request) (r persist.Range, err error) {
	before := s.read()
	counter, r, err := before.Allocated(req, 0)
	if errors.Is(err, persist.ErrEpoch) {
		return r, err
	}
	if err != nil {
		panic(err)
	}
	if counter.Epoch != before.Epoch {
		s.before = before.Epoch
	}
	s.write(counter)
	s.highest = max(s.highest, r.Last)
	return r, nil
}

// storedEpoch answers a question. Without readsLinear, some answers come from a server that has not
// noticed that another one has replaced it.
func (w *world) storedEpoch() string {
	if w.out[readsLinear] && w.dice.OneIn(4) {
		return w.store.before
	}
	return w.store.read().Epoch
}

func (s *store) giveBack(r persist.Range) bool {
	counter := s.read()
	if counter.Max != r.Last || counter.FailedOver && !s.out[giveBackFenced] {
		return false
	}
	counter.Max = r.First - 1
	s.write(counter)
	return true
}

// raise does what seqd raise does: max becomes n if it is below, and no cursor counts any more.
func (w *world) raise(n int64) {
	counter := w.store.read()
	counter.Max = max(counter.Max, n)
	if !w.out[raiseEmpties] && counter.Epoch != persist.StoreEpoch {
		counter.Epoch = ""
	}
	w.store.write(counter)
}

// careless is a request as it would be for a store without the rules that are taken out.
func (w *world) careless(req persist.Request) persist.Request {
	believed, cursor := req.To.Cursor()
	if w.out[failoverGap] {
		req.FailoverGap, req.FailoverSteps = 0, 0
	}
	switch held := w.store.read().Epoch; {
	case cursor && req.To.Epoch() == "": // only if takes name no epoch
		req.To = persist.Beside
	case !cursor || believed == held:
	case req.To.Keeps() && w.out[appendRefused]:
		req.To = persist.Beside
	case !req.To.Keeps() && w.out[seedRefused]:
		req.To = persist.NewCursor(held, req.To.Epoch())
	}
	return req
}
