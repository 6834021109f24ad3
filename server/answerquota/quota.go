// Package answerquota bounds how many bytes are kept for requests with an Idempotency-Key, for
// reservations, and for numbers that became void of late: in all, and for each owner, so that one
// token cannot fill Redis or the store.
//
// Each process counts what it has kept, in buckets by the time at which that ends, and writes them
// into a document of its own every few seconds. The sum of all documents is what the cluster keeps.
// So the total can exceed the bound by what all nodes keep within one pause, and an answer counts
// for up to an eighth of its life longer than it is kept. The document of a process that has ended
// counts as long as its answers.
package answerquota

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/logging"
	"github.com/seqd/seqd/server/nodes"
)

const (
	// kind is the kind of the documents.
	kind = "answerbytes"
	// pause is between two looks at the documents, patience how long one may take, and leavePatience
	// how long the last one.
	pause         = 5 * time.Second
	patience      = 3 * time.Second
	leavePatience = time.Second
	// parts is how many buckets the life of what is kept has.
	parts = 8
	// mostOwners is how many owners a bucket counts by name. It counts what is kept for further
	// owners under rest, which is no owner: that counts in all and not against the bound of an owner.
	// A process keeps records of two lives, a day and idempotency.ttl, each in at most parts + 1
	// buckets: so a document has at most 2 (parts + 1) (mostOwners + 1) sums.
	mostOwners = 500
	rest       = "~"
	// mostPurged is how many documents that have ended are removed at a time.
	mostPurged = 1000
	// overhead is how many bytes an answer takes besides its text, about.
	overhead = 200
)

// Options are what a Quota depends on.
type Options struct {
	Documents persist.Documents
	// Clock is the time that nodes have in common.
	Clock func() time.Time
	// Bounds returns how many bytes may be kept in all, and for one owner. 0 is no bound.
	Bounds func() (most, mostPerOwner int64)
	Log    *slog.Logger
}

// Quota counts and bounds what is kept. It is safe for concurrent use.
type Quota struct {
	opts Options

	mu     sync.Mutex // guards what follows
	kept   []bucket   // by this process, in no order
	others []bucket   // by other processes, in no order
	dirty  bool       // kept is not written
	total  sum
	owners map[string]sum
}

// bucket is what is kept until a time.
type bucket struct {
	// Ends is in ms since 1970.
	Ends int64 `json:"ends"`
	// Bytes is by owner.
	Bytes map[string]int64 `json:"bytes"`
}

// sum is how many bytes are kept, and when the first of them end, in ms.
type sum struct{ bytes, ends int64 }

func (s sum) plus(bytes, ends int64) sum {
	if s.bytes == 0 || ends < s.ends {
		s.ends = ends
	}
	s.bytes += bytes
	return s
}

// New returns a quota under which nothing is kept yet; see [Quota.Follow].
func New(o Options) *Quota { return &Quota{opts: o, owners: make(map[string]sum)} }

// Admit returns why nothing more may be kept for an owner, nil if something may.
func (q *Quota) Admit(owner string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	own := q.owners[owner]
	most, mostPerOwner := q.opts.Bounds()
	switch {
	case mostPerOwner > 0 && own.bytes >= mostPerOwner:
		return q.refusal(seqd.CodeTooManyAnswers, own, "for this caller", "idempotency.maxBytesPerCaller", mostPerOwner)
	case most > 0 && q.total.bytes >= most:
		return q.refusal(seqd.CodeAnswersFull, q.total, "in all", "idempotency.maxBytes", most)
	}
	return nil
}

func (q *Quota) refusal(code seqd.Code, s sum, whose, setting string, most int64) *seqd.Error {
	return &seqd.Error{
		Code:       code,
		Detail:     fmt.Sprintf("what is kept %s, of requests with an Idempotency-Key, of reservations and of numbers that became void in the last day, takes %d bytes, and %s is %d", whose, s.bytes, setting, most),
		RetryAfter: max(time.UnixMilli(s.ends).Sub(q.opts.Clock()), time.Second),
	}
}

// Kept counts what has a number of bytes and is kept for a time from now on.
func (q *Quota) Kept(owner string, bytes int, life time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	b := q.bucket(life)
	if _, known := b.Bytes[owner]; !known && len(b.Bytes) >= mostOwners {
		owner = rest
	}
	size := int64(bytes + overhead)
	b.Bytes[owner] += size
	q.total = q.total.plus(size, b.Ends)
	q.owners[owner] = q.owners[owner].plus(size, b.Ends)
	q.dirty = true
}

// bucket returns the bucket of what is kept for a time from now on. mu is held.
func (q *Quota) bucket(life time.Duration) *bucket {
	part := max(life/parts, time.Millisecond)
	ends := q.opts.Clock().Truncate(part).Add(part + life).UnixMilli()
	if i := slices.IndexFunc(q.kept, func(b bucket) bool { return b.Ends == ends }); i >= 0 {
		return &q.kept[i]
	}
	q.kept = append(q.kept, bucket{Ends: ends, Bytes: make(map[string]int64)})
	return &q.kept[len(q.kept)-1]
}

// Bytes returns how many bytes are kept, about.
func (q *Quota) Bytes() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.total.bytes
}

// Follow writes what this process keeps, and reads what others keep, until ctx ends. If the store
// is away, what was read last counts.
func (q *Quota) Follow(ctx context.Context) {
	own := &nodes.Own{Documents: q.opts.Documents, Kind: kind, Key: rand.Text()}
	trouble := logging.Trouble{Log: q.opts.Log, Begins: "how much is kept for Idempotency-Keys and reservations cannot be written or read; it is tried again"}
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		err := q.look(ctx, own)
		if ctx.Err() == nil {
			trouble.Note(err)
		}
		select {
		case <-ctx.Done():
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leavePatience)
			defer cancel()
			_ = q.write(ctx, own, q.opts.Clock()) // what cannot be written now counts no more
			return
		case <-ticker.C:
		}
	}
}

// look writes the document of this process, if something was kept since, and reads the others.
func (q *Quota) look(ctx context.Context, own *nodes.Own) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	now := q.opts.Clock()
	if err := q.write(ctx, own, now); err != nil {
		return err
	}
	if _, err := q.opts.Documents.Purge(ctx, kind, now.UnixMilli(), mostPurged); err != nil {
		return err
	}
	var others []bucket
	for doc, err := range persist.EveryDocument(ctx, q.opts.Documents, kind) {
		if err != nil {
			return err
		}
		var buckets []bucket
		if doc.Key != own.Key && json.Unmarshal([]byte(doc.Body), &buckets) == nil { // a damaged one counts nothing
			others = append(others, buckets...)
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.others = others
	q.add(now.UnixMilli())
	return nil
}

// write writes the document of this process, if something was kept since.
func (q *Quota) write(ctx context.Context, own *nodes.Own, now time.Time) error {
	body, ends, err := q.unwritten()
	if body == nil || err != nil {
		return err
	}
	if err = own.Write(ctx, string(body), now, ends.Sub(now)); err != nil {
		q.mu.Lock()
		q.dirty = true
		q.mu.Unlock()
	}
	return err
}

// unwritten returns what is kept, as JSON, and when the last of it ends, and takes it as written.
// It is nil if nothing was kept since.
func (q *Quota) unwritten() (body []byte, ends time.Time, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.dirty || len(q.kept) == 0 { // what was not written has ended
		return nil, ends, nil
	}
	q.dirty = false
	last := slices.MaxFunc(q.kept, func(a, b bucket) int { return cmp.Compare(a.Ends, b.Ends) })
	body, err = json.Marshal(q.kept)
	return body, time.UnixMilli(last.Ends), err
}

// add forgets what has ended, and adds up the rest. mu is held.
func (q *Quota) add(now int64) {
	q.kept = slices.DeleteFunc(q.kept, func(b bucket) bool { return b.Ends <= now })
	q.total, q.owners = sum{}, make(map[string]sum)
	for _, b := range slices.Concat(q.kept, q.others) {
		if b.Ends <= now {
			continue
		}
		for owner, bytes := range b.Bytes {
			q.total = q.total.plus(bytes, b.Ends)
			q.owners[owner] = q.owners[owner].plus(bytes, b.Ends)
		}
	}
}
