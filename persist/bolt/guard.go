package bolt

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/seqd/seqd/persist"
)

// errPanicked is returned for a panic of bbolt: so it reports many kinds of damage.
var errPanicked = errors.New("the file is damaged")

// guarded runs f and turns panics and memory faults into errors: bbolt causes both if the file is
// damaged. A fault in a goroutine that bbolt starts would still end the process; it starts one only
// for files without a list of free pages, which seqd never writes.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errPanicked, p)
		}
	}()
	return f()
}

// guard admits every use of one open file until bbolt panics. Then it refuses everything, because
// the memory and the locks of bbolt are in doubt.
type guard struct {
	path   string
	advice string // says what to do about a damaged file

	mu     sync.Mutex // guards the fields below
	broken error
}

// counterAdvice is what to do about a damaged store.
const counterAdvice = "stop seqd, restore a backup of the file and use seqd raise on every biz type"

// run runs f unless there was a panic before. The error of a panic names the file.
func (g *guard) run(f func() error) error {
	if err := g.failed(); err != nil {
		return err
	}
	err := guarded(f)
	if errors.Is(err, errPanicked) {
		return g.fail(err)
	}
	return err
}

// failed returns the error of the first panic.
func (g *guard) failed() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.broken
}

// fail refuses all further use. It keeps the first panic: later ones follow from it.
func (g *guard) fail(err error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.broken == nil {
		g.broken = fmt.Errorf("%w: store file %s: %w; it is not used any more: %s", persist.ErrUnavailable, g.path, err, g.advice)
	}
	return g.broken
}

// closePatience is how long closing a broken file may take.
const closePatience = time.Second

// close closes the file. After a panic bbolt may hold a lock for ever: then the file stays open
// until the process ends.
func (o *opened) close() error {
	if o.guard.failed() == nil {
		return o.db.Close()
	}
	closed := make(chan struct{})
	go func() {
		_ = guarded(o.db.Close) // the first panic was reported
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(closePatience):
	}
	return nil
}

// mostChecked is how many pages are checked before a file is used: 16 MiB.
const mostChecked = 1 << 12

// checkPages returns an error if a page says that it is longer than the rest of the file. bbolt
// would believe it, and mark billions of pages as free one by one.
func checkPages(tx *bbolt.Tx) error {
	pages := int(tx.Size()) / tx.DB().Info().PageSize
	for id := 0; id < min(pages, mostChecked); id++ {
		page, err := tx.Page(id)
		switch {
		case errors.Is(err, bolterrors.ErrFreePagesNotLoaded): // the file was opened read-only
			return nil
		case err != nil:
			return err
		case page.Type == "free":
			continue
		case page.OverflowCount >= pages-id:
			return fmt.Errorf("%w: it is damaged: page %d of %d says that it is %d pages long", persist.ErrInvalid, id, pages, page.OverflowCount+1)
		}
		id += page.OverflowCount
	}
	return nil
}
