package terms

import (
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"github.com/seqd/seqd/internal/instant"
	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/persist"
)

// kind is the kind of the documents that are sessions. The console has sessions too.
const kind = "nodesession"

const (
	// Life is the time without a beat after which a session ends: its node stops margin earlier,
	// and other nodes declare the session dead drift later.
	Life = 3 * time.Second
	// beatPause is the pause between two beats.
	beatPause = Life / 3
	// margin and drift together bound how much the rates of the clocks of two nodes may differ.
	margin = Life / 10
	drift  = Life / 10
)

// session is the session of this node, and what the node knows of its last beat. Its methods are
// for a caller who holds a lock.
type session struct {
	// key is the ID of the node, a dot and a text that is used once. So a session that was declared
	// dead never returns, even if a beat that was sent before arrives later.
	key string
	// fence is that of the store when the session began, "" if the store has none. Each write under
	// the session names it, so a failover that may have lost writes ends the session.
	fence string
	// revision is that of the last beat which the store has confirmed, 0 for none. sent is when the
	// node sent that beat.
	revision int64
	sent     instant.Instant
	// unsure is true if the store may have a later beat than that, because an answer was lost.
	unsure bool
	// over is whether the session has ended.
	over bool
}

// newSession returns a session that is not in the store yet.
func newSession(node, fence string) session {
	return session{key: node + "." + rand.Text(), fence: fence}
}

// NodeOf returns the ID of the node that began a session.
func NodeOf(key string) string {
	node, _, _ := strings.Cut(key, ".")
	return node
}

// alive is K1, self-stop: it reports whether the node may work. The node counts from when it sent
// the beat, and stops after Life − margin. Another node counts from when it received the beat,
// which is later, and waits for Life + drift: see [watch.receive]. So the node stops first.
func (s *session) alive(now instant.Instant) bool {
	return s.revision > 0 && !s.over && (s.left(now) > 0 || sabotage.Off(sabotage.TermStop))
}

// left returns how long the node may still work.
func (s *session) left(now instant.Instant) time.Duration {
	return Life - margin - now.Most(s.sent)
}

// next returns the document of the next beat. at is the time of day, for people who look at it.
func (s *session) next(at time.Time) persist.Document {
	return persist.Document{Kind: kind, Key: s.key, Revision: s.revision + 1, Body: "{}", Timestamp: at.UnixMilli()}
}

// noteBeat notes what the store answered to the beat that next returned, which was sent at sent.
func (s *session) noteBeat(sent instant.Instant, err error) {
	switch {
	case err == nil:
		s.revision, s.sent = s.revision+1, sent
	case errors.Is(err, persist.ErrNotFound), errors.Is(err, persist.ErrFailedOver), s.revision == 0:
		// In this order: it was declared dead; the store failed over; it is not certain that it
		// began.
		s.over = true
	default:
		s.unsure = true
	}
}

// noteRead notes which revision the store has after an unsure beat. If it is lower than a confirmed
// one, an older copy of the store was restored.
func (s *session) noteRead(revision int64, err error) {
	switch {
	case errors.Is(err, persist.ErrNotFound), err == nil && revision < s.revision, errors.Is(err, persist.ErrInvalid), errors.Is(err, persist.ErrNewer):
		s.over = true // also one that somebody has overwritten
	case err == nil:
		s.revision, s.unsure = revision, false
	}
}
