package terms

import (
	"time"

	"github.com/seqd/seqd/internal/instant"
	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/persist"
)

// longestGap is how long a watch may receive nothing.
const longestGap = 2 * beatPause

// watch judges sessions by when their beats were received. Its methods are for a caller who holds a
// lock.
type watch struct {
	began, last instant.Instant
	seen        map[string]receipt // by key
}

// receipt is when a revision was received first.
type receipt struct {
	revision int64
	at       instant.Instant
}

func newWatch(now instant.Instant) watch { return watch{began: now, last: now} }

// look takes the documents of sessions, which were just received, and returns those that are dead
// (K3). The caller deletes each with its revision. That is what makes it final: if the session had
// a later beat, the document stays, and the session lives.
//
// All that is measured is measured from the receipt, by the clock that does not count suspension. So
// it is never more than what has passed since the beat was written.
func (w *watch) look(now instant.Instant, docs []persist.Document) (dead []persist.Document) {
	if now.Most(w.last) > longestGap { // the others may have been away as well, and need time for a beat
		*w = newWatch(now)
	}
	w.last = now
	seen := make(map[string]receipt, len(docs))
	for _, doc := range docs {
		r, known := w.seen[doc.Key]
		if !known || r.revision != doc.Revision {
			r = receipt{doc.Revision, now}
		}
		seen[doc.Key] = r
		if now.Least(r.at) > patience() {
			dead = append(dead, doc)
		}
	}
	w.seen = seen
	return dead
}

// settled reports whether this node has watched for as long as any session of before can live. Until
// then it takes nothing: a failover may have lost that a session owns a work, or the session itself.
func (w *watch) settled(now instant.Instant) bool {
	return now.Least(w.began) > Life+drift || sabotage.Off(sabotage.TermSettled)
}

// patience is how long a session lives after the receipt of its last beat.
func patience() time.Duration {
	if sabotage.Off(sabotage.TermDead) {
		return Life / 2
	}
	return Life + drift
}
