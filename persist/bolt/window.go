package bolt

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"

	"go.etcd.io/bbolt"

	"github.com/seqd/seqd/persist"
)

var (
	answersBucket = []byte("answers")
	stateKey      = []byte("window")
)

// window is one file of answers.
type window struct {
	opened
	number int64
	writer *writer

	mu    sync.Mutex // guards state
	state windowState
}

func answersContent(advice string) content {
	return content{[][]byte{answersBucket}, persist.FormatVersion, advice}
}

// openWindow opens a window. It creates it if it does not exist.
func openWindow(opts Options, number int64) (*window, error) {
	advice := answersAdvice(opts.Path)
	opts.Path = windowPath(opts.Path, number)
	opts.content = answersContent(advice)
	file, err := openFile(opts)
	if err == nil {
		err = file.verify(opts.content)
	}
	if err != nil {
		return nil, fmt.Errorf("answers of requests with an Idempotency-Key: %w; %s", err, advice)
	}
	w := &window{opened: file, number: number}
	if err := w.read(); err != nil {
		return nil, errors.Join(fmt.Errorf("open store file %s: %w; %s", w.path, err, advice), w.close())
	}
	// Once is enough: a second transaction would only protect the last writes from a damaged page.
	w.writer = startWriter(&w.opened, false)
	return w, nil
}

// read reads the state; a new window has none.
func (w *window) read() error {
	return guarded(func() error {
		return w.db.View(func(tx *bbolt.Tx) error {
			data := tx.Bucket(metaBucket).Get(stateKey)
			if data == nil {
				return nil
			}
			if err := json.Unmarshal(data, &w.state); err != nil {
				return fmt.Errorf("%w: it is damaged: %w", persist.ErrInvalid, err)
			}
			return nil
		})
	})
}

func (w *window) shut() error {
	w.writer.stop()
	return w.close()
}

// keepUntil keeps the window at least until a time, in ms.
func (w *window) keepUntil(until int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state.Until = max(w.state.Until, until)
}

// now returns the state.
func (w *window) now() windowState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}

// changed changes the state and returns the new one.
func (w *window) changed(change func(*windowState)) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.state)
	return w.state.text()
}

// change changes the state on disk.
func (w *window) change(change func(*windowState)) error {
	return w.writer.do(context.Background(), func(tx *bbolt.Tx) error {
		return tx.Bucket(metaBucket).Put(stateKey, w.changed(change))
	})
}

// put writes an answer. clock is the present time, in ms.
func (w *window) put(id, text string, clock int64) error {
	value := sealed(id, text)
	return w.writer.do(context.Background(), func(tx *bbolt.Tx) error {
		state := w.changed(func(s *windowState) { s.Clock, s.Count = max(s.Clock, clock), s.Count+1 })
		if err := tx.Bucket(answersBucket).Put([]byte(id), value); err != nil {
			return err // about the arguments, so nothing was written
		}
		return tx.Bucket(metaBucket).Put(stateKey, state)
	})
}

// get returns an answer, "" for none.
func (w *window) get(ctx context.Context, id string) (text string, err error) {
	err = w.view(ctx, func(tx *bbolt.Tx) error {
		if data := tx.Bucket(answersBucket).Get([]byte(id)); data != nil {
			text, err = unsealed(id, data)
		}
		return err
	})
	if err != nil {
		return "", translate(fmt.Errorf("the answer %s in %s: %w", id, w.path, err))
	}
	return text, nil
}

// An answer is stored as one byte for the format, four for the CRC-32 (IEEE) of ID and text, and
// the text.
const (
	answerFormat = 1
	answerHead   = 5
)

func sealed(id, text string) []byte {
	data := append(make([]byte, 0, answerHead+len(text)), answerFormat)
	data = binary.BigEndian.AppendUint32(data, answerSum(id, []byte(text)))
	return append(data, text...)
}

func unsealed(id string, data []byte) (string, error) {
	switch {
	case len(data) > 0 && data[0] > answerFormat:
		return "", fmt.Errorf("%w: format %d, this build knows %d", persist.ErrNewer, data[0], answerFormat)
	case len(data) <= answerHead || data[0] != answerFormat || binary.BigEndian.Uint32(data[1:]) != answerSum(id, data[answerHead:]):
		return "", fmt.Errorf("%w: damaged record: its checksum does not fit", persist.ErrInvalid)
	}
	return string(data[answerHead:]), nil
}

func answerSum(id string, text []byte) uint32 {
	return crc32.Update(crc32.ChecksumIEEE([]byte(id)), crc32.IEEETable, text)
}
