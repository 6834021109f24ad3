// Package standings reads how far the counters of a store have come. It changes nothing, so it may
// look at a store that nodes use, and at a backup.
//
// A counter is in [persist.Counters], or, if its biz type is gapless, among the documents. Its biz
// type may have been either. [Reader.Every] merges both by name.
package standings

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/longlock"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/definitions"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/counters"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// Reader reads the counters of a store. Its fields must not change after first use.
type Reader struct {
	Config *config.Config
	Store  persist.Store

	// listing lets in one page at a time: ledgers may have a megabyte each.
	listing longlock.Lock
}

var _ admin.Standings = (*Reader)(nil)

// Every yields the counters of a biz type, or of all if it is "", whose names follow after, in byte
// order. At last it yields an error if there is one. What nodes create meanwhile may be among them
// or not. It reads page by page.
func (r *Reader) Every(ctx context.Context, bizType, after string) iter.Seq2[admin.Standing, error] {
	return func(yield func(admin.Standing, error) bool) {
		names := namer{reader: r}
		if bizType == "" {
			r.under(ctx, &names, "", after, yield)
			return
		}
		if after < bizType {
			s, there, err := r.read(ctx, &names, bizType)
			if (there || err != nil) && !yield(s, err) || err != nil {
				return
			}
		}
		_ = r.under(ctx, &names, bizType+"/", after, yield) && r.under(ctx, &names, bizType+"@", after, yield)
	}
}

// under yields the counters whose names begin with a prefix and follow after. It returns false if
// no more are wanted.
func (r *Reader) under(ctx context.Context, names *namer, prefix, after string, yield func(admin.Standing, error) bool) bool {
	nextCounter, stop := iter.Pull2(persist.CountersAfter(ctx, r.Store.Counters(), prefix, after))
	defer stop()
	nextLedger, stop := iter.Pull2(persist.DocumentsAfter(ctx, r.Store.Documents(), persist.LedgerKind, prefix, after))
	defer stop()
	c, wrong, counted := nextCounter()
	d, alsoWrong, accounted := nextLedger()
	for counted || accounted {
		if err := cmp.Or(wrong, alsoWrong); err != nil {
			yield(admin.Standing{}, err)
			return false
		}
		name := c.BizTag
		if !counted || accounted && d.Key < name {
			name = d.Key
		}
		var counter *persist.Counter
		var account *persist.Document
		if counted && c.BizTag == name {
			counter = &persist.Counter{}
			*counter = c
			c, wrong, counted = nextCounter()
		}
		if accounted && d.Key == name {
			account = &persist.Document{}
			*account = d
			d, alsoWrong, accounted = nextLedger()
		}
		s, ok, err := names.standing(ctx, name, counter, account)
		if (ok || err != nil) && !yield(s, err) || err != nil {
			return false
		}
	}
	return true
}

// read returns one counter. there is false if the store has none of this name.
func (r *Reader) read(ctx context.Context, names *namer, name string) (s admin.Standing, there bool, err error) {
	var counter *persist.Counter
	var account *persist.Document
	switch c, err := r.Store.Counters().Read(ctx, name); {
	case err == nil:
		counter = &c
	case !errors.Is(err, persist.ErrNotFound):
		return s, false, err
	}
	switch d, err := r.Store.Documents().Read(ctx, persist.LedgerKind, name); {
	case err == nil:
		account = &d
	case !errors.Is(err, persist.ErrNotFound):
		return s, false, err
	}
	if counter == nil && account == nil {
		return s, false, nil
	}
	return names.standing(ctx, name, counter, account)
}

// namer knows the strategy of the biz type that was looked for last: counters come in the order of
// their biz types.
type namer struct {
	reader            *Reader
	bizType, strategy string
}

// standing returns what a counter and a ledger of the same name say; one of them may be nil. ok is
// false if the name is not that of a counter of numbers.
func (n *namer) standing(ctx context.Context, name string, c *persist.Counter, d *persist.Document) (s admin.Standing, ok bool, err error) {
	bizType, _, _, _ := seqd.SplitCounter(name)
	parsed, whole := counters.ParseName(bizType, name)
	if !whole {
		return s, false, nil
	}
	s = admin.Standing{Counter: name, BizType: bizType, Key: parsed.Key, Period: parsed.Period.String()}
	if c != nil {
		s.Highest, s.Sequencer, s.UpdatedAt, s.FailedOver = c.Max, sequencer(c.Epoch), shown(c.Timestamp), c.FailedOver
	}
	if d != nil {
		state, err := ledger.Decode(d)
		if err != nil {
			return s, false, fmt.Errorf("%s: %w", name, err)
		}
		if c == nil || state.Last >= c.Max { // otherwise the biz type is gapless no more
			s.Highest, s.Sequencer, s.UpdatedAt, s.FailedOver = state.Last, "ledger", shown(d.Timestamp), false
		}
	}
	if bizType != n.bizType {
		b, err := n.reader.defined(ctx, bizType)
		if err != nil && !errors.Is(err, persist.ErrNotFound) {
			return s, false, err
		}
		n.bizType, n.strategy = bizType, b.Strategy
	}
	s.Strategy = n.strategy
	return s, true, nil
}

// sequencer names who may take numbers of a counter with this epoch.
func sequencer(epoch string) string {
	switch epoch {
	case "":
		return "node"
	case persist.StoreEpoch:
		return "store"
	}
	return "redis"
}

// shown returns a time in ms since the Unix epoch as it is shown, "" for none.
func shown(ms int64) string {
	if ms <= 0 {
		return ""
	}
	return admin.Time(ms)
}

// defined returns a biz type as nodes have it, also one that was disabled or deleted, or
// [persist.ErrNotFound]. Of a definition that this build cannot read only the name is known.
func (r *Reader) defined(ctx context.Context, name string) (b seqd.BizType, err error) {
	if r.Config.BizTypesFrom == config.FromStore {
		found, err := definitions.Find(ctx, r.Config, r.Store.Documents(), name)
		switch {
		case err == nil && found.Err != nil:
			return seqd.BizType{Name: name}, nil
		case err == nil:
			return found.BizType, nil
		case !errors.Is(err, persist.ErrNotFound) && !errors.Is(err, persist.ErrInvalid): // a name that no biz type can have
			return b, err
		}
	}
	i := slices.IndexFunc(r.Config.BizTypes, func(b seqd.BizType) bool { return b.Name == name })
	if i < 0 {
		return b, persist.ErrNotFound
	}
	return r.Config.BizTypes[i], nil
}

// patience is how long a page waits for the pages of others.
const patience = 5 * time.Second

var errListing = &seqd.Error{Code: seqd.CodeOverloaded, Detail: "others list counters", RetryAfter: time.Second}

// List implements [admin.Standings].
func (r *Reader) List(ctx context.Context, bizType, after string, limit int) (list []admin.Standing, next string, err error) {
	if bizType != "" {
		if err := seqd.CheckName(bizType); err != nil {
			return nil, "", err
		}
	}
	if err := r.listing.LockWithin(ctx, patience, errListing); err != nil {
		return nil, "", err
	}
	defer r.listing.Unlock()
	for s, err := range r.Every(ctx, bizType, after) {
		if err != nil {
			return nil, "", shownError(err)
		}
		if len(list) == limit {
			return list, list[limit-1].Counter, nil
		}
		list = append(list, s)
	}
	return list, "", nil
}

// Show implements [admin.Standings].
func (r *Reader) Show(ctx context.Context, bizType, key string, period seqd.Period) (s admin.Standing, err error) {
	b, err := r.defined(ctx, bizType)
	if errors.Is(err, persist.ErrNotFound) {
		return s, seqd.Errorf(seqd.CodeUnknownBizType, "there is no biz type %.100q", bizType)
	}
	if err != nil {
		return s, shownError(err)
	}
	factory, err := strategy.Lookup(b.Strategy)
	if err != nil || factory.Restored != nil {
		return s, seqd.Errorf(seqd.CodeInvalidRequest, "%s has no counter: its strategy is %s", bizType, cmp.Or(b.Strategy, "not known"))
	}
	traits := seqd.TraitsOf(b.Settings)
	reset := traits.Calendar.Reset
	switch {
	case traits.Keyed && key == "":
		return s, seqd.Errorf(seqd.CodeInvalidKey, "%s counts for each key on its own: add key, such as key=tenant-42", bizType)
	case !traits.Keyed && key != "":
		return s, seqd.Errorf(seqd.CodeInvalidKey, "%s has one counter for all callers: leave key out", bizType)
	case reset == seqd.ResetNever && period != 0:
		return s, seqd.Errorf(seqd.CodeInvalidRequest, "the numbers of %s never reset: leave period out", bizType)
	case reset != seqd.ResetNever && period == 0:
		now, err := r.Store.Now(ctx)
		if err != nil {
			return s, shownError(err)
		}
		period = traits.Calendar.Now(now)
	case reset != seqd.ResetNever && !reset.Fits(period):
		return s, seqd.Errorf(seqd.CodeInvalidRequest, "the numbers of %s reset %s, so it has no period %s", bizType, reset, period)
	}
	name := counters.Name{Key: key, Period: period}.Counter(bizType)
	s, there, err := r.read(ctx, &namer{reader: r}, name)
	switch {
	case err != nil:
		return s, shownError(err)
	case !there:
		s = admin.Standing{Counter: name, BizType: bizType, Key: key, Period: period.String(), Strategy: b.Strategy, Sequencer: "node"}
		if factory.Ledger {
			s.Sequencer = "ledger"
		}
	}
	return s, nil
}

// shownError returns an error as callers see it.
func shownError(err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, persist.ErrInvalid), errors.Is(err, persist.ErrNewer):
		return &seqd.Error{Code: seqd.CodeInternal, Detail: "a counter in the store cannot be read; seqd doctor says more", Err: err}
	}
	return &seqd.Error{Code: seqd.CodeStoreUnavailable, Detail: "the store cannot be asked", RetryAfter: time.Second, Err: err}
}
