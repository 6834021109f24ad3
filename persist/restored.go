package persist

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// RestoredKind is the kind of the one document that says that the store was restored from a
// snapshot, and may lack counters that began after it: its key is [RestoredKey], its body a
// [Restored].
const (
	RestoredKind = "restored"
	RestoredKey  = "store"
)

// ErrRestoring is returned by [ReadCluster] for a store that a restore has not filled yet.
var ErrRestoring = fmt.Errorf("%w: a snapshot is being restored into this store, or everything is being moved into it, or that was interrupted: "+
	"no node may use it before the same command is repeated with the same files and flags, and succeeds (seqd snapshot restore, seqd move, seqd import --from)", ErrInvalid)

// restoring begins the body of the document of the cluster while the store is filled. It is no ID,
// so builds that do not know it refuse the store too.
const restoring = "restoring "

// RestoringDocument is the document of the cluster while a store is filled. what identifies the
// restore, so that only the same one goes on.
func RestoringDocument(what string, at int64) Document {
	return Document{Kind: ClusterKind, Key: ClusterKey, Revision: 1, Body: restoring + what, Timestamp: at}
}

// Restored says how a store was restored.
type Restored struct {
	// Began is when the snapshot was begun, and At when the restore was, in ms since the Unix
	// epoch.
	Began int64 `json:"began"`
	At    int64 `json:"at"`
	// Gap is how much higher a counter begins that the store does not have, and that may have been
	// lost.
	Gap int64 `json:"gap"`
}

// ReadRestored returns how a store was restored, or ErrNotFound if it was not, or if everything
// that it lacks was raised since.
func ReadRestored(ctx context.Context, documents reader) (r Restored, d Document, err error) {
	if d, err = documents.Read(ctx, RestoredKind, RestoredKey); err != nil {
		return r, d, err
	}
	r, err = RestoredIn(d)
	return r, d, err
}

// RestoredIn returns what a document says about a restore.
func RestoredIn(d Document) (r Restored, err error) {
	if d.Kind != RestoredKind || json.Unmarshal([]byte(d.Body), &r) != nil || r.Gap < 1 {
		return r, invalid("%s: %.100q", d.PersistID(), d.Body)
	}
	return r, nil
}

// Document returns the document of r, of a revision.
func (r Restored) Document(revision int64) Document {
	body, _ := json.Marshal(r) // numbers
	return Document{Kind: RestoredKind, Key: RestoredKey, Revision: revision, Body: string(body), Timestamp: r.At}
}

// perhapsLost reports whether a counter that the store does not have may have begun between the
// snapshot and the restore. A period that began after the restore has not, in any time zone.
func (r Restored) perhapsLost(name string) bool {
	_, period, dated := strings.Cut(name, "@")
	if !dated {
		return !strings.HasSuffix(name, "/") // that counts keys
	}
	if strings.HasSuffix(strings.TrimSuffix(name, "@"+period), "/") {
		return false
	}
	const form = "20060102"
	begin, err := time.Parse(form[:min(len(period), len(form))], period)
	return err != nil || begin.Add(-24*time.Hour).UnixMilli() < r.At
}

// lacking keeps counters from beginning at their start in a store that was restored, and may have
// had them (docs/OPERATIONS.md, Snapshots), and from beginning at all in one that is being restored
// or was moved.
type lacking struct {
	documents Documents
	mu        sync.Mutex // guards checked
	checked   time.Time  // when the store was last found not to be restored
}

// LookPause is how long a node takes a store that was not restored for one that still is not, and
// how long it may take to begin a counter without a second look. A restore waits twice as long
// after its mark before it compares: by then it sees all that was begun without one.
const LookPause = time.Second

// gap returns how much higher a new counter begins; 0 if it was not lost.
func (l *lacking) gap(ctx context.Context, name string) (int64, error) {
	l.mu.Lock()
	fresh := !l.checked.IsZero() && time.Since(l.checked) < LookPause
	l.mu.Unlock()
	if fresh {
		return 0, nil
	}
	asked := time.Now()
	// A node that was not stopped comes to a store that is being filled: it has not looked at it.
	if _, err := ReadCluster(ctx, l.documents); err != nil && !errors.Is(err, ErrNotFound) {
		return 0, err
	}
	switch r, _, err := ReadRestored(ctx, l.documents); {
	case errors.Is(err, ErrNotFound):
		l.mu.Lock()
		defer l.mu.Unlock()
		l.checked = asked
		return 0, nil
	case err == nil && !r.perhapsLost(name):
		return 0, nil
	default:
		return r.Gap, err
	}
}

// create creates a counter, or, if it may have been lost, one that begins a gap higher. Then it
// returns ErrExists, as if another node had been first: the caller goes on from the counter.
func (l *lacking) create(ctx context.Context, counters Counters, c Counter) error {
	began := time.Now()
	gap, err := l.gap(ctx, c.BizTag)
	if err != nil {
		return err
	}
	if gap > 0 {
		c.Max, c.Epoch = c.Max+min(gap, MaxNumber-c.Max), ""
	}
	if err := counters.Create(ctx, c); err != nil {
		return err
	}
	if gap == 0 {
		if time.Since(began) < LookPause {
			return nil
		}
		if gap, err = l.gap(ctx, c.BizTag); err != nil || gap == 0 { // it may have been restored meanwhile
			return err
		}
		c.Max += min(gap, MaxNumber-c.Max)
		if _, err := counters.Allocate(ctx, Request{BizTag: c.BizTag, Floor: c.Max}); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s: %w: the store was restored, so it begins above %d", c.BizTag, ErrExists, c.Max)
}

// begin creates a document, unless admit refuses it.
func (l *lacking) begin(ctx context.Context, store Store, d Document, create func() error) error {
	began := time.Now()
	if err := l.admit(ctx, store.Counters(), d); err != nil {
		return err
	}
	if err := create(); err != nil || time.Since(began) < LookPause {
		return err
	}
	err := l.admit(ctx, store.Counters(), d) // the store may have been restored meanwhile
	if err != nil {
		err = errors.Join(err, store.Documents().Delete(ctx, d.Kind, d.Key, d.Revision))
	}
	return err
}

// admit returns ErrFailedOver for the document of a gapless counter that may have been lost: it
// skips no number by itself. If the store has a counter of that name, somebody has said how far it
// came.
func (l *lacking) admit(ctx context.Context, counters Counters, d Document) error {
	if d.Kind != LedgerKind || d.Revision != 1 {
		return nil
	}
	gap, err := l.gap(ctx, d.Key)
	if err != nil || gap == 0 {
		return err
	}
	if _, err := counters.Read(ctx, d.Key); !errors.Is(err, ErrNotFound) {
		return err
	}
	return fmt.Errorf("%s: %w: it was restored from a snapshot, and may have had this counter: raise it (seqd raise), "+
		"or confirm that no number of it was issued (seqd snapshot confirm)", d.PersistID(), ErrFailedOver)
}
