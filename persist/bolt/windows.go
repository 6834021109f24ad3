package bolt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/seqd/seqd/internal/folder"
	"github.com/seqd/seqd/persist"
)

// answersSuffix is appended to the name of the store's file for the folder of the answers.
const answersSuffix = "-answers"

// windowName matches the names of the windows' files: their numbers. Other files of the folder are
// left alone.
var windowName = regexp.MustCompile(`^[0-9]{8,18}\.db$`)

const (
	// windowShare is how many windows the time of an answer is divided into. So the first answer of
	// a window may be kept longer than asked by this share of its time.
	windowShare = 8
	// mostWindows bounds the number of files. If times differ much, windows become longer instead.
	mostWindows = 16
	// clockStep is how far the clock may advance before it is written without an answer.
	clockStep = 30 * time.Second
	// openPause is the pause between two attempts to open the files.
	openPause = time.Second
)

// windows keeps answers in files of the folder <path>-answers. Each file, a window, takes the
// answers of some time, and is removed as a whole when the last of them has expired.
//
// The clock of the windows starts with the time of day when the first window is created. From then
// on it advances with [Options.Elapsed], only while the windows are open; the newest window stores
// it. So no answer ends early because the time of day is wrong or is set.
type windows struct {
	opts Options // Path is the folder

	// changing is held, before mu, while files are added and removed: so a caller that looks for an
	// answer waits only for a write that is under way.
	changing sync.Mutex
	last     int64 // the highest number of a window so far; guarded by changing once they are open

	mu      sync.RWMutex // guards the fields below
	list    []*window    // by number, without gaps
	opened  bool
	closed  bool
	start   int64 // the clock, in ms, when Elapsed was startAt
	startAt time.Duration
	failed  error // why they could not be opened, when Elapsed was failAt
	failAt  time.Duration
}

// clock is now; mu is held.
func (w *windows) clock() int64 {
	return w.start + (w.opts.Elapsed() - w.startAt).Milliseconds()
}

// use opens the windows that exist.
func (w *windows) use() error {
	w.mu.RLock()
	opened := w.opened
	w.mu.RUnlock()
	if opened {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.opened: // or closed, which find and snapshot say
		return nil
	case w.failed != nil && w.opts.Elapsed()-w.failAt < openPause:
		return w.failed
	}
	if err := w.open(); err != nil {
		w.failed, w.failAt = err, w.opts.Elapsed()
		return err
	}
	w.opened = true
	return nil
}

// open opens all windows, or none.
func (w *windows) open() (err error) {
	numbers, err := w.numbers()
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.shut())
		}
	}()
	for _, number := range numbers {
		one, err := openWindow(w.opts, number)
		if err != nil {
			return err
		}
		w.list = append(w.list, one)
	}
	if err := w.whole(); err != nil {
		return err
	}
	if len(w.list) == 0 {
		return nil // the clock started when the store was opened
	}
	w.last = w.list[len(w.list)-1].number
	w.start = 0 // it advanced while the store was open
	for _, one := range w.list {
		w.start = max(w.start, one.state.Clock)
	}
	return nil
}

// numbers returns the numbers of the windows that exist, ascending.
func (w *windows) numbers() (numbers []int64, err error) {
	entries, err := os.ReadDir(w.opts.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the folder of answers: %w", err)
	}
	for _, e := range entries { // by name: numbers of 8 digits and no more come in order
		if windowName.MatchString(e.Name()) {
			number, _ := strconv.ParseInt(e.Name()[:len(e.Name())-len(".db")], 10, 64) // it has 18 digits at most
			numbers = append(numbers, number)
		}
	}
	return numbers, nil
}

// whole returns an error if a window is missing. It removes windows that a crash left before they
// were used or after they were given up.
func (w *windows) whole() error {
	needed, err := w.needed()
	if err != nil {
		return err
	}
	for i := len(w.list) - 1; i >= 0; i-- {
		if slices.Contains(needed, w.list[i]) {
			continue
		}
		if err := w.remove(w.list[i]); err != nil {
			return err
		}
		w.list = slices.Delete(w.list, i, i+1)
	}
	return nil
}

// needed returns the windows that can have answers, or an error if one of them is missing. A crash
// may have left others: a last one without a state, and first ones that were given up.
func (w *windows) needed() ([]*window, error) {
	list := w.list
	if n := len(list); n > 0 && list[n-1].state.Began == 0 {
		list = list[:n-1]
	}
	if len(list) == 0 {
		return nil, nil
	}
	newest := list[len(list)-1]
	first := max(newest.state.First, 1)
	for list[0].number < first && list[0] != newest {
		list = list[1:]
	}
	for i := range newest.number - first + 1 {
		if list[i].number != first+i {
			return nil, w.missing(first + i)
		}
	}
	if newest.state.Sealed {
		return nil, w.missing(newest.number + 1)
	}
	return list, nil
}

// missing is the error of a window that is not there.
func (w *windows) missing(number int64) error {
	return fmt.Errorf("%w: store file %s is missing: %s", persist.ErrInvalid, windowPath(w.opts.Path, number), answersAdvice(w.opts.Path))
}

// answersAdvice is what to do about a file of answers that is damaged or missing.
func answersAdvice(dir string) string {
	return fmt.Sprintf("stop seqd, and restore the folder %s from a backup, or remove the whole folder, which forgets the answers to all requests "+
		"with an Idempotency-Key; numbers do not depend on it", dir)
}

// find returns an answer, "" for none.
func (w *windows) find(ctx context.Context, id string) (string, error) {
	if err := w.use(); err != nil {
		return "", err
	}
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.closed {
		return "", persist.ErrClosed
	}
	for i := len(w.list) - 1; i >= 0; i-- {
		if text, err := w.list[i].get(ctx, id); text != "" || err != nil {
			return text, err
		}
	}
	return "", nil
}

// put keeps an answer durably.
func (w *windows) put(id, text string, keep time.Duration) error {
	if err := w.use(); err != nil {
		return err
	}
	one, clock, err := w.current(keep)
	if err != nil {
		return err
	}
	return one.put(id, text, clock)
}

// current returns the window that takes an answer now, which is kept for the given time.
func (w *windows) current(keep time.Duration) (one *window, clock int64, err error) {
	w.changing.Lock()
	defer w.changing.Unlock()
	list, clock, err := w.snapshot()
	if err != nil {
		return nil, 0, err
	}
	if n := len(list); n > 0 {
		one = list[n-1]
	}
	if one == nil || clock-one.now().Began >= (keep/windowShare).Milliseconds() && len(list) < mostWindows {
		if one, err = w.add(list, clock); err != nil {
			return nil, 0, err
		}
	}
	one.keepUntil(clock + keep.Milliseconds())
	return one, clock, nil
}

// snapshot returns the windows. The list does not change until changing is released.
func (w *windows) snapshot() (list []*window, clock int64, err error) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.closed {
		return nil, 0, persist.ErrClosed
	}
	return slices.Clone(w.list), w.clock(), nil
}

// replace sets the list of windows.
func (w *windows) replace(list []*window) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = list
}

// add creates a window after the last one.
func (w *windows) add(list []*window, clock int64) (*window, error) {
	number := w.last + 1
	first := number
	if len(list) > 0 {
		first = list[0].number
	}
	one, err := openWindow(w.opts, number)
	if err != nil {
		return nil, err
	}
	err = one.change(func(s *windowState) { *s = windowState{Began: max(clock, 1), Clock: clock, First: first} })
	if err == nil && len(list) > 0 {
		err = list[len(list)-1].change(func(s *windowState) { s.Sealed = true })
	}
	if err != nil {
		return nil, errors.Join(err, one.shut()) // its file stays and is used at the next attempt
	}
	w.last = number
	w.replace(append(list, one))
	return one, nil
}

// purge removes windows whose answers have all expired, and stores the clock.
func (w *windows) purge() (purged int, err error) {
	if err := w.use(); err != nil {
		return 0, err
	}
	w.changing.Lock()
	defer w.changing.Unlock()
	list, clock, err := w.snapshot()
	if err != nil {
		return 0, err
	}
	for len(list) > 0 && list[0].now().Until < clock {
		oldest := list[0]
		if len(list) > 1 {
			err := list[len(list)-1].change(func(s *windowState) { s.First, s.Clock = oldest.number+1, clock })
			if err != nil {
				return purged, err
			}
		}
		list = list[1:]
		w.replace(slices.Clone(list))
		if err := w.remove(oldest); err != nil {
			return purged, err
		}
		purged += oldest.now().Count
	}
	if n := len(list); n > 0 && clock-list[n-1].now().Clock >= clockStep.Milliseconds() {
		err = list[n-1].change(func(s *windowState) { s.Clock = clock })
	}
	return purged, err
}

// remove closes a window that is no longer in the list, and removes its file. A file that cannot be
// removed is removed when the files are next opened.
func (w *windows) remove(one *window) error {
	if err := errors.Join(one.shut(), os.Remove(one.path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove answers that have expired: %w", err)
	}
	return folder.Sync(w.opts.Path)
}

// shut closes all files.
func (w *windows) shut() (err error) {
	for _, one := range w.list {
		err = errors.Join(err, one.shut())
	}
	w.list = nil
	return err
}

func (w *windows) close() error {
	w.changing.Lock()
	defer w.changing.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed, w.opened = true, true
	return w.shut()
}

func windowPath(dir string, number int64) string {
	return filepath.Join(dir, fmt.Sprintf("%08d.db", number))
}

// windowState is the state of a window, in its bucket meta.
type windowState struct {
	// Began is when the window was created, and Clock the time when it was last written.
	Began int64 `json:"began"`
	Clock int64 `json:"clock"`
	// Until is when the last answer expires.
	Until int64 `json:"until"`
	// Count is how many answers there are.
	Count int `json:"count"`
	// First is the number of the first window that is still needed.
	First int64 `json:"first"`
	// Sealed is set once there is a newer window.
	Sealed bool `json:"sealed,omitempty"`
}

func (s windowState) text() []byte {
	text, _ := json.Marshal(s) // it never fails
	return text
}
