package workers

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/literal"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/admin"
)

// kind is the kind of the documents of pools.
const kind = "workerpool"

// Limits of a pool. Fewer than 32 bits of time last for less than 50 days.
const (
	leastTTL, mostTTL = time.Second, time.Hour
	allBits           = 63
	leastTime         = 32
	mostMachine       = 16
)

// plausible is before all times that a clock which is right can show. Machines begin with an
// earlier one, until somebody has told them the time: that is no mistake in a pool.
var plausible = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

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
	problems.Check(p.BitsMachine >= 1 && p.BitsMachine <= mostMachine, "bitsMachine", "%d is outside 1 to %d", p.BitsMachine, mostMachine)
	most := allBits - leastTime - min(max(p.BitsMachine, 1), mostMachine)
	problems.Check(p.BitsSequence >= 1 && p.BitsSequence <= most, "bitsSequence",
		"%d is outside 1 to %d: worker ID and sequence must leave the time %d of %d bits", p.BitsSequence, most, leastTime, allBits)
	problems.Check(p.Epoch.UnixMilli() >= 0 && (p.Epoch.Before(now) || now.Before(plausible)), "epoch", "%s is not between 1970 and now", p.Epoch.Format(admin.TimeFormat))
	problems.Check(p.Epoch.Nanosecond()%int(time.Millisecond) == 0, "epoch", "%s is not a whole millisecond", p.Epoch.Format(time.RFC3339Nano))
	problems.Add("ttl", literal.Within(p.TTL, leastTTL, mostTTL))
	problems.Check(p.TTL%time.Millisecond == 0, "ttl", "%s is not in whole milliseconds", p.TTL)
	for _, problem := range problems {
		return seqd.Errorf(seqd.CodeInvalidRequest, "%s: %s", problem.Key, problem.Text)
	}
	return nil
}

// layout describes the numbers that are made with the worker IDs of a pool. Different numbers have
// different texts.
func layout(p admin.WorkerPool) string {
	return fmt.Sprintf("epoch=%s unit=1ms time=%d sequence=%d machine=%d",
		p.Epoch.UTC().Format(admin.TimeFormat), allBits-p.BitsSequence-p.BitsMachine, p.BitsSequence, p.BitsMachine)
}

// documentOf returns the document of a pool.
func documentOf(p admin.WorkerPool) persist.Document {
	text, _ := json.Marshal(body{ // it never fails
		format, p.BitsMachine, p.BitsSequence, p.Epoch.UTC().Format(admin.TimeFormat), literal.ShortDuration(p.TTL),
	})
	return persist.Document{Kind: kind, Key: p.Name, Revision: p.Revision, Body: string(text), Timestamp: p.Updated.UnixMilli()}
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
