package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Limits and defaults of [BufferOptions].
const (
	defaultSize    = 1000
	largestSize    = 10_000_000
	defaultRequest = 10_000 // the default of server.maxCount
)

// BufferOptions says how many IDs a [Buffer] holds, and for how long.
type BufferOptions struct {
	// Size is how many IDs it holds at most, rounded up to whole requests; 0 means 1000. A program
	// that ends skips as many. A good size is what the program uses up in a second.
	Size int
	// Request is how many IDs one request asks for. 0 means half of Size, and 10,000 at most. If
	// the service refuses so many (server.maxCount, or a plugin), the buffer asks for half as many
	// from then on, as often as need be.
	Request int
	// Key is the key of a keyed biz type. It is empty for any other; see [Key].
	Key string
	// MaxAge is how old an ID may be when it is handed out, counted from before it was requested.
	// Older ones are skipped. Set it if IDs contain a date, or are used up slowly and must not be
	// much older than others: with 10s a buffer hands out yesterday's IDs until 10 s after midnight
	// at most. Then choose a Size that is used up within MaxAge, because the rest of it is skipped
	// and fetched again. It costs reading the clock for every ID. 0 means any age.
	MaxAge time.Duration
}

// Buffer hands out IDs of one biz type, or of one key of it, from memory. While one half of them is used up, it fetches
// the other in the background. It is safe for concurrent use.
//
// IDs are unique, as all of the service are. They are handed out in the order in which the service
// issued them. So they increase as those of the biz type do: strict ones always; per-node ones until
// the buffer goes to another node because its own failed; those that reset until the next period.
// IDs of several buffers are in no order. A program that ends, and a buffer that is closed, skip
// what they hold. The package documentation says what happens at midnight.
//
// If the service is away, callers get what is in hand, and then wait.
//
// IDs share memory, up to 256 of them: one that is kept for long is better copied by
// [strings.Clone].
type Buffer struct {
	client  *Client
	bizType string
	opts    []Option
	size    int
	maxAge  time.Duration

	// current is what callers take from. It is replaced, with mu locked, when it is used up or too
	// old.
	current atomic.Pointer[batch]

	ctx    context.Context // ends when the buffer is closed
	cancel context.CancelFunc
	fills  sync.WaitGroup

	// mu guards what follows.
	mu      sync.Mutex
	request int
	queue   []*batch // what follows current, in order
	filling bool
	closed  bool
	// changed is closed and replaced when there are new IDs, or a fill has ended.
	changed chan struct{}
	// failed is how many fills have ended with an error, and failure the last of these errors. The
	// next fill sends nothing before notBefore.
	failed    int
	failure   error
	notBefore time.Time
	// trouble is what goes wrong in the fill under way; nil if it makes progress.
	trouble *Error
}

// batch holds the IDs of one answer.
type batch struct {
	ids   idList
	began time.Time // before they were requested
	_     [64]byte  // callers write to used all the time; keep it away from what they only read
	used  atomic.Int64
	_     [64]byte
}

// take returns the next ID of the batch.
func (h *batch) take() (id string, ok bool) {
	if i := h.used.Add(1) - 1; i < int64(h.ids.n) {
		return h.ids.at(int(i)), true
	}
	return "", false
}

// left returns how many IDs have not been taken.
func (h *batch) left() int { return h.ids.n - int(min(h.used.Load(), int64(h.ids.n))) }

// drop takes all IDs that are left, and returns how many.
func (h *batch) drop() int {
	n := int64(h.ids.n)
	return int(n - min(h.used.Swap(n), n))
}

// fresh reports whether the IDs may still be handed out.
func (h *batch) fresh(maxAge time.Duration) bool { return maxAge == 0 || h.younger(maxAge) }

// younger compares ages. A monotonic clock stands still while the machine sleeps, and the other one
// can be set; so neither may say that the IDs are too old.
func (h *batch) younger(maxAge time.Duration) bool {
	now := time.Now()
	return now.Sub(h.began) <= maxAge && now.Round(0).Sub(h.began.Round(0)) <= maxAge
}

// Buffer returns a buffer for a biz type. It sends nothing: the first call of Next does. Close it
// when it is no longer needed.
func (c *Client) Buffer(bizType string, opts BufferOptions) (*Buffer, error) {
	if err := checkBizType(bizType); err != nil {
		return nil, err
	}
	if opts.Size == 0 {
		opts.Size = defaultSize
	}
	if opts.Request == 0 {
		opts.Request = min((opts.Size+1)/2, defaultRequest)
	}
	switch {
	case opts.Size < 1 || opts.Size > largestSize:
		return nil, fmt.Errorf("seqd: BufferOptions.Size is %d and must be 1 to %d", opts.Size, largestSize)
	case opts.Request < 1 || opts.Request > opts.Size:
		return nil, fmt.Errorf("seqd: BufferOptions.Request is %d and must be 1 to Size, %d", opts.Request, opts.Size)
	case opts.MaxAge < 0:
		return nil, fmt.Errorf("seqd: BufferOptions.MaxAge is %s and must not be negative", opts.MaxAge)
	}
	var options []Option
	if opts.Key != "" {
		if err := checkKey(opts.Key); err != nil {
			return nil, err
		}
		options = []Option{Key(opts.Key)}
	}
	b := &Buffer{client: c, opts: options, bizType: bizType, size: opts.Size, request: opts.Request, maxAge: opts.MaxAge, changed: make(chan struct{})}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b, nil
}

// Next returns the next ID. If there is one in hand it does not look at the context. Otherwise it
// waits: until the context ends, and about twice Config.Wait at most while the service is away. What
// the service refuses for good, such as a biz type that does not exist, is returned at once. After
// Close it returns [ErrClosed].
func (b *Buffer) Next(ctx context.Context) (string, error) {
	if h := b.current.Load(); h != nil && h.fresh(b.maxAge) {
		if id, ok := h.take(); ok {
			return id, nil
		}
	}
	return b.wait(ctx)
}

// wait returns the next ID as soon as there is one.
func (b *Buffer) wait(ctx context.Context) (string, error) {
	b.mu.Lock()
	failed := b.failed
	// A request under way may have been sent long before this caller came: the next one counts.
	enough := failed + 1
	if b.filling && !time.Now().Before(b.notBefore) {
		enough++
	}
	for {
		if b.closed {
			b.mu.Unlock()
			return "", &Error{Code: ErrClosed, Detail: "the buffer is closed"}
		}
		if id, ok := b.advance(); ok {
			b.mu.Unlock()
			return id, nil
		}
		if b.failed >= enough || b.failed > failed && !temporary(b.failure) {
			err := b.failure
			b.mu.Unlock()
			return "", err
		}
		b.fill()
		changed := b.changed
		b.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return "", b.ended(ctx)
		}
		b.mu.Lock()
	}
}

// temporary reports whether an error may be gone soon.
func temporary(err error) bool {
	e := asError(err)
	return e != nil && e.Temporary()
}

// ended returns the error for a caller whose context ended while it waited.
func (b *Buffer) ended(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.trouble == nil {
		return &Error{Code: ErrUnreachable, Detail: "the context ended while the buffer waited for IDs", Err: ctx.Err()}
	}
	e := *b.trouble
	e.Err = errors.Join(ctx.Err(), e.Err)
	return &e
}

// advance takes an ID, and goes on to the next batch if need be. mu must be locked.
func (b *Buffer) advance() (id string, ok bool) {
	for {
		if h := b.current.Load(); h != nil {
			if !h.fresh(b.maxAge) {
				h.drop()
			} else if id, ok := h.take(); ok {
				return id, true
			}
		}
		if len(b.queue) == 0 {
			return "", false
		}
		b.current.Store(b.queue[0])
		b.queue[0] = nil
		b.queue = b.queue[1:]
		b.fill()
	}
}

// fill begins to fetch IDs in the background if there is room and that is not under way. mu must be
// locked.
func (b *Buffer) fill() {
	if b.filling || b.closed || b.inHand()+b.request > b.size && b.inHand() > 0 {
		return
	}
	b.filling = true
	b.fills.Add(1)
	go b.fetchAll()
}

// inHand returns how many IDs the buffer holds. mu must be locked.
func (b *Buffer) inHand() int {
	n := 0
	if h := b.current.Load(); h != nil {
		n = h.left()
	}
	for _, h := range b.queue {
		n += h.left()
	}
	return n
}

// fetchAll fetches IDs until there is no more room. One request follows the other, so that the
// batches are in order.
func (b *Buffer) fetchAll() {
	defer b.fills.Done()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pause()
	for more := !b.closed; more; {
		more = b.fetch() && !b.closed && b.inHand()+b.request <= b.size
	}
	b.filling = false
	b.notify()
}

// pause waits until a request may be sent again. mu must be locked; it is not locked meanwhile.
func (b *Buffer) pause() {
	wait := time.Until(b.notBefore)
	if wait <= 0 {
		return
	}
	b.mu.Unlock()
	defer b.mu.Lock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.ctx.Done():
	}
}

// fetch fetches the IDs of one request. mu must be locked; it is not locked while the request is
// under way.
func (b *Buffer) fetch() bool {
	n := b.request
	b.mu.Unlock()
	h := &batch{began: time.Now()}
	var err error
	h.ids, err = b.client.list(b.ctx, "buffer", b.bizType, n, b.opts, b.note)
	b.mu.Lock()
	b.trouble = nil
	switch {
	case err == nil:
		if b.closed {
			return false // Close counts them as under way
		}
		b.queue = append(b.queue, h)
		b.notify()
		return true
	case n > 1 && errors.Is(err, ErrInvalidCount):
		b.request = n / 2
		return true
	}
	b.failed++
	b.failure = err
	b.notBefore = time.Now().Add(b.respite())
	return false
}

// respite returns how long the service is left alone after the last failure, however often callers
// ask: as long as it wishes, and Config.Wait at most. mu must be locked.
func (b *Buffer) respite() time.Duration {
	if !temporary(b.failure) {
		return 0
	}
	return min(max(asError(b.failure).RetryAfter, firstBackoff), max(b.client.wait, firstBackoff))
}

// note keeps what goes wrong in a fill, for callers whose context ends before the fill does.
func (b *Buffer) note(e *Error) {
	b.mu.Lock()
	b.trouble = e
	b.mu.Unlock()
}

// notify wakes the callers that wait. mu must be locked.
func (b *Buffer) notify() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// Len returns how many IDs are in hand.
func (b *Buffer) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inHand()
}

// Close ends the buffer, and waits until its request under way has ended. It returns how many IDs
// were in hand. They cannot be given back over HTTP: nobody gets them. Those of a request under way
// are not counted, because nobody knows whether they were issued.
func (b *Buffer) Close() (skipped int) {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		b.cancel()
		if h := b.current.Load(); h != nil {
			skipped += h.drop()
		}
		for _, h := range b.queue {
			skipped += h.drop()
		}
		b.queue = nil
		b.notify()
	}
	b.mu.Unlock()
	b.fills.Wait()
	return skipped
}
