package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/backends"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/snapshot"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// ErrSnapshot is returned by [Save], [Restore] and [ConfirmRestore] if an argument, the file or the
// store makes no sense. Nothing was changed.
var ErrSnapshot = errors.New("refused")

// LeastGap is how many numbers a restore skips at least above each counter, unless [Restoring] says
// otherwise.
const LeastGap = mostSkipped

// Save writes a snapshot of the store of a configuration to a file. Nodes of a store that they
// share may run; a bolt file must not be in use.
func Save(ctx context.Context, cfg *config.Config, path string) (err error) {
	if err := checkKept(ErrSnapshot, cfg.Store); err != nil {
		return err
	}
	store, err := backends.NewStore(ctx, cfg.Store, time.Now)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return snapshot.WriteFile(path, func(w io.Writer) error { return snapshot.Save(ctx, store, w) })
}

// Keep is snapshot.WriteFile, for a snapshot that a node sends.
func Keep(path string, write func(io.Writer) error) error { return snapshot.WriteFile(path, write) }

// Contents is what [Status] finds in a snapshot.
type Contents struct {
	snapshot.Header
	snapshot.End
	Counters, Ledgers, Documents, Registries, History int64
	// BizTypes are in the order of their names.
	BizTypes []Highest
}

// Highest is the highest number of a biz type in a snapshot, of all its counters.
type Highest struct {
	BizType  string `json:"bizType"`
	Counters int64  `json:"counters"`
	Highest  int64  `json:"highest"`
	// Gapless is whether these are gapless counters.
	Gapless bool `json:"gapless,omitempty"`
}

// Status reads all of a snapshot, and returns what it has.
func Status(path string) (c Contents, err error) {
	return look(inFile(path), func(snapshot.Header, snapshot.Record) {})
}

// look is Status for a snapshot that comes from anywhere. It calls also with each record.
func look(from origin, also func(snapshot.Header, snapshot.Record)) (c Contents, err error) {
	highest := make(map[Highest]*Highest)
	note := func(counter string, number int64, gapless bool) {
		bizType, _, _, whole := seqd.SplitCounter(counter)
		if !whole {
			return // it counts no numbers
		}
		key := Highest{BizType: bizType, Gapless: gapless}
		if highest[key] == nil {
			highest[key] = &key
		}
		h := highest[key]
		h.Counters, h.Highest = h.Counters+1, max(h.Highest, number)
	}
	c.End, err = from.read(func(h snapshot.Header) error { c.Header = h; return nil }, func(r snapshot.Record) error {
		also(c.Header, r)
		switch {
		case r.Counter != nil:
			c.Counters++
			note(r.Counter.BizTag, r.Counter.Max, false)
		case r.Registry != nil:
			c.Registries++
		case r.History != nil:
			c.History++
		case r.Document.Kind == persist.LedgerKind:
			c.Ledgers++
			state, err := ledger.Decode(r.Document)
			if err != nil {
				return fmt.Errorf("%s: %w", r.Document.PersistID(), err)
			}
			note(r.Document.Key, state.Last, true)
		default:
			c.Documents++
		}
		return nil
	})
	for _, h := range highest {
		c.BizTypes = append(c.BizTypes, *h)
	}
	slices.SortFunc(c.BizTypes, func(a, b Highest) int {
		return cmp.Or(cmp.Compare(a.BizType, b.BizType), cmp.Compare(fmt.Sprint(a.Gapless), fmt.Sprint(b.Gapless)))
	})
	return c, err
}

// origin is where the records of a snapshot come from.
type origin struct {
	name string // of the file, "" if it is none
	open func() (io.ReadCloser, error)
}

func inFile(path string) origin {
	return origin{path, func() (io.ReadCloser, error) { return os.Open(path) }}
}

// read reads a snapshot.
func (o origin) read(header func(snapshot.Header) error, each func(snapshot.Record) error) (snapshot.End, error) {
	from, err := o.open()
	if err != nil {
		return snapshot.End{}, err
	}
	defer from.Close()
	end, err := snapshot.Read(from, header, each)
	if err != nil && o.name != "" {
		err = fmt.Errorf("%s: %w", o.name, err)
	}
	return end, err
}

// ConfirmRestore records that every counter that had issued before the restore is in the store. A
// counter that is created afterwards begins at its start. It returns false if there is nothing to
// confirm.
func ConfirmRestore(ctx context.Context, cfg *config.Config) (done bool, err error) {
	if err := checkKept(ErrSnapshot, cfg.Store); err != nil {
		return false, err
	}
	return confirm(ctx, cfg)
}

func confirm(ctx context.Context, cfg *config.Config) (done bool, err error) {
	store, err := backends.NewStore(ctx, cfg.Store, time.Now)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if _, err := persist.ReadCluster(ctx, store.Documents()); err != nil {
		return false, err
	}
	_, doc, err := persist.ReadRestored(ctx, store.Documents())
	if errors.Is(err, persist.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, store.Documents().Delete(ctx, doc.Kind, doc.Key, doc.Revision)
}
