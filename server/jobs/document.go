package jobs

import (
	"encoding/json"
	"fmt"

	"github.com/seqd/seqd/persist"
)

// Kinds of documents. The key of a job is its ID, that of a page begins with it. Expires of a job is
// when something is due.
const (
	kind     = persist.JobKind
	pageKind = "jobrun"
)

// version is the version of the format of a job.
const version = 1

// encode returns a job as its document has it.
func (j *job) encode() json.RawMessage {
	j.Version = version
	text, err := json.Marshal(j)
	if err != nil {
		panic(err) // it is numbers and texts
	}
	return text
}

// decode is the inverse of encode.
func decode(id string, text json.RawMessage) (*job, error) {
	j := new(job)
	if err := json.Unmarshal(text, j); err != nil {
		return nil, fmt.Errorf("%w: job %s: %w", persist.ErrInvalid, id, err)
	}
	if j.Version > version {
		return nil, fmt.Errorf("%w: job %s has format %d, this build knows %d", persist.ErrNewer, id, j.Version, version)
	}
	if j.Version < 1 || j.Count < 1 || j.Chunk < 1 || j.State == "" {
		return nil, fmt.Errorf("%w: job %s is damaged", persist.ErrInvalid, id)
	}
	return j, nil
}

// pagesOf returns the documents of pages that were filled; first is the number of the first one.
func pagesOf(id string, first int, full []pageBody) (docs []persist.Document) {
	for n, b := range full {
		docs = append(docs, persist.Document{Kind: pageKind, Key: b.page().key(id, first+n), Revision: 1, Body: b.text()})
	}
	return docs
}
