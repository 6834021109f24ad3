package persist

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Shutter is a [Store] that several processes use and that can be shut to all of them, also to one
// that was suspended and wakes later.
type Shutter interface {
	// Shut makes every process fail that creates a counter, takes or gives back numbers, creates or
	// updates a document, or changes a registry of machine IDs. It returns nil when all such changes that were under way
	// have ended, so what is read from then on stays as it is. A store that is opened to look at it
	// can still be read. Shut can be repeated. It does nothing and returns ErrConflict unless the
	// document of the cluster is this one: a command that was suspended must not shut or open a store
	// that others have opened or shut since.
	Shut(ctx context.Context, cluster Document) error
	// Unshut ends that, under the same condition. It can be repeated.
	Unshut(ctx context.Context, cluster Document) error
}

// ErrShut is returned by changes of a store that is shut.
var ErrShut = fmt.Errorf("%w: the store is shut, because it was moved or exported", ErrUnavailable)

// ErrMoved is returned by [ReadCluster] for a store that was moved, exported, or is being moved. The
// error is a [Moved].
var ErrMoved = errors.New("the store was moved")

// moved begins the body of the document of the cluster of a store that was moved. It is no ID, so
// builds that do not know it refuse the store too.
const moved = "moved "

// Moved says where all that a store had was moved.
type Moved struct {
	// Move identifies the move, so that only the same one goes on.
	Move string `json:"move"`
	// Marked is the revision of the document of the cluster that said so first. A later move of the store
	// has a higher one.
	Marked int64 `json:"marked"`
	// Cluster and Created are those of the [Cluster].
	Cluster string `json:"cluster"`
	Created int64  `json:"created"`
	// To is the driver and the place of the new store, and File the file if it was exported to one.
	To   string `json:"to,omitempty"`
	File string `json:"file,omitempty"`
	// At is when the move began, in ms since the Unix epoch by the clock of the store.
	At int64 `json:"at"`
	// Undone is whether the store is being opened again: the move does not go on.
	Undone bool `json:"undone,omitempty"`
	// Opened is whether nodes may use the new store. Then there is no way back.
	Opened bool `json:"opened,omitempty"`
	// Into is the mark of the new store, once it is Opened. Another store can have the same place: localhost
	// on another host, or a file that was lost.
	Into string `json:"into,omitempty"`
}

// Error implements error.
func (m Moved) Error() string {
	at := time.UnixMilli(m.At).UTC().Format(time.RFC3339)
	switch {
	case m.File != "" && m.Undone:
		return fmt.Sprintf("an export of this store to %s is being undone: repeat seqd export --undo", m.File)
	case m.Undone:
		return fmt.Sprintf("a move of this store to %s is being undone: repeat seqd move --undo", m.To)
	case m.File != "":
		return fmt.Sprintf("this store was exported to %s at %s, and no node may use it: use the store that the file was imported into (seqd import --from), or, "+
			"if it was not, say seqd export --undo", m.File, at)
	case m.Opened:
		return fmt.Sprintf("this store was moved to %s at %s: use that one", m.To, at)
	}
	return fmt.Sprintf("this store is being moved to %s since %s, or the move was interrupted: repeat seqd move, or say seqd move --undo", m.To, at)
}

// Is reports that it is an [ErrMoved].
func (m Moved) Is(target error) bool { return target == ErrMoved }

// Document returns the document of the cluster of a store that is moved, of a revision.
func (m Moved) Document(revision int64) Document {
	body, _ := json.Marshal(m) // texts and numbers
	return Document{Kind: ClusterKind, Key: ClusterKey, Revision: revision, Body: moved + string(body), Timestamp: m.Created}
}

// MovedIn returns what a document of the cluster says about a move. ok is false if it says nothing.
func MovedIn(d Document) (m Moved, ok bool) {
	text, ok := strings.CutPrefix(d.Body, moved)
	return m, ok && json.Unmarshal([]byte(text), &m) == nil
}
