package segment

import (
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/lockorder"
	"github.com/seqd/seqd/strategy/segment/cursor"
)

// pulse is whether the store gives ranges to the keys of one biz type, so that it is logged and
// reported once and not for each key.
type pulse struct {
	// tell logs and reports that the store begins (nil) or ceases to give ranges.
	tell func(err error)
	// watch asks the store in the background until it answers, and calls note then.
	watch func()

	mu   lockorder.Inner // guards what follows
	away error           // why the store gives no ranges, nil if it does
	// watching is whether what watch began has not ended. If the store answers some calls and not
	// others, away changes often, and there is still one watcher.
	watching bool
	// looked is when a counter was last read to find out whether the store failed over.
	looked time.Time
}

// lookPause is the shortest pause between two keys that are read to report a failover.
const lookPause = time.Second

// looks reports whether a counter is to be read to find out whether the store failed over. Every
// cold key skips a gap then, so it is reported for some of them: reading each would double what a
// cold key costs.
func (p *pulse) looks() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if !p.looked.IsZero() && now.Sub(p.looked) < lookPause {
		return false
	}
	p.looked = now
	return true
}

// note notes what came of asking the store. That a counter is exhausted, say, concerns one key only.
func (p *pulse) note(err error) {
	if err != nil && !isAway(err) {
		return
	}
	p.mu.Lock()
	was := p.away
	p.away = err
	begins := err != nil && !p.watching
	p.watching = p.watching || begins
	p.mu.Unlock()
	if begins {
		p.watch()
	}
	if (was == nil) != (err == nil) {
		p.tell(err)
	}
}

// watches reports whether the store is still to be watched. If not, the watcher must end: the next
// outage begins another one.
func (p *pulse) watches() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watching = p.away != nil
	return p.watching
}

// isAway reports whether an error says that the store cannot be used now.
func isAway(err error) bool {
	return !cursor.IsFinal(err) && cursor.StoreError(err).Code == seqd.CodeStoreUnavailable
}

// why returns why the store gives no ranges, nil if it does.
func (p *pulse) why() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.away
}
