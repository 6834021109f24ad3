package definitions

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/config"
)

// kind is the kind of the documents that hold definitions.
const kind = "definition"

// stored is the body of such a document.
type stored struct {
	// Definition is a JSON object as an item of bizTypes is, without the name. It stays after a
	// delete.
	Definition json.RawMessage `json:"definition"`
	// Enabled is false while no numbers may be issued.
	Enabled bool `json:"enabled"`
	// Deleted marks a tombstone: the name can be used again, and its numbers continue.
	Deleted bool `json:"deleted,omitempty"`
	// Source is who defined it first: config or api.
	Source string `json:"source"`
	// Reshaped is the version at which the shape of its IDs was last forced to be this one, 0 for
	// never. A change of it makes nodes that refused because of the shape try again.
	Reshaped int64 `json:"reshaped,omitempty"`
	// Shape is the one that was forced then, "" if none was or the shape has changed since. The
	// node that builds the definition puts it on record.
	Shape string `json:"shape,omitempty"`
	// Event is that of the last change, nil if there is none.
	Event *changeEvent `json:"told,omitempty"`
}

// The values of stored.Source.
const (
	fromConfig = "config"
	fromAPI    = "api"
)

// errDamaged is returned for a document whose body is no definition.
var errDamaged = errors.New("a definition in the store is damaged")

func decode(doc persist.Document) (said stored, err error) {
	if err = json.Unmarshal([]byte(doc.Body), &said); err != nil {
		return stored{}, fmt.Errorf("%w: %s: %w", errDamaged, doc.Key, err)
	}
	return said, nil
}

// equal reports whether two say the same. Shape, Source and Event do not count.
func (s stored) equal(other stored) bool {
	return s.Enabled == other.Enabled && s.Deleted == other.Deleted && s.Reshaped == other.Reshaped &&
		equalJSON(s.Definition, other.Definition)
}

// digest stands for all of a stored definition that equal compares.
type digest [16]byte

func (s stored) digest() (d digest) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%t %t %d %s", s.Enabled, s.Deleted, s.Reshaped, canonical(s.Definition)))
	return digest(sum[:len(d)])
}

// equalJSON compares two JSON texts without their white space and the order of their keys.
func equalJSON(a, b []byte) bool { return bytes.Equal(a, b) || bytes.Equal(canonical(a), canonical(b)) }

// canonical returns a JSON text without white space and with its keys in order. It returns text
// that is not JSON as it is.
func canonical(text []byte) []byte {
	var tree any
	if json.Unmarshal(text, &tree) != nil {
		return text
	}
	ordered, err := json.Marshal(tree)
	if err != nil {
		return text
	}
	return ordered
}

// records are the definitions in the store.
type records struct {
	documents persist.Documents
	now       func() time.Time
}

// read returns what the store says of a biz type; revision 0 if it says nothing.
func (r records) read(ctx context.Context, name string) (doc persist.Document, said stored, err error) {
	doc, err = r.documents.Read(ctx, kind, name)
	if errors.Is(err, persist.ErrNotFound) {
		return persist.Document{}, said, nil
	}
	if err != nil {
		return doc, said, storeError(err)
	}
	said, err = decode(doc)
	return doc, said, err
}

// these reads the definitions of biz types. Those that the store does not have are not in the result.
func (r records) these(ctx context.Context, names []string) (map[string]persist.Document, error) {
	var mu sync.Mutex // guards found
	found := make(map[string]persist.Document, len(names))
	err := inParallel(names, parallelReads, func(name string) error {
		doc, err := r.documents.Read(ctx, kind, name)
		if errors.Is(err, persist.ErrNotFound) {
			return nil
		}
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			found[name] = doc
		}
		return err
	})
	return found, err
}

// document returns the document of a definition.
func (r records) document(name string, revision int64, said stored) persist.Document {
	body, err := json.Marshal(said)
	if err != nil {
		panic(err) // a definition is JSON
	}
	return persist.Document{
		Kind: kind, Key: name, Revision: revision, Body: string(body), Timestamp: r.now().UnixMilli(),
	}
}

// Stored is a definition as the store has it, for commands that run beside the service.
type Stored struct {
	Name    string
	BizType seqd.BizType
	// Err says why the definition cannot be used. Only its name is known then.
	Err error
	// Deleted is whether the API deleted it.
	Deleted bool

	text []byte
}

// SameAs reports whether a text of the configuration defines the same.
func (s Stored) SameAs(text []byte) bool { return equalJSON(s.text, text) }

// Find returns a definition, [persist.ErrNotFound] if there is none.
func Find(ctx context.Context, cfg *config.Config, docs persist.Documents, name string) (Stored, error) {
	doc, err := docs.Read(ctx, kind, name)
	if err != nil {
		return Stored{}, err
	}
	return newStored(cfg, doc), nil
}

// All returns every definition, also those that were disabled or deleted.
func All(ctx context.Context, cfg *config.Config, docs persist.Documents) iter.Seq2[Stored, error] {
	return func(yield func(Stored, error) bool) {
		for doc, err := range persist.EveryDocument(ctx, docs, kind) {
			if err != nil {
				yield(Stored{}, err)
				return
			}
			if !yield(newStored(cfg, doc), nil) {
				return
			}
		}
	}
}

// Of returns the biz type that a document defines. ok is false if that is none that this build can
// read.
func Of(cfg *config.Config, doc persist.Document) (b seqd.BizType, ok bool) {
	if doc.Kind != kind {
		return b, false
	}
	s := newStored(cfg, doc)
	return s.BizType, s.Err == nil
}

func newStored(cfg *config.Config, doc persist.Document) Stored {
	said, err := decode(doc)
	s := Stored{Name: doc.Key, Deleted: said.Deleted, Err: err, text: said.Definition}
	if err != nil {
		return s
	}
	b, problems := cfg.DecodeDefinition(doc.Key, said.Definition)
	if len(problems) > 0 {
		s.Err = fmt.Errorf("the definition of %s in the store: %w", doc.Key, invalid(problems))
		return s
	}
	s.BizType = b
	return s
}

// mostProblems is how many problems of a definition are listed.
const mostProblems = 100

func invalid(problems []seqd.Problem) *seqd.Error {
	slices.SortFunc(problems, func(a, b seqd.Problem) int { return bytes.Compare([]byte(a.Key), []byte(b.Key)) })
	text := fmt.Sprintf("the definition has %d problems", len(problems))
	if len(problems) == 1 {
		text = problems[0].Text
		if problems[0].Key != "" {
			text = problems[0].Key + ": " + text
		}
	}
	return &seqd.Error{
		Code: seqd.CodeInvalidDefinition, Detail: text, Problems: problems[:min(mostProblems, len(problems))],
	}
}

// unavailable is the error for a store that cannot be asked, nil for nil.
func unavailable(err error) error {
	if err == nil {
		return nil
	}
	return &seqd.Error{
		Code: seqd.CodeStoreUnavailable, Detail: "the store cannot be asked", RetryAfter: time.Second, Err: err,
	}
}

// storeError is the error that a caller gets when the store fails.
func storeError(err error) error {
	_, known := errors.AsType[*seqd.Error](err)
	switch {
	case known, errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, persist.ErrInvalid), errors.Is(err, persist.ErrNewer):
		return &seqd.Error{
			Code: seqd.CodeInternal, Detail: "what the store has cannot be used; the log of the service says more", Err: err,
		}
	}
	return unavailable(err)
}
