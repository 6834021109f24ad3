package snowflake

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/snowflake/redisslots"
	"github.com/seqd/seqd/strategy/snowflake/statefile"
)

// holder holds a machine ID for all biz types of this process that have the same settings, and the
// generator that uses it.
type holder struct {
	member
	gen      *generator
	registry persist.SlotStore
	// says why the registry cannot be used as it is; nil where there is nothing to check
	check    func(context.Context) error
	name     string // of the registry
	title    string // of the registry, as an operator would call it
	settings *Settings
	env      strategy.Env
	identity statefile.Identity
	fileName string

	mu    sync.Mutex // guards what follows
	lease lease
	// how far the generator may go: the lease's until, or further on the reservation
	bound   int64
	state   state              // what the holder is at
	failure *seqd.Error        // why there is no machine ID, or why it is not renewed
	users   map[string]string  // the biz types, and what the file says of each: see users.go
	listed  chan struct{}      // gets a value when users changed; it holds one
	first   chan struct{}      // closed when the first attempt to get a machine ID ended
	stop    context.CancelFunc // ends run; nil until it runs
	over    bool               // end was called
	done    chan struct{}      // closed when run ended
	seen    seen               // for who measures

	// What follows is used by run alone.
	file *statefile.File // nil without offlineStart
	kept statefile.State // what the file holds, the zero State where that is of no use
	// pending is a lease that may be on record although it is not used: the answer was lost, or the
	// file could not be written. The next attempt takes it up.
	pending lease
	// owed is a lease that was granted and that the registry does not know any more: it gets a
	// floor above it before anything else is asked of it.
	owed lease
	// fromFile is whether the reservation of an earlier process is still to be looked at.
	fromFile bool
	// surveyed is when all of the registry was last looked at while a lease is held.
	surveyed time.Time
	surveys  sync.WaitGroup
}

// state is what a holder is at.
type state int

const (
	seeking state = iota // it has no machine ID
	holding              // it has one
)

// attempt bounds one look and one change at the registry.
const attempt = 5 * time.Second

// start begins to look for a machine ID, once.
func (h *holder) start() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.over:
		return errStopping
	case h.stop == nil:
		var ctx context.Context
		ctx, h.stop = context.WithCancel(context.Background())
		go h.run(ctx)
	}
	return nil
}

// end ends issuing and gives the machine ID up. It returns when that is done or ctx ends.
func (h *holder) end(ctx context.Context) error {
	h.mu.Lock()
	h.over = true
	stop := h.stop
	h.mu.Unlock()
	if stop == nil {
		return nil
	}
	stop()
	select {
	case <-h.done:
		return nil
	case <-ctx.Done():
		// What the goroutine still does takes nothing back: issuing has ended when it comes to
		// giving up, or it never does.
		h.gen.stop(errStopping)
		return ctx.Err()
	}
}

// ready waits until the first attempt to get a machine ID ended and returns why no number can be
// made, nil when one can.
func (h *holder) ready(ctx context.Context) error {
	select {
	case <-h.first:
	case <-ctx.Done():
		return seqd.AsError(ctx.Err())
	}
	if err := h.health(); err != nil {
		return err
	}
	return nil
}

// ms is the node's clock.
func (h *holder) ms() int64 { return h.env.Now().UnixMilli() }

// health returns why no number can be made now. It does no I/O.
func (h *holder) health() *seqd.Error {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.ms()
	switch {
	case h.state == seeking && h.failure != nil:
		return h.failure
	case h.state == seeking:
		return &seqd.Error{Code: seqd.CodeStarting, Detail: "a machine ID is being looked for", RetryAfter: time.Second}
	case now > h.bound:
		return h.ended()
	case time.Duration(h.lease.lower+1-now)*time.Millisecond > h.settings.MaxWaitRollback:
		return h.early(now)
	}
	return h.gen.health(now)
}

// early is the refusal while the lease has not begun. mu is held.
func (h *holder) early(now int64) *seqd.Error {
	code := seqd.CodeClockRollback
	if h.lease.floored {
		code = seqd.CodeStarting
	}
	wait := time.Duration(h.lease.lower+1-now) * time.Millisecond
	return &seqd.Error{Code: code, RetryAfter: wait, Detail: fmt.Sprintf("machine ID %d may be used from %s on, when every time that may have been used with it is over",
		h.lease.id, at(h.lease.lower+1))}
}

// ended is the refusal after the lease. mu is held.
func (h *holder) ended() *seqd.Error {
	e := &seqd.Error{Code: seqd.CodeNoMachineID, RetryAfter: time.Second,
		Detail: fmt.Sprintf("the lease of machine ID %d ended at %s and could not be renewed", h.lease.id, at(h.bound))}
	if h.failure != nil {
		e.Err = h.failure
	}
	return e
}

// details is what an operator sees of the lease.
func (h *holder) details() map[string]any {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == seeking {
		return map[string]any{"key": h.key}
	}
	left := time.Duration(max(0, h.bound-h.ms())) * time.Millisecond
	d := map[string]any{"key": h.key, "machineId": h.lease.id, "leaseUntil": at(h.bound), "timeLeft": left.String()}
	if h.lease.lower > 0 {
		d["leaseFrom"] = at(h.lease.lower + 1)
	}
	return d
}

// rolledBack is told by the generator when it begins to refuse because the clock was set back, and
// when that is over.
func (h *holder) rolledBack(begins bool, gap time.Duration) {
	if !begins {
		h.env.Log.Info("the clock has passed the last time that was used")
		return
	}
	h.env.Log.Error("the clock was set back; nothing is issued until it has passed the last time that was used", "gap", gap.String())
	h.event(seqd.EventClockRollback, nil)
}

// degraded returns why the machine ID is not renewed, nil when it is.
func (h *holder) degraded() *seqd.Error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failure
}

func at(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

// run seeks, holds and renews until ctx ends, and then gives the machine ID up.
func (h *holder) run(ctx context.Context) {
	defer close(h.done)
	defer h.surveys.Wait()
	h.reach = holders.reach(h)
	first := sync.OnceFunc(func() { close(h.first) })
	defer first()
	h.fromFile = true
	for ctx.Err() == nil {
		err := h.seek(ctx)
		h.note(err)
		first()
		if err != nil {
			h.pause(ctx, h.settings.PollInterval)
			continue
		}
		h.hold(ctx)
	}
	h.release()
}

// pause waits, and reports false when ctx ended. Meanwhile it keeps the list of biz types in the
// file up to date.
func (h *holder) pause(ctx context.Context, d time.Duration) bool {
	over := time.After(d)
	for {
		select {
		case <-ctx.Done():
			return false
		case <-over:
			return true
		case <-h.listed:
			if err := h.vouch(); err != nil { // the next renewal writes it again
				h.env.Log.Warn("the list of biz types in the file of the reservation could not be written", "error", err)
			}
		}
	}
}

// note keeps why things are not as they should be, and logs each change once.
func (h *holder) note(err error) {
	h.mu.Lock()
	was := h.failure
	var now *seqd.Error
	if err != nil {
		now = refusal(err)
	}
	h.failure = now
	state, id := h.state, h.lease.id
	h.mu.Unlock()
	switch {
	case now == nil && was != nil && state == holding:
		h.env.Log.Info("the registry of machine IDs answers again", "machineId", id)
	case now == nil, was != nil && was.Code == now.Code && was.Detail == now.Detail:
		// causes tell of ports and change all the time
	case state == seeking:
		h.env.Log.Warn("no machine ID", "registry", h.name, "error", now)
	default:
		h.env.Log.Error("the machine ID cannot be renewed", "machineId", id, "error", now)
	}
}

// refusal is what callers and /readyz are told of an error.
func refusal(err error) *seqd.Error {
	var e *seqd.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, errLayout), errors.Is(err, errCluster), errors.Is(err, persist.ErrNewer), errors.Is(err, statefile.ErrForeign), errors.Is(err, redisslots.ErrForeign):
		return &seqd.Error{Code: seqd.CodeConflict, Detail: err.Error(), Err: err}
	case errors.Is(err, redisslots.ErrUnfit), errors.Is(err, persist.ErrInvalid):
		// what an operator changes without a restart
		return &seqd.Error{Code: seqd.CodeNoMachineID, Detail: err.Error(), RetryAfter: time.Second, Err: err}
	case errors.Is(err, errStandby):
		return &seqd.Error{Code: seqd.CodeNoMachineID, Detail: err.Error(), RetryAfter: time.Second, Err: err}
	case errors.Is(err, errSkew):
		return &seqd.Error{Code: seqd.CodeNoMachineID, Detail: err.Error(), RetryAfter: time.Second, Err: err}
	case errors.Is(err, errFile):
		return &seqd.Error{Code: seqd.CodeNoMachineID, Detail: "stateDir: the file of the reservation cannot be used", RetryAfter: time.Second, Err: err}
	}
	return &seqd.Error{Code: seqd.CodeStoreUnavailable, Detail: "the registry of machine IDs cannot be asked", RetryAfter: time.Second, Err: err}
}

// look returns the registry, and refuses one whose clock is too far off.
func (h *holder) look(ctx context.Context, ids ...int64) (persist.SlotTable, error) {
	before := h.ms()
	t, err := h.registry.Look(ctx, h.name, ids...)
	if err != nil {
		return t, err
	}
	after := h.ms()
	h.compared(before, after, t)
	if len(ids) == 0 {
		h.counted(t)
	}
	return t, h.skewed(before, after, t)
}

// prepared returns the registry with its bootstrap part as it must be.
func (h *holder) prepared(ctx context.Context, ids ...int64) (persist.SlotTable, error) {
	for {
		t, err := h.look(ctx, ids...)
		if err == nil && t.Set == nil {
			t, err = h.look(ctx) // whether it is new, only all of it can tell
		}
		if err != nil {
			return t, err
		}
		swap, err := h.prepare(t)
		if err != nil || swap == nil {
			return t, err
		}
		made, err := h.registry.Swap(ctx, h.name, *swap)
		if err != nil {
			return t, err
		}
		if made && swap.NewSet.Floor > 0 {
			h.env.Log.Warn("the registry of machine IDs is new, or may have lost something: every lease but those that stand begins later",
				"registry", h.name, "from", at(swap.NewSet.Floor+1))
		}
	}
}

// seek gets a machine ID: the one that the file reserves, else one that is free.
func (h *holder) seek(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	if h.check != nil {
		if err := h.check(ctx); errors.Is(err, redisslots.ErrUnfit) || err != nil && h.settings.OfflineStart == 0 {
			return err
		}
	}
	if err := h.reservation(ctx); err != nil || h.held() {
		return err
	}
	if err := h.cover(ctx); err != nil {
		return err
	}
	for {
		t, err := h.prepared(ctx)
		if err != nil {
			return err
		}
		swap, l, err := h.next(t)
		if err != nil {
			return err
		}
		// a renewal of the pending one may not be made: what it is known to have been granted stays
		if l.token != h.pending.token {
			h.pending = l
		}
		made, err := h.registry.Swap(ctx, h.name, swap)
		if err != nil {
			return err
		}
		if made {
			return h.use(l, l.until)
		}
	}
}

// held reports whether there is a machine ID.
func (h *holder) held() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state == holding
}

// reservation goes on with what an earlier process reserved, where that can be used; without
// offlineStart it makes it worthless.
func (h *holder) reservation(ctx context.Context) error {
	if h.settings.OfflineStart == 0 {
		if !h.fromFile {
			return nil
		}
		if err := h.discardFile(); err != nil {
			return fmt.Errorf("%w: offlineStart is off, but an older reservation cannot be removed: %w", errFile, err)
		}
		h.fromFile = false
		return nil
	}
	saved, err := h.openFile()
	if err != nil || saved == nil || !h.fromFile {
		return err
	}
	if err := h.resume(ctx, *saved); !errors.Is(err, errLost) {
		return err
	}
	// it is known to be lost, also when the registry cannot be asked the next time
	h.fromFile = false
	return nil
}

// next returns the change that takes up the pending lease where it is on record, or else one that
// is free.
func (h *holder) next(t persist.SlotTable) (persist.SlotSwap, lease, error) {
	if h.pending.token != "" {
		if swap, l, err := h.renew(t, h.pending, h.ms(), 0); err == nil {
			return swap, l, nil
		}
	}
	return h.acquire(t, h.ms())
}

// use lets the generator go on with a lease up to bound. With offlineStart the file has it first.
func (h *holder) use(l lease, bound int64) error {
	if h.file != nil {
		// After an offline start the interval begins above until: progress, which is never below
		// lower, says so.
		err := h.keep(statefile.State{
			MachineID: l.id, Token: l.token, Lower: min(l.lower, l.until), Until: l.until, Reserved: l.reserved, Progress: max(bound, l.until),
			Users: h.names(),
		})
		if err != nil {
			return err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	changed := h.state == seeking || h.lease.id != l.id || h.lease.token != l.token
	h.lease, h.bound, h.pending, h.fromFile = l, bound, lease{}, false
	h.gen.set(l.id, l.lower, bound, l.floored)
	if changed {
		h.state = holding
		h.env.Log.Info("machine ID", "machineId", l.id, "key", h.key, "from", at(l.lower+1), "until", at(bound))
	}
	return nil
}

// errFile means that what must be on disk ahead of use is not.
var errFile = errors.New("the file of the reservation")

// hold renews until the lease is lost or ctx ends.
func (h *holder) hold(ctx context.Context) {
	for pause := h.settings.RenewInterval; h.pause(ctx, pause); {
		err := h.renewOnce(ctx)
		if errors.Is(err, errLost) {
			h.lose(err)
			return
		}
		if err != nil && ctx.Err() != nil {
			return
		}
		pause = h.settings.RenewInterval
		if err == nil {
			h.survey(ctx)
		} else {
			pause = min(pause, h.settings.Horizon/10)
			// A clock that is off, or a registry that refuses this node, is no reason to go on
			// without asking.
			if h.settings.OfflineStart > 0 && refusal(err).Code == seqd.CodeStoreUnavailable {
				if goErr := h.goAlone(); goErr != nil {
					err = errors.Join(err, goErr)
				}
			}
			err = errors.Join(err, h.vouch())
		}
		h.note(err)
	}
}

// renewOnce extends the lease in the registry, then on disk, then for the generator.
func (h *holder) renewOnce(ctx context.Context) error {
	// one that hangs must leave time for another
	ctx, cancel := context.WithTimeout(ctx, h.settings.Horizon/3)
	defer cancel()
	h.mu.Lock()
	l, progress := h.lease, h.bound
	h.mu.Unlock()
	for {
		t, err := h.prepared(ctx, l.id)
		if err != nil {
			return err
		}
		swap, next, err := h.renew(t, l, h.ms(), progress)
		if errors.Is(err, errLost) {
			h.owed = l
		}
		if err != nil {
			return err
		}
		made, err := h.registry.Swap(ctx, h.name, swap)
		if err != nil {
			return err
		}
		if made {
			if swap.NewSet != nil {
				h.behind(l.id, swap.NewSet.Floor)
			}
			return h.use(next, next.until)
		}
	}
}

// cover gives a registry that does not know a lease of this node a floor above it. Until that is
// done the lease is owed.
func (h *holder) cover(ctx context.Context) error {
	for h.owed.token != "" {
		t, err := h.prepared(ctx, h.owed.id)
		if err != nil {
			return err
		}
		swap := h.covered(t, h.owed)
		if swap == nil {
			h.owed = lease{}
			return nil
		}
		made, err := h.registry.Swap(ctx, h.name, *swap)
		if err != nil {
			return err
		}
		if made {
			h.behind(h.owed.id, swap.NewSet.Floor)
			h.owed = lease{}
		}
	}
	return nil
}

// behind tells that the registry was put back.
func (h *holder) behind(id, floor int64) {
	h.env.Log.Error("the registry of machine IDs was put back to an older copy; what it grants from now on begins above everything it may have granted",
		"registry", h.name, "machineId", id, "from", at(floor+1))
	h.event(seqd.EventStoreBehind, nil)
}

// goAlone extends what the generator may use on the reservation, when the lease is about to end.
func (h *holder) goAlone() error {
	h.mu.Lock()
	l, bound := h.lease, h.bound
	h.mu.Unlock()
	want := min(h.ms()+h.horizon, l.reserved)
	if want <= bound {
		return nil
	}
	return h.use(l, want)
}

// lose stops issuing at once.
func (h *holder) lose(err error) {
	h.gen.stop(&seqd.Error{Code: seqd.CodeNoMachineID, Detail: "the machine ID was lost; another one is being looked for", RetryAfter: time.Second, Err: err})
	h.mu.Lock()
	id := h.lease.id
	h.state, h.lease, h.bound = seeking, lease{}, 0
	h.mu.Unlock()
	h.env.Log.Error("the machine ID was lost; nothing is issued until there is another one", "machineId", id, "error", err)
	h.event(seqd.EventMachineIDLost, err)
}

func (h *holder) event(kind seqd.EventKind, err error) {
	h.env.Observer.Event(seqd.Event{Kind: kind, Err: err})
}

// release gives the machine ID up: issuing has ended, the file cannot be used any more, then others
// may go on above what was used. While the registry cannot be asked, the file stays what the next
// start may need.
func (h *holder) release() {
	last := h.gen.stop(errStopping)
	if h.file != nil {
		defer func() { _ = h.file.Close() }() // the process ends
		if err := h.vouch(); err != nil {
			h.env.Log.Error("the file of the reservation still names biz types that it must not", "error", err)
		}
	}
	h.mu.Lock()
	l := h.lease
	h.mu.Unlock()
	granted := l.token != "" // a pending one may never have been
	if !granted {
		l = h.pending
	}
	if l.token == "" {
		h.coverLast()
		return
	}
	err := h.giveUp(l, last)
	if granted && errors.Is(err, errLost) {
		h.owed = l
		h.coverLast()
	}
	if err != nil {
		h.env.Log.Warn("the machine ID could not be given up; it stays taken until its lease ends", "machineId", l.id, "until", at(max(l.until, l.reserved)), "error", err)
	}
}

// coverLast does at the end what is owed to the registry, if that can be asked.
func (h *holder) coverLast() {
	ctx, cancel := context.WithTimeout(context.Background(), attempt)
	defer cancel()
	if err := h.cover(ctx); err != nil {
		h.env.Log.Error("the registry of machine IDs does not know a lease that it granted, and could not be asked to grant only times above it; if it was put back to an older copy, run seqd restored",
			"registry", h.name, "machineId", h.owed.id, "until", at(max(h.owed.until, h.owed.reserved)), "error", err)
	}
}

func (h *holder) giveUp(l lease, last int64) error {
	ctx, cancel := context.WithTimeout(context.Background(), attempt)
	defer cancel()
	for first := true; ; first = false {
		t, err := h.registry.Look(ctx, h.name, l.id)
		if err != nil {
			return err
		}
		if first && h.file != nil {
			h.kept = statefile.State{}
			if err := h.file.Invalidate(); err != nil {
				return err
			}
		}
		swap, err := h.member.release(t, l, last)
		if err != nil {
			return err
		}
		if made, err := h.registry.Swap(ctx, h.name, swap); made || err != nil {
			return err
		}
	}
}

// path is where the reservation is kept.
func (h *holder) path() string { return filepath.Join(h.settings.StateDir, h.fileName) }

// discardFile makes a reservation of an earlier process worthless.
func (h *holder) discardFile() error {
	if holders.reserves(h.path()) {
		return nil // another holder of this process
	}
	if _, err := os.Lstat(h.path()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	file, err := statefile.Open(h.settings.StateDir, h.fileName, h.identity)
	if err != nil {
		return err
	}
	return errors.Join(file.Invalidate(), file.Close())
}

// openFile opens the file and returns what it reserves, nil when that is nothing that can be used.
func (h *holder) openFile() (*statefile.State, error) {
	if h.file == nil {
		file, err := statefile.Open(h.settings.StateDir, h.fileName, h.identity)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errFile, err)
		}
		h.file = file
	}
	saved, err := h.file.Load()
	h.kept = statefile.State{}
	switch {
	case errors.Is(err, statefile.ErrNone):
		return nil, nil
	case errors.Is(err, statefile.ErrForeign) && h.floored, errors.Is(err, statefile.ErrNewer):
		return nil, err // somebody else may still need it
	case err == nil && (saved.MachineID < h.member.first || saved.MachineID > h.last):
		err = fmt.Errorf("machine ID %d is not one of those that this node may use, %d to %d", saved.MachineID, h.member.first, h.last)
	}
	if err != nil {
		h.env.Log.Warn("the reservation on disk is of no use", "error", err)
		return nil, nil
	}
	h.kept = saved
	h.remember(saved.Users)
	if err := h.vouch(); err != nil {
		return nil, err
	}
	return &saved, nil
}

// resume goes on with the reservation of an earlier process: by the registry where that answers,
// else alone.
func (h *holder) resume(ctx context.Context, saved statefile.State) error {
	l := lease{id: saved.MachineID, token: saved.Token, until: saved.Until, reserved: saved.Reserved}
	// what the earlier process may have used
	l.lower = max(saved.Lower, saved.Until, saved.Progress)
	t, err := h.prepared(ctx, l.id)
	if err == nil {
		return h.resumeOnline(ctx, t, l)
	}
	if r := refusal(err); r.Code != seqd.CodeStoreUnavailable {
		return err
	}
	now := h.ms()
	if now > l.reserved {
		return fmt.Errorf("%w; the reservation on disk ended at %s", err, at(l.reserved))
	}
	if useErr := h.use(l, max(l.lower, min(now+h.horizon, l.reserved))); useErr != nil {
		return errors.Join(err, useErr)
	}
	h.env.Log.Warn("the registry of machine IDs cannot be asked: this node issues on its reservation", "machineId", l.id, "until", at(l.reserved), "error", err)
	return nil
}

func (h *holder) resumeOnline(ctx context.Context, t persist.SlotTable, l lease) error {
	for {
		swap, next, err := h.renew(t, l, h.ms(), l.lower)
		if errors.Is(err, errLost) {
			h.owed, h.spent = l, spent{l.id, l.lower}
		}
		if err != nil {
			return err
		}
		made, err := h.registry.Swap(ctx, h.name, swap)
		if err != nil {
			return err
		}
		if made {
			if swap.NewSet != nil {
				h.behind(l.id, swap.NewSet.Floor)
			}
			return h.use(next, next.until)
		}
		if t, err = h.prepared(ctx, l.id); err != nil {
			return err
		}
	}
}
