package mongo

import (
	"context"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/seqd/seqd/persist"
)

// mostEpochs is how many counters one query reads the epochs of, so that its answer stays small.
const mostEpochs = 1000

// epochs reads the epochs of counters. A node rereads those of all its active counters every few
// seconds; so one query is under way at a time, and the callers that arrive meanwhile share the
// next ones. It is safe for concurrent use.
type epochs struct {
	// find reads the epochs of some counters. What it does not find is not in the answer.
	find func(ctx context.Context, bizTags []string) (map[string]foundEpoch, error)

	mu      sync.Mutex    // guards what follows
	forming []*epochQuery // not yet sent; the last one has room
	running bool          // send runs
}

// foundEpoch is what a record says.
type foundEpoch struct {
	epoch string
	err   error // the record cannot be read
}

// epochQuery is callers that share a query.
type epochQuery struct {
	bizTags []string
	done    chan struct{} // closed when found and err are set
	found   map[string]foundEpoch
	err     error
}

// read returns the epoch of a counter, by a query that is sent after the call began.
func (e *epochs) read(ctx context.Context, bizTag string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	q := e.join(bizTag)
	select {
	case <-q.done:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if q.err != nil {
		return "", about(bizTag, q.err)
	}
	found, ok := q.found[bizTag]
	if !ok {
		return "", about(bizTag, persist.ErrNotFound)
	}
	return found.epoch, found.err
}

// join adds a counter to the query that is forming.
func (e *epochs) join(bizTag string) *epochQuery {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.forming); n == 0 || len(e.forming[n-1].bizTags) == mostEpochs {
		e.forming = append(e.forming, &epochQuery{done: make(chan struct{})})
	}
	q := e.forming[len(e.forming)-1]
	q.bizTags = append(q.bizTags, bizTag)
	if !e.running {
		e.running = true
		go e.send()
	}
	return q
}

// send sends query after query until none is forming.
func (e *epochs) send() {
	for {
		e.mu.Lock()
		if len(e.forming) == 0 {
			e.running = false
			e.mu.Unlock()
			return
		}
		q := e.forming[0]
		e.forming = e.forming[1:]
		e.mu.Unlock()
		q.found, q.err = e.find(context.Background(), q.bizTags)
		close(q.done)
	}
}

// storedEpoch is how the epoch of a counter is read.
type storedEpoch struct {
	ID      string        `bson:"_id"`
	Version bson.RawValue `bson:"v"`
	// taken as it stands: one damaged record must not spoil the answer for all others
	BizTag bson.RawValue `bson:"bizTag"`
	Epoch  bson.RawValue `bson:"epoch"`
}

// found returns what the record says. One of the first versions has no epoch.
func (e storedEpoch) found() foundEpoch {
	bizTag, _ := e.BizTag.StringValueOK()
	epoch, ok := e.Epoch.StringValueOK()
	if !ok && !e.Epoch.IsZero() && e.Epoch.Type != bson.TypeNull {
		return foundEpoch{err: damaged(e.ID)}
	}
	return foundEpoch{epoch, checkDocument(e.ID, bizTag, e.Version)}
}

// findEpochs is what [epochs] reads with.
func (c *counters) findEpochs(ctx context.Context, bizTags []string) (map[string]foundEpoch, error) {
	ctx, cancel, err := c.begin(ctx)
	defer cancel()
	if err != nil {
		return nil, err
	}
	fields := bson.D{{Key: "v", Value: 1}, {Key: "bizTag", Value: 1}, {Key: "epoch", Value: 1}}
	filter := bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: bizTags}}}}
	cursor, err := c.collection.Find(ctx, filter, options.Find().SetProjection(fields))
	if err != nil {
		return nil, translate(err)
	}
	var documents []storedEpoch
	if err := cursor.All(ctx, &documents); err != nil {
		return nil, translate(err)
	}
	found := make(map[string]foundEpoch, len(documents))
	for _, d := range documents {
		found[d.ID] = d.found()
	}
	return found, nil
}
