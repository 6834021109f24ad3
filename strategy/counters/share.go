package counters

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
)

// One caller may create newKeysPerCaller keys a day, so that it cannot use up the places of all
// others. How many it has created is in a document. A node that creates keys adds to it, and learns
// what others have added, about once a second. So nodes that create keys for a caller at the same
// time may together exceed the bound by those of a second, and so may a node that crashes.

const (
	// shareKind is the kind of the documents. The key is the name of the counter of places, a colon
	// and the caller.
	shareKind = "newkeys"
	// noteAfter is how long keys are created before the document is written.
	noteAfter = time.Second
	// mostPurged is how many documents of days that are over are removed at a time.
	mostPurged = 100

	day = 24 * time.Hour
)

// shares are what callers have created on a day. [Places].mu guards them.
type shares struct {
	day   int64 // days since 1970, in UTC
	of    map[string]*share
	timer bool // noteShares runs soon
}

// share is what one caller has created.
type share struct {
	read  bool  // noted is known
	noted int64 // by all nodes, in the document
	more  int64 // by this one, not in the document
}

// Place is what [Places.Take] has taken.
type Place struct {
	by  string
	day int64
}

// body is that of a document.
type body struct {
	Day  int64 `json:"day"`
	Keys int64 `json:"keys"`
}

// share returns the share of a caller today, and the day. mu is held.
func (p *Places) share(by string) (s *share, today int64) {
	if today = p.Env.Now().UnixMilli() / day.Milliseconds(); p.shares.of == nil || p.shares.day != today {
		p.shares.day, p.shares.of = today, map[string]*share{}
	}
	if s = p.shares.of[by]; s == nil {
		s = &share{}
		p.shares.of[by] = s
	}
	return s, today
}

// Check returns an error with [seqd.CodeRateLimited] if a caller has created as many keys today as
// it may. It spends nothing. If the store cannot be read, what it would say does not count.
func (p *Places) Check(ctx context.Context, by string) error {
	if p.Settings.NewKeysPerCaller == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s, today := p.share(by)
	if !s.read {
		p.mu.Unlock()
		_, b, err := p.readShare(ctx, by, today)
		p.mu.Lock()
		s.read, s.noted = s.read || err == nil, max(s.noted, b.Keys)
	}
	return p.refusal(s, today)
}

// refusal returns why a caller gets no more keys today, nil if it does. mu is held.
func (p *Places) refusal(s *share, today int64) error {
	if s.noted+s.more < p.Settings.NewKeysPerCaller {
		return nil
	}
	return &seqd.Error{
		Code: seqd.CodeRateLimited, RetryAfter: time.UnixMilli((today + 1) * day.Milliseconds()).Sub(p.Env.Now()),
		Detail: fmt.Sprintf("the caller has created %d keys of %s today, as many as %s.newKeysPerCaller allows, %d: use a key that exists, or wait for the next day in UTC",
			s.noted+s.more, p.BizType.Name, p.BizType.Strategy, p.Settings.NewKeysPerCaller),
	}
}

// countNew notes that a caller creates a key, unless it may not.
func (p *Places) countNew(by string) (Place, error) {
	if p.Settings.NewKeysPerCaller == 0 {
		return Place{}, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s, today := p.share(by)
	if err := p.refusal(s, today); err != nil {
		return Place{}, err
	}
	s.more++
	p.noteSoon()
	return Place{by, today}, nil
}

// uncountNew takes back what countNew noted, because the key was not created. If that was on
// another day, it does not matter any more.
func (p *Places) uncountNew(place Place) {
	if p.Settings.NewKeysPerCaller == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if s, today := p.share(place.by); today == place.day {
		s.more--
		p.noteSoon()
	}
}

// noteSoon writes the documents in a moment. mu is held.
func (p *Places) noteSoon() {
	if p.shares.timer {
		return
	}
	p.shares.timer = true
	time.AfterFunc(noteAfter, func() {
		if p.running.Err() != nil {
			return // Close has written them
		}
		err := p.noteShares(p.running)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.shares.timer = false; err != nil {
			p.noteSoon()
		}
	})
}

// noteShares adds what callers of this node have created to their documents.
func (p *Places) noteShares(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	p.mu.Lock()
	today, more := p.shares.day, map[string]int64{}
	for by, s := range p.shares.of {
		if s.more != 0 {
			more[by] = s.more
		}
	}
	p.mu.Unlock()
	for by, n := range more {
		noted, failed := p.noteShare(ctx, by, today, n)
		if errors.Is(failed, errOver) {
			continue
		}
		if err = cmp.Or(err, failed); failed != nil {
			continue
		}
		p.mu.Lock()
		if s, now := p.share(by); now == today {
			s.read, s.noted, s.more = true, noted, s.more-n
		}
		p.mu.Unlock()
	}
	return err
}

// errOver is why nothing is noted of a day: by the clock of another node, a later one has begun.
var errOver = errors.New("the day is over")

// noteShare adds n keys to the document of a caller, and returns how many there are then.
func (p *Places) noteShare(ctx context.Context, by string, today, n int64) (noted int64, err error) {
	d, b, err := p.readShare(ctx, by, today)
	if err != nil {
		return 0, err
	}
	if b.Day > today {
		return 0, errOver
	}
	noted = max(0, b.Keys+n)
	text, err := json.Marshal(body{Day: today, Keys: noted})
	if err != nil {
		return 0, err
	}
	d.Revision, d.Body, d.Timestamp, d.Expires = d.Revision+1, string(text), p.Env.Now().UnixMilli(), (today+1)*day.Milliseconds()
	if d.Revision == 1 {
		_, _ = p.Env.Store.Documents().Purge(ctx, shareKind, today*day.Milliseconds(), mostPurged) // the next one tries again
	}
	return noted, persist.Put(ctx, p.Env.Store.Documents(), d)
}

// readShare reads the document of a caller, which has revision 0 if there is none, and what it says
// of a day, or of a later one.
func (p *Places) readShare(ctx context.Context, by string, today int64) (d persist.Document, b body, err error) {
	key := p.name + ":" + by
	d, err = p.Env.Store.Documents().Read(ctx, shareKind, key)
	if errors.Is(err, persist.ErrNotFound) {
		return persist.Document{Kind: shareKind, Key: key}, b, nil
	}
	if err == nil && (json.Unmarshal([]byte(d.Body), &b) != nil || b.Day < today) {
		b = body{}
	}
	return d, b, err
}
