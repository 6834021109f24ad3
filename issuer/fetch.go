package issuer

import (
	"context"
	"sync"
	"time"

	"github.com/seqd/seqd"
)

// Source fetches the biz types that an [Issuer] does not hold. There may be very many biz types,
// and few in use. The Issuer holds a biz type from [New] or [Issuer.Put] until [Issuer.Remove] or
// [Issuer.Drop]. After that it asks the Source again.
type Source interface {
	// Fetch puts the biz type of this name into the Issuer with [Issuer.Put], or returns an error:
	// [seqd.CodeUnknownBizType] if there is no such biz type. The Issuer calls Fetch once at a time
	// for each name. ctx does not end when the caller who needs the biz type leaves.
	Fetch(ctx context.Context, name string) error
}

// fetcher is what an issuer does for biz types that it does not hold.
type fetcher struct {
	source Source        // nil if there is none
	busy   chan struct{} // one for each Fetch under way

	mu       sync.Mutex // guards what follows
	fetches  map[string]*fetch
	unread   map[string]unread // biz types that could not be fetched; they are tried again
	retrying bool
}

// fetch is one call of Fetch, which callers share.
type fetch struct {
	done   chan struct{}
	err    error // valid once done is closed
	needed bool  // by a caller who does more than look. The mutex of the fetcher guards it
}

// unread is why a biz type could not be fetched, and how often that was tried in vain.
type unread struct {
	why   *seqd.Error
	tries int
}

// mostUnread is how many biz types are tried again that could not be fetched. All others are tried
// when they are asked for.
const mostUnread = 1000

func (c *fetcher) init(source Source) {
	c.source, c.busy = source, make(chan struct{}, parallel)
	c.fetches, c.unread = make(map[string]*fetch), make(map[string]unread)
}

// absent returns why a name without a seat has none, nil if the source has to be asked. Only here
// is a name checked.
func (c *fetcher) absent(name string) error {
	if err := seqd.CheckName(name); err != nil {
		return err
	}
	if c.source == nil {
		return unknown(name)
	}
	return nil
}

// fetch lets the source put a biz type, once for all callers who wait for it. Fetching goes on
// without them if they cannot wait any longer.
func (is *Issuer) fetch(ctx context.Context, name string, w *waits) error {
	if err := is.fetcher.absent(name); err != nil {
		return err
	}
	f := is.join(name, !w.looks)
	tooLong := w.timer()
	select {
	case <-f.done:
		return f.err
	case <-is.changes.ended:
		return errStopping
	case <-tooLong:
		return errFetching
	case <-ctx.Done():
		return seqd.AsError(ctx.Err())
	}
}

var errFetching = &seqd.Error{Code: seqd.CodeStarting, Detail: "the definition of the biz type is still being read", RetryAfter: time.Second}

// mostFetches bounds how many fetches are under way or wait for their turn: callers who no longer
// wait leave theirs behind.
const mostFetches = 1000

// crowded is the fetch of a name if too many others are under way.
var crowded = func() *fetch {
	f := &fetch{done: make(chan struct{}), err: &seqd.Error{
		Code: seqd.CodeOverloaded, Detail: "too many definitions are being read", RetryAfter: time.Second,
	}}
	close(f.done)
	return f
}()

// join returns the fetch of a name that is under way, or begins one. If it is needed and fails, it
// is noted: a probe needs no token, and could fill the list with names that do not exist.
func (is *Issuer) join(name string, needed bool) *fetch {
	c := &is.fetcher
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.fetches[name]
	if f == nil && len(c.fetches) >= mostFetches {
		return crowded
	}
	if f == nil {
		f = &fetch{done: make(chan struct{})}
		c.fetches[name] = f
		go is.runFetch(name, f)
	}
	f.needed = f.needed || needed
	return f
}

// runFetch calls Fetch, and notes its outcome.
func (is *Issuer) runFetch(name string, f *fetch) {
	c := &is.fetcher
	c.busy <- struct{}{}
	f.err = is.callFetch(name)
	<-c.busy
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.fetches, name)
	is.noteUnread(name, f)
	close(f.done)
}

// callFetch calls Fetch. Close does not wait for it, only for what it puts.
func (is *Issuer) callFetch(name string) (err error) {
	if is.changes.over() {
		return errStopping
	}
	defer recoverFrom(seqd.CodeInternal, "definition of", name, &err)
	return is.fetcher.source.Fetch(context.Background(), name)
}

// noteUnread keeps why a biz type could not be fetched, and lets it be tried again. mu is held.
func (is *Issuer) noteUnread(name string, f *fetch) {
	c, err := &is.fetcher, f.err
	switch seqd.CodeOf(err) {
	case "", seqd.CodeUnknownBizType, seqd.CodeStopping:
		delete(c.unread, name)
		return
	}
	before, known := c.unread[name]
	if !known && (!f.needed || len(c.unread) == mostUnread) {
		return
	}
	if len(c.unread) == 0 {
		is.log.Error("the definition of a biz type cannot be read; it is tried again", "bizType", name, "error", err)
	}
	c.unread[name] = unread{seqd.AsError(err), before.tries + 1}
	if !c.retrying {
		c.retrying = true
		go is.retryUnread()
	}
}

// retryUnread fetches what could not be read, until all could or the issuer is closed. While the
// node is not ready because of it, callers may not come.
func (is *Issuer) retryUnread() {
	for {
		select {
		case <-is.changes.ended:
			return
		case <-time.After(retryInit):
		}
		names, over := is.fetcher.toRetry()
		if over {
			return
		}
		var wg sync.WaitGroup
		for _, name := range names {
			f := is.join(name, true)
			wg.Go(func() { <-f.done })
		}
		wg.Wait()
	}
}

// toRetry returns the names that could not be read; over is true if there are none, and nobody
// retries any more.
func (c *fetcher) toRetry() (names []string, over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.unread {
		names = append(names, name)
	}
	c.retrying = len(names) > 0
	return names, !c.retrying
}

// unreadNow returns the biz types that could not be fetched, in no order. A single failure does not
// count: most pass at once.
func (c *fetcher) unreadNow() (list []Unready) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, u := range c.unread {
		if u.tries > 1 {
			list = append(list, Unready{BizType: name, Reason: u.why})
		}
	}
	return list
}

// Idle reports whether a biz type can be removed until it is needed again, and clears its mark of
// use: its strategy and its plugins are an [seqd.Idler] and say so, and nobody has used it since
// the last call. So leave it time to be used between two calls. Idle is true for a biz type that
// the issuer does not hold or that does not issue, and false while a change is under way.
func (is *Issuer) Idle(name string) bool {
	s := is.names.find(name)
	if s == nil {
		return true
	}
	c := s.look()
	if c.kind == changing {
		return false
	}
	return c.instance == nil || c.instance.idle()
}

// Drop removes a biz type until it is needed again, as [Issuer.Remove] does, if it is idle: see
// [Issuer.Idle]. An error says that it did not close well; it is dropped all the same. After Close
// it is [seqd.CodeStopping], and nothing is dropped.
func (is *Issuer) Drop(ctx context.Context, name string) (dropped bool, err error) {
	if !is.changes.begin() {
		return false, errStopping
	}
	defer is.changes.done()
	s, c := is.names.beginChange(name) // from here on callers wait
	if i := c.before.instance; i != nil && !i.idle() {
		return false, is.finish(ctx, name, s, c, c.before)
	}
	return true, is.replace(ctx, name, s, c, (*instance).close, func(_ *instance, known knowledge) (seatState, knowledge) {
		return seatState{}, known.condense()
	})
}

// idle is Idle for an instance. A part that panics is not idle.
func (i *instance) idle() (idle bool) {
	defer func() {
		if recover() != nil {
			idle = false
		}
	}()
	if i.used.Swap(false) || i.strategy != nil && !isIdle(ask[seqd.Idler](i.strategy)) {
		return false
	}
	for _, plug := range i.chain {
		if !isIdle(ask[seqd.Idler](plug.Plugin)) {
			return false
		}
	}
	return true
}

// isIdle reports whether a strategy or plugin can be closed and made anew.
func isIdle(part seqd.Idler) bool { return part != nil && part.Idle() }
