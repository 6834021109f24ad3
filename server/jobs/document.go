package jobs

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/terms"
)

// Kinds of documents. The key of a job is its ID, that of a page begins with it. Expires of a job is
// when something is due.
const (
	kind     = persist.JobKind
	pageKind = "jobrun"
)

// documentOf returns the document of a new job.
func documentOf(id string, j *job, resultTTL time.Duration) (persist.Document, error) {
	text, err := json.Marshal(terms.Body{State: j.encode()})
	return persist.Document{Kind: kind, Key: id, Revision: 1, Body: string(text), Timestamp: j.Created, Expires: j.due(resultTTL)}, err
}

// errRemoved is returned for what a job leaves for a while: see [Jobs.delete].
var errRemoved = errors.New("the job was removed")

// remains is the body of the document of a job that was removed.
type remains struct {
	// Pages is how the keys of its pages begin, which may be there yet.
	Pages string `json:"pages,omitempty"`
}

// remainsOf returns the next document of a job that is removed.
func remainsOf(doc persist.Document, j *job, until time.Time) persist.Document {
	text, err := json.Marshal(remains{j.under(doc.Key)})
	if err != nil {
		panic(err) // it is a text
	}
	doc.Revision, doc.Body, doc.Expires = doc.Revision+1, string(text), until.UnixMilli()
	return doc
}

// jobIn returns the job in a document, and its owner.
func jobIn(doc persist.Document) (*job, terms.Owner, error) {
	var b terms.Body
	if err := json.Unmarshal([]byte(doc.Body), &b); err != nil {
		return nil, b.Owner, fmt.Errorf("%w: job %s: %w", persist.ErrInvalid, doc.Key, err)
	}
	if b.State == nil {
		return nil, b.Owner, errRemoved
	}
	j, err := decode(doc.Key, b.State)
	return j, b.Owner, err
}

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

// pagesOf returns the documents of pages that were filled; first is the number of the first one, and
// under that of [job.under].
func pagesOf(under string, first int, full []pageBody) (docs []persist.Document) {
	for n, b := range full {
		docs = append(docs, persist.Document{Kind: pageKind, Key: b.page().key(under, first+n), Revision: 1, Body: b.text()})
	}
	return docs
}
