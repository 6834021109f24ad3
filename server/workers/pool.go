package workers

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/literal"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/strategy/snowflake/machineid"
)

// Kind is the kind of the documents of pools.
const Kind = "workerpool"

// The limits of the ttl of a pool.
const leastTTL, mostTTL = time.Second, time.Hour

// body is the JSON in the document of a pool.
type body struct {
	Format       int    `json:"format"`
	BitsMachine  int    `json:"bitsMachine"`
	BitsSequence int    `json:"bitsSequence"`
	Epoch        string `json:"epoch"`
	TTL          string `json:"ttl"`
}

const format = 1

// check returns an error that names the setting of a pool that is wrong. now is the node's time.
func check(p admin.WorkerPool, now time.Time) error {
	var problems seqd.Problems
	bits(p).Check(problems.Check)
	problems.Check(p.Epoch.UnixMilli() >= 0 && !machineid.Future(p.Epoch, now), "epoch", "%s is not between 1970 and now", p.Epoch.Format(admin.TimeFormat))
	problems.Check(p.Epoch.Nanosecond()%int(time.Millisecond) == 0, "epoch", "%s is not a whole millisecond", p.Epoch.Format(time.RFC3339Nano))
	problems.Add("ttl", literal.Within(p.TTL, leastTTL, mostTTL))
	problems.Check(p.TTL%time.Millisecond == 0, "ttl", "%s is not in whole milliseconds", p.TTL)
	if len(problems) == 0 { // otherwise there may be no last time
		problems.Check(now.UnixMilli() < lastTime(p), "epoch", "the numbers ended at %s, because the time has %d bits: take a later epoch, or fewer bits of machine ID and sequence",
			admin.Time(lastTime(p)), bits(p).Time())
	}
	for _, problem := range problems {
		return seqd.Errorf(seqd.CodeInvalidRequest, "%s: %s", problem.Key, problem.Text)
	}
	return nil
}

func bits(p admin.WorkerPool) machineid.Bits {
	return machineid.Bits{Machine: p.BitsMachine, Sequence: p.BitsSequence}
}

// lastTime returns the last time, in ms since the Unix epoch, that fits into a number.
func lastTime(p admin.WorkerPool) int64 { return p.Epoch.UnixMilli() + 1<<bits(p).Time() - 1 }

// inTime returns an error unless later times than one fit into a number.
func inTime(p admin.WorkerPool, ms int64) error {
	if ms < lastTime(p) {
		return nil
	}
	return seqd.Errorf(seqd.CodeExhausted, "the times of the pool %s ended at %s: make a pool with another name and a later epoch", p.Name, admin.Time(lastTime(p)))
}

// layout describes the numbers that are made with the worker IDs of a pool.
func layout(p admin.WorkerPool) string { return bits(p).Layout(p.Epoch.UnixMilli()) }

// documentOf returns the document that holds the definition of a pool.
func documentOf(p admin.WorkerPool) persist.Document {
	text, _ := json.Marshal(body{ // it never fails
		format, p.BitsMachine, p.BitsSequence, p.Epoch.UTC().Format(admin.TimeFormat), literal.ShortDuration(p.TTL),
	})
	return persist.Document{Kind: Kind, Key: p.Name, Revision: p.Revision, Body: string(text), Timestamp: p.Updated.UnixMilli()}
}

// readPool is the inverse of documentOf.
func readPool(doc persist.Document) (p admin.WorkerPool, err error) {
	var b body
	if err := json.Unmarshal([]byte(doc.Body), &b); err != nil {
		return p, fmt.Errorf("%w: %s: %v", persist.ErrInvalid, doc.PersistID(), err)
	}
	if b.Format > format {
		return p, fmt.Errorf("%w: %s has format %d, this build knows %d", persist.ErrNewer, doc.PersistID(), b.Format, format)
	}
	epoch, known := literal.Time(b.Epoch)
	ttl, ok := literal.Duration(b.TTL)
	if !known || !ok {
		return p, fmt.Errorf("%w: %s is damaged", persist.ErrInvalid, doc.PersistID())
	}
	return admin.WorkerPool{
		Name: doc.Key, BitsMachine: b.BitsMachine, BitsSequence: b.BitsSequence, Epoch: epoch.UTC(), TTL: ttl,
		Revision: doc.Revision, Updated: time.UnixMilli(doc.Timestamp).UTC(),
	}, nil
}
