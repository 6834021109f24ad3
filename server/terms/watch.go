package terms

import (
	"time"

	"github.com/seqd/seqd/internal/instant"
	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/persist"
)

// longestGap is how long a watch may receive nothing. After a longer gap it starts anew.
const longestGap = 2 * beatPause

// watch judges sessions by when their beats were received. Its methods are for a caller who holds a
// lock.
type watch struct {
	began instant.Instant    // when the watch started, or started anew
	last  instant.Instant    // when it received something last
	seen  map[string]receipt // by the key of the session
}

// receipt says when the newest revision of a session was received first.
type receipt struct {
	revision int64
	at       instant.Instant
}

func newWatch(now instant.Instant) watch { return watch{began: now, last: now} }

// receive gets the documents of sessions that were just read, and returns the silent ones, whose
// beat has not changed for Life + drift (K3). The caller declares each of them dead: it deletes the
// document, if that still has the same revision. If the session had a later beat, the document
// stays, and the session lives.
//
// receive measures from the receipt, by the clock that does not count suspension. So it never
// measures more time than has passed since the beat was written.
func (w *watch) receive(now instant.Instant, docs []persist.Document) (silent []persist.Document) {
	if now.Most(w.last) > longestGap { // an outage of the store may have kept the others from beating as well
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
		if now.Least(r.at) > silence() {
			silent = append(silent, doc)
		}
	}
	w.seen = seen
	return silent
}

// untilSilent returns how long it takes until receive may find another session silent. It is longer
// than beatPause as long as all sessions beat.
func (w *watch) untilSilent(now instant.Instant) time.Duration {
	next := Life
	for _, r := range w.seen {
		if left := silence() - now.Least(r.at); left >= 0 { // otherwise it was declared dead, or that failed
			next = min(next, left)
		}
	}
	return next + time.Millisecond
}

// settled reports whether this node has watched for Life + drift without a gap. Until then it takes
// nothing: a failover may have lost the document of a session, or that the session owns a work. By
// then every session that began before the failover has stopped.
func (w *watch) settled(now instant.Instant) bool {
	return now.Least(w.began) > Life+drift || sabotage.Off(sabotage.TermSettled)
}

// silence is how long a beat may stay unchanged before its session is declared dead.
func silence() time.Duration {
	if sabotage.Off(sabotage.TermDead) {
		return Life / 2
	}
	return Life + drift
}
