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
	// Life is how long a session lives without a beat, about.
	Life = 3 * time.Second
	// beatPause is the pause between two beats.
	beatPause = Life / 3
	// margin is how much earlier a node stops its work, and drift how much later others declare its
	// session dead. Together they bound how much the rates of two clocks may differ.
	margin = Life / 10
	drift  = Life / 10
)

// session is the beat of this node. Its methods are for a caller who holds a lock.
type session struct {
	// key is the ID of the node, a dot and a text that is used once. So a session that was declared
	// dead never returns, even if a write of before arrives later.
	key string
	// fence is that of the store when the session began, "" if the store has none. Each write names
	// it, so a session ends with a failover that may have lost writes.
	fence string
	// revision is the last that is known to be in the store, and sent when that beat was sent.
	revision int64
	sent     instant.Instant
	// unsure is whether a later beat may be there.
	unsure bool
	// over is whether the session has ended.
	over bool
}

// newSession returns a session that is not in the store yet.
func newSession(node, fence string) session {
	return session{key: node + "." + rand.Text(), fence: fence}
}

// nodeOf returns the ID of the node that began a session.
func nodeOf(key string) string {
	node, _, _ := strings.Cut(key, ".")
	return node
}

// alive is K1, self-stop: it reports whether the node may work. A beat that was sent then is received
// later, and others wait for longer after that, see [watch.look]. So nobody has declared the session
// dead before.
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

// told notes what became of the document that next returned, which was sent then.
func (s *session) told(sent instant.Instant, err error) {
	switch {
	case err == nil:
		s.revision, s.sent = s.revision+1, sent
	case errors.Is(err, persist.ErrNotFound), errors.Is(err, persist.ErrFailedOver), s.revision == 0:
		s.over = true // it was declared dead; the store has lost what nobody knows; it never began
	default:
		s.unsure = true
	}
}

// found notes which revision is there after an unsure beat. A lower one than was there before means
// that the store was put back.
func (s *session) found(revision int64, err error) {
	switch {
	case errors.Is(err, persist.ErrNotFound), err == nil && revision < s.revision:
		s.over = true
	case err == nil:
		s.revision, s.unsure = revision, false
	}
}
