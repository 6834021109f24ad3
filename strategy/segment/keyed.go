package segment

import (
	"context"
	"errors"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/counters"
	"github.com/seqd/seqd/strategy/segment/cursor"
)

// With keys, every key has a counter, and, if numbers reset, one for each period. A counter is open
// while the node uses it.
//
// There is no record of a key but its counter, so a cold key that exists costs one call of the
// store. A counter that is missing belongs to a new key. If it was lost, its numbers would begin
// again; so a store that has failed over creates none (see [persist.Fenced]), and this process
// creates none that it remembers (see [counters.Memory]).

// askKey gets numbers of a key, and of the period that is present when the call begins.
func (f *family) askKey(ctx context.Context, get func(*Counter, context.Context, int, *seqd.Sequence) error, n int, seq *seqd.Sequence) error {
	name := counters.Name{Key: seq.Key(), Period: f.present().Period}
	e, err := f.acquire(ctx, name, seq.Asker())
	if err != nil {
		return err
	}
	err = get(e.Counter(), ctx, n, seq)
	e.Release()
	seq.In(name.Period)
	if err != nil && isHopeless(err) {
		f.Forget(name) // it does not count, and would stay open
	}
	return err
}

// isHopeless reports whether a key has no counter, and gets none now.
func isHopeless(err error) bool {
	switch seqd.CodeOf(err) {
	case seqd.CodeTooManyKeys, seqd.CodeRateLimited, seqd.CodeStoreFailedOver, seqd.CodeConflict, seqd.CodeClockRollback:
		return true
	}
	return false
}

// acquire returns a counter, open.
func (f *family) acquire(ctx context.Context, name counters.Name, by string) (*counters.Entry[*Counter], error) {
	if f.settings.NewKeysPerCaller > 0 {
		if err := f.Places(name.Period).Check(ctx, by); err != nil && !f.exists(ctx, name) {
			return nil, err
		}
	}
	e, err := f.Acquire(ctx, name, by)
	if err == nil {
		return e, nil
	}
	if errors.Is(err, counters.ErrLate) {
		if away := f.Away(); away != nil {
			return nil, storeError(away)
		}
	}
	if checked := name.Period.Check(); checked != nil {
		return nil, checked
	}
	return nil, err
}

// exists reports whether a key may have a counter: the store has one or does not answer, or a
// counter is open here, which may be about to be created.
func (f *family) exists(ctx context.Context, name counters.Name) bool {
	if _, open := f.Peek(name); open {
		return true
	}
	_, err := f.Env.Store.Counters().Read(ctx, name.Counter(f.BizType.Name))
	return !isNotFound(err)
}

// LookAtStore implements [counters.Kind].
func (f *family) LookAtStore(ctx context.Context) error {
	_, err := f.Env.Store.Counters().Read(ctx, counters.PlacesName(f.BizType.Name, f.present().Period))
	return err
}

// IsAway implements [counters.Kind].
func (f *family) IsAway(err error) bool {
	return !cursor.IsFinal(err) && cursor.StoreError(err).Code == seqd.CodeStoreUnavailable
}

// lookPause is the shortest pause between two keys that are read to report a failover.
const lookPause = time.Second

// looks reports whether a counter is to be read to find out whether the store failed over. Every
// cold key skips a gap then, so it is reported for some of them: reading each would double what a
// cold key costs.
func (f *family) looks() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := paceNow()
	if f.looked != 0 && now-f.looked < lookPause {
		return false
	}
	f.looked = now
	return true
}

// keysPage is how many counters are read at a time to list keys.
const keysPage = 1000

// Keys implements [seqd.KeyLister].
func (f *family) Keys(ctx context.Context, after string, limit int) (keys []string, err error) {
	l := counters.Listing{BizType: f.BizType.Name, Dated: f.resets(), Page: keysPage, List: f.countersAfter}
	return l.Keys(ctx, after, limit)
}

// countersAfter returns the names of counters.
func (f *family) countersAfter(ctx context.Context, after string, limit int) (names []string, err error) {
	list, err := f.Env.Store.Counters().List(ctx, after, limit)
	for _, c := range list {
		names = append(names, c.BizTag)
	}
	return names, storeError(err)
}

// CountKeys implements [counters.Kind].
func (f *family) CountKeys(ctx context.Context, p seqd.Period) (n int64, err error) {
	for c, err := range persist.CountersUnder(ctx, f.Env.Store.Counters(), f.BizType.Name+"/") {
		if err != nil {
			return 0, err
		}
		if name, ok := counters.ParseName(f.BizType.Name, c.BizTag); ok && name.Key != "" && name.Period == p {
			n++
		}
	}
	return n, nil
}
