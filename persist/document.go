package persist

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"unicode/utf8"
)

// Document is a text with a revision.
type Document struct {
	// Kind is the set it belongs to, such as definition or token: 1 to 32 lower-case letters.
	Kind string `json:"kind"`
	// Key is its name in the set: 1 to 512 bytes of UTF-8.
	Key string `json:"key"`
	// Revision is 1 in a new document and one more with each change.
	Revision int64 `json:"revision"`
	// Body is at most 1 MiB of UTF-8. Drivers do not interpret it.
	Body string `json:"body"`
	// Timestamp is when it was written, in ms since the Unix epoch.
	Timestamp int64 `json:"timestamp"`
	// Expires is when it may be purged, in ms since the Unix epoch; 0 for never. It exists until it
	// is purged. In a document of a kind that is never purged, such as [LedgerKind], something is due
	// then.
	Expires int64 `json:"expires,omitempty"`
}

// The bounds of a document, in bytes.
const (
	longestKey  = 512
	longestBody = 1 << 20
)

var kinds = regexp.MustCompile(`^[a-z]{1,32}$`)

// PersistID is the kind and the key.
func (d Document) PersistID() string { return d.Kind + "/" + d.Key }

// Validate returns ErrInvalid and the field that is out of its range.
func (d Document) Validate() error {
	if err := CheckDocument(d.Kind, d.Key); err != nil {
		return err
	}
	switch {
	case d.Revision < 1:
		return invalid("revision %d is below 1", d.Revision)
	case len(d.Body) > longestBody || !utf8.ValidString(d.Body):
		return invalid("the body of %s is not UTF-8 of at most %d bytes", d.PersistID(), longestBody)
	case d.Expires < 0:
		return invalid("expires %d is below 0", d.Expires)
	}
	return nil
}

// CheckNew returns ErrInvalid unless d is valid and of revision 1. Drivers call it before they
// create one.
func (d Document) CheckNew() error {
	if d.Revision != 1 {
		return invalid("a new document has revision 1, not %d", d.Revision)
	}
	return d.Validate()
}

// CheckUpdate returns ErrConflict unless next is the revision after d.
func (d Document) CheckUpdate(next Document) error {
	if next.Revision != d.Revision+1 {
		return fmt.Errorf("%w: %s has revision %d, and revision %d does not follow it", ErrConflict, d.PersistID(), d.Revision, next.Revision)
	}
	return nil
}

// CheckRevision returns ErrConflict if d has another revision.
func (d Document) CheckRevision(revision int64) error {
	if d.Revision != revision {
		return fmt.Errorf("%w: %s has revision %d, not %d", ErrConflict, d.PersistID(), d.Revision, revision)
	}
	return nil
}

// reader is the operation that [WhyNotRevision] needs.
type reader interface {
	Read(ctx context.Context, kind, key string) (Document, error)
}

// WhyNotRevision is for drivers whose server changes a document only if it has a revision. err is
// how that ended: if it wraps ErrNotFound, nothing was changed, and WhyNotRevision returns why.
func WhyNotRevision(ctx context.Context, documents reader, kind, key string, revision int64, err error) error {
	if !errors.Is(err, ErrNotFound) {
		return err
	}
	known, err := documents.Read(ctx, kind, key)
	if err != nil {
		return err
	}
	if err := known.CheckRevision(revision); err != nil {
		return err
	}
	return fmt.Errorf("%w: %s was changed meanwhile", ErrConflict, known.PersistID())
}

// CheckDocument returns ErrInvalid for a kind or key that no document can have. Drivers call it
// first.
func CheckDocument(kind, key string) error {
	if err := CheckDocuments(kind, ""); err != nil {
		return err
	}
	if key == "" || len(key) > longestKey || !utf8.ValidString(key) {
		return invalid("key %.100q is not 1 to %d bytes of UTF-8", key, longestKey)
	}
	return nil
}

// CheckDocuments returns ErrInvalid for a kind that no document can have, and for a text after that
// is not UTF-8. Drivers call it before they list.
func CheckDocuments(kind, after string) error {
	switch {
	case !kinds.MatchString(kind):
		return invalid("kind %.100q is not 1 to 32 lower-case letters", kind)
	case !utf8.ValidString(after):
		return invalid("%.100q is not UTF-8", after)
	}
	return nil
}

// CheckKept returns ErrInvalid unless all documents are valid and of revision 1. Drivers call it
// before they keep any.
func CheckKept(list []Document) error {
	for _, d := range list {
		if err := d.CheckNew(); err != nil {
			return err
		}
	}
	return nil
}

// JobKind is a job, which issues many numbers in the background: see package server/jobs.
const JobKind = "job"

// DeliveryKind is an event that a receiver does not have yet: see package server/subscriptions.
const DeliveryKind = "delivery"

// dueKinds are the kinds whose documents are never purged: at Expires something is due. Add a kind
// here before documents of it are written.
var dueKinds = []string{LedgerKind, JobKind, EventKind, DeliveryKind}

// CheckPurge returns ErrInvalid for a kind whose documents are never purged. Drivers call it before
// they purge.
func CheckPurge(kind string) error {
	if slices.Contains(dueKinds, kind) {
		return invalid("documents of kind %s are never purged", kind)
	}
	return CheckDocuments(kind, "")
}

// Documents keeps documents. It is safe for concurrent use. Every change is atomic, and durable
// when the operation returns nil. After an error other than those named here it may have happened,
// or may happen later.
type Documents interface {
	// Create stores a new document, of revision 1, or returns ErrExists.
	Create(ctx context.Context, d Document) error
	// Read returns a document, or ErrNotFound.
	Read(ctx context.Context, kind, key string) (Document, error)
	// Update replaces a document whose revision is d.Revision − 1. It returns ErrConflict if the
	// document has another revision, and ErrNotFound if there is none.
	Update(ctx context.Context, d Document) error
	// Delete removes a document of this revision. It returns ErrConflict if the document has
	// another revision, and ErrNotFound if there is none.
	Delete(ctx context.Context, kind, key string, revision int64) error
	// List returns at most limit documents of a kind whose keys are greater than after, in byte
	// order of their keys.
	List(ctx context.Context, kind, after string, limit int) ([]Document, error)
	// Due returns at most limit documents of a kind with 0 < Expires < before, in ms since the Unix
	// epoch: the earliest first, and those of the same moment in byte order of their keys. Documents
	// that are damaged or of a newer format are left out: one of them must not hide the others.
	Due(ctx context.Context, kind string, before int64, limit int) ([]Document, error)
	// Keep stores the documents, of revision 1, that do not exist yet. One that exists stays as it
	// is, whatever its revision and body are; of two in the list with the same kind and key the
	// first one counts. Keep is not atomic as a whole: after an error any of them may be stored,
	// now or later. It can be repeated. When it returns nil, all of them exist and are durable. It
	// returns ErrInvalid, and stores none, if one of them is invalid.
	Keep(ctx context.Context, list []Document) error
	// Purge removes at most limit documents of a kind that expired before a time, in ms since the
	// Unix epoch, and returns how many. It returns ErrInvalid for a kind that is never purged, such as
	// [LedgerKind].
	Purge(ctx context.Context, kind string, before int64, limit int) (int, error)
}

// putter are the operations that [Put] needs.
type putter interface {
	Create(ctx context.Context, d Document) error
	Update(ctx context.Context, d Document) error
}

// Put stores a document over the revision before d.Revision: it creates one of revision 1, and
// updates any other. Its errors are those of [Documents].Create and Update. If another writer was
// first, [Overtaken] reports it; if the document is gone, Put returns ErrNotFound.
func Put(ctx context.Context, documents putter, d Document) error {
	if d.Revision == 1 {
		return documents.Create(ctx, d)
	}
	return documents.Update(ctx, d)
}

// Overtaken reports whether an error of [Put] says that another writer was first.
func Overtaken(err error) bool { return errors.Is(err, ErrConflict) || errors.Is(err, ErrExists) }
