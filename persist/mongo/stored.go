package mongo

import (
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/seqd/seqd/persist"
)

// storedCounter is how a counter is read. Its numbers are raw: the client library would convert
// true to 1 and a missing field to 0.
type storedCounter struct {
	ID        string        `bson:"_id"`
	Version   bson.RawValue `bson:"v"`
	Shut      bson.RawValue `bson:"shutV"`
	BizTag    string        `bson:"bizTag"`
	Max       bson.RawValue `bson:"max"`
	Step      bson.RawValue `bson:"step"`
	Timestamp bson.RawValue `bson:"timestamp"`
	Epoch     string        `bson:"epoch"` // missing in records of the first versions
}

func (c storedCounter) model() (m persist.Counter, err error) {
	m.BizTag, m.Epoch = c.BizTag, c.Epoch
	if err := checkDocument(c.ID, c.BizTag, versionOf(c.Version, c.Shut)); err != nil {
		return m, err
	}
	for field, from := range map[*int64]bson.RawValue{&m.Max: c.Max, &m.Step: c.Step, &m.Timestamp: c.Timestamp} {
		var ok bool
		if *field, ok = integer(from); !ok {
			return m, damaged(c.ID)
		}
	}
	return m, m.Validate()
}

// document is how a record is written.
func document(m persist.Record) bson.D {
	d := known(m.PersistID())
	switch m := m.(type) {
	case persist.Counter:
		d = append(d, bson.E{Key: "max", Value: m.Max}, bson.E{Key: "step", Value: m.Step}, bson.E{Key: "timestamp", Value: m.Timestamp},
			bson.E{Key: "epoch", Value: m.Epoch})
	case persist.Document:
		d = append(d, bson.E{Key: "kind", Value: m.Kind}, bson.E{Key: "revision", Value: m.Revision}, bson.E{Key: "body", Value: m.Body},
			bson.E{Key: "timestamp", Value: m.Timestamp}, bson.E{Key: "expires", Value: m.Expires})
	}
	return d
}

// checkDocument returns ErrNewer for a newer format, and ErrInvalid if the record is damaged or was
// copied from another _id.
func checkDocument(id, bizTag string, version bson.RawValue) error {
	v, ok := integer(version)
	switch {
	case ok && v > persist.FormatVersion:
		return fmt.Errorf("%q: %w: document format %d, this build knows %d", id, persist.ErrNewer, v, persist.FormatVersion)
	case !ok || v < 1 || bizTag != id:
		return damaged(id)
	}
	return nil
}

func damaged(id string) error {
	return fmt.Errorf("%q: %w: the document is damaged", id, persist.ErrInvalid)
}

// integer returns a value that is stored as an integer.
func integer(v bson.RawValue) (int64, bool) {
	if n, ok := v.Int64OK(); ok {
		return n, true
	}
	n, ok := v.Int32OK()
	return int64(n), ok
}

// known selects a document of the format that this build knows.
func known(id string) bson.D {
	return bson.D{{Key: "_id", Value: id}, {Key: "v", Value: persist.FormatVersion}, {Key: "bizTag", Value: id}}
}
