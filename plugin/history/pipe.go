package history

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/seqd/seqd/internal/bounded"
	"github.com/seqd/seqd/internal/longlock"
	"github.com/seqd/seqd/internal/retry"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/storeclock"
	"github.com/seqd/seqd/plugin"
)

// pipe is a queue and its writer. Biz types with equal settings share one, so that a hundred
// thousand of them need one goroutine, and their records are written together.
type pipe struct {
	queue
	target target
	store  persist.HistoryStore
	// clock says which records are too old; documents is where nodes note when they saw it.
	clock     *storeclock.Clock
	documents persist.Documents
	origin    uint64 // of the IDs that this pipe makes
	end       func() // frees the store; may be nil

	ctx      context.Context // ends when close no longer waits
	cancel   context.CancelFunc
	open     context.Context    // ends when the pipe is being closed
	shutdown context.CancelFunc // cancels open
	search   longlock.Lock      // held by the one search
	writer   chan struct{}      // closed when the writer has ended
	purger   chan struct{}      // closed when the purger has ended
	away     bool               // the last write failed; only the writer uses it

	members map[string]int // biz types, and how many plugins each has; guarded by pipes.mu
}

// target identifies a shared pipe. The store is nil for a file.
type target struct {
	store    persist.Store
	settings Settings
}

// pipes are the pipes in use.
var pipes = struct {
	mu sync.Mutex // guards by, and the members of each pipe
	by map[target]*pipe
}{by: make(map[target]*pipe)}

// join returns the pipe for these settings. It creates the pipe if necessary.
func join(env plugin.Env, settings Settings, bizType string) (*pipe, error) {
	to := target{store: env.Store, settings: settings}
	if settings.To == ToFile {
		to.store = nil
	}
	pipes.mu.Lock()
	defer pipes.mu.Unlock()
	p := pipes.by[to]
	if p == nil {
		var err error
		if p, err = newPipe(env, to); err != nil {
			return nil, err
		}
		pipes.by[to] = p
	}
	p.members[bizType]++
	return p, nil
}

func newPipe(env plugin.Env, to target) (*pipe, error) {
	var random [8]byte
	_, _ = rand.Read(random[:]) // it never fails
	p := &pipe{
		queue: newQueue(to.settings, env.Now, env.Log), target: to, origin: binary.BigEndian.Uint64(random[:]),
		writer: make(chan struct{}), purger: make(chan struct{}), members: make(map[string]int),
		clock: storeclock.New(env.Store, env.Now, nil), documents: env.Store.Documents(),
	}
	if to.settings.To == ToFile {
		f, err := openFiles(to.settings, env.Log)
		if err != nil {
			return nil, err
		}
		p.store, p.end = f, f.close
	} else {
		p.store = env.Store.History()
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.open, p.shutdown = context.WithCancel(p.ctx)
	go p.write()
	if to.settings.Retention > 0 {
		go p.purge()
	} else {
		close(p.purger)
	}
	return p, nil
}

// leave ends the pipe when its last member leaves. It writes what is pending until ctx ends.
func (p *pipe) leave(ctx context.Context, bizType string) error {
	pipes.mu.Lock()
	if p.members[bizType]--; p.members[bizType] == 0 {
		delete(p.members, bizType)
	}
	last := len(p.members) == 0
	if last {
		delete(pipes.by, p.target)
	}
	pipes.mu.Unlock()
	if !last {
		return nil
	}
	return p.close(ctx)
}

// grace is how long cancelled goroutines may take to return.
const grace = 100 * time.Millisecond

func (p *pipe) close(ctx context.Context) error {
	defer p.cancel()
	p.shut() // before the last flush, so that nothing is queued after it
	p.shutdown()
	done := make(chan struct{})
	go func() {
		<-p.writer
		<-p.purger
		if p.end != nil {
			p.end()
		}
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		p.cancel()
		select {
		case <-done:
		case <-time.After(grace):
		}
	}
	p.mu.Lock()
	p.report()
	if left := p.left(); left > 0 {
		p.log.Error("history: records could not be written before the stop and are lost", "records", left)
		return fmt.Errorf("%d records could not be written: %w", left, ctx.Err())
	}
	return nil
}

// write runs until the pipe is closed.
func (p *pipe) write() {
	defer close(p.writer)
	for {
		select {
		case <-p.first:
		case <-p.open.Done():
			p.flush()
			return
		}
		old := time.NewTimer(p.settings.FlushInterval)
		select {
		case <-p.full:
		case <-old.C:
		case <-p.open.Done():
		}
		old.Stop()
		p.flush()
	}
}

// flush writes what is pending.
func (p *pipe) flush() {
	taken := p.take()
	records := make([]persist.HistoryRecord, 0, min(len(taken), p.settings.Batch))
	for rest := taken; len(rest) > 0; {
		n := min(len(rest), p.settings.Batch)
		records = records[:0]
		for i := range n {
			records = append(records, rest[i].record(p.origin))
		}
		if !p.append(records) {
			return
		}
		rest = rest[n:]
		p.wrote(n)
	}
	p.giveBack(taken)
}

// Pauses between attempts to write a batch: twice as long each time, up to lastPause, or
// closingPause while the pipe is closing.
const (
	firstPause   = 50 * time.Millisecond
	lastPause    = 5 * time.Second
	closingPause = 200 * time.Millisecond
)

// appendTimeout limits one attempt.
const appendTimeout = 10 * time.Second

// append writes one batch. It repeats that until the batch is stored: the IDs of the records keep
// an attempt of unknown outcome from storing them twice. It returns false if close no longer waits.
func (p *pipe) append(records []persist.HistoryRecord) bool {
	write := func(context.Context) error { return p.attempt(records) }
	policy := retry.Policy{First: firstPause, Last: lastPause, Failed: p.failed}
	err := retry.Do(p.open, policy, write)
	if err != nil && p.ctx.Err() == nil {
		policy.Last = closingPause
		err = retry.Do(p.ctx, policy, write)
	}
	if err == nil {
		p.back()
	}
	return err == nil
}

// failed logs the first failure of an episode in which nothing can be written.
func (p *pipe) failed(err error) {
	if !p.away {
		p.away = true
		p.log.Error("history cannot be written; trying again", "to", p.settings.To, "onOverflow", p.settings.OnOverflow, "error", err)
	}
}

func (p *pipe) attempt(records []persist.HistoryRecord) (err error) {
	defer bounded.Recover("writing the history", &err) // a driver's bug must not end the writer
	ctx, cancel := context.WithTimeout(p.ctx, appendTimeout)
	defer cancel()
	return p.store.Append(ctx, records)
}

// back logs that writing works again, if it failed before.
func (p *pipe) back() {
	if !p.away {
		return
	}
	p.away = false
	p.log.Log(p.ctx, slog.LevelInfo, "history is written again")
	p.mu.Lock()
	p.report()
}
