package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/trace"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/server/idempotency"
	"github.com/seqd/seqd/server/idempotency/idempotencytest"
)

// fakeRedis is a Redis server inside the hook of its clients. It knows the commands and the two
// scripts that [idempotency.Redis] sends, each by its number of arguments. What the text of a
// script does is tested on real servers.
type fakeRedis struct {
	now func() time.Time
	// around is called for each pipeline in place of run, which runs it. It may be nil. An error that
	// it returns is all that the client sees.
	around func(run func()) error

	mu        sync.Mutex     // guards what follows
	replies   map[string]any // by the name of a command, which then does nothing
	records   map[string]kept
	scripts   map[string]bool // the texts that the server has
	pipelines [][]string      // the commands of each, by name
	span      trace.Span      // of the last pipeline
}

type kept struct {
	text string
	end  time.Time
}

func newFakeRedis(now func() time.Time) *fakeRedis {
	return &fakeRedis{now: now, records: make(map[string]kept), scripts: make(map[string]bool)}
}

// backend returns a backend on a client of its own.
func (f *fakeRedis) backend(t *testing.T) *idempotency.Redis {
	return idempotency.NewRedis(idempotency.RedisOptions{Client: f.client(t), Prefix: "p:"})
}

func (f *fakeRedis) client(t *testing.T) *redis.Client {
	// To look up a name in a bubble would bind net's resolver to it, and other tests' look-ups would
	// end the process.
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, Protocol: 2})
	t.Cleanup(func() { _ = client.Close() })
	client.AddHook(f)
	return client
}

func (f *fakeRedis) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook answers a command as a pipeline of one.
func (f *fakeRedis) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		_ = f.ProcessPipelineHook(nil)(ctx, []redis.Cmder{cmd})
		return cmd.Err()
	}
}

// ProcessPipelineHook answers a pipeline.
func (f *fakeRedis) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		run := func() { f.run(ctx, cmds) }
		if f.around == nil {
			run()
			return nil
		}
		err := f.around(run)
		for _, cmd := range cmds {
			if err != nil {
				cmd.SetErr(err)
			}
		}
		return err
	}
}

// run runs the commands of a pipeline.
func (f *fakeRedis) run(ctx context.Context, cmds []redis.Cmder) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.span = trace.SpanFromContext(ctx)
	var names []string
	for _, cmd := range cmds {
		names = append(names, cmd.Name())
		var args []string
		for _, arg := range cmd.Args() {
			args = append(args, fmt.Sprint(arg))
		}
		reply, err := f.command(args)
		if err != nil {
			cmd.SetErr(err)
		} else {
			cmd.(interface{ SetVal(any) }).SetVal(reply)
		}
	}
	f.pipelines = append(f.pipelines, names)
}

func (f *fakeRedis) command(args []string) (reply any, err error) {
	if reply, ok := f.replies[args[0]]; ok && reply == nil {
		return nil, redis.Nil
	} else if ok {
		return reply, nil
	}
	switch args[0] {
	case "set":
		if args[3] != "nx" || args[4] != "px" {
			return nil, errors.New("ERR syntax error")
		}
		if _, ok := f.get(args[1]); ok {
			return nil, redis.Nil
		}
		return "OK", f.set(args[1], args[2], args[5])
	case "get":
		text, ok := f.get(args[1])
		if !ok {
			return nil, redis.Nil
		}
		return text, nil
	case "eval":
		f.scripts[redis.NewScript(args[1]).Hash()] = true
	case "evalsha":
		if !f.scripts[args[1]] {
			return nil, replyError("NOSCRIPT No matching script.")
		}
	}
	key, argv := args[3], args[4:]
	held, ok := f.get(key)
	switch {
	case len(argv) == 1: // drop.lua
		if held != argv[0] {
			return int64(0), nil
		}
		delete(f.records, key)
		return int64(1), nil
	case !ok: // swap.lua
		return nil, redis.Nil
	case held != argv[0]:
		return held, nil
	}
	return "", f.set(key, argv[1], argv[2])
}

func (f *fakeRedis) get(key string) (text string, ok bool) {
	k, ok := f.records[key]
	if ok && !f.now().Before(k.end) {
		delete(f.records, key)
		return "", false
	}
	return k.text, ok
}

func (f *fakeRedis) set(key, text, px string) error {
	ms, err := strconv.ParseInt(px, 10, 64)
	if err != nil || ms <= 0 {
		return replyError("ERR invalid expire time")
	}
	f.records[key] = kept{text, f.now().Add(time.Duration(ms) * time.Millisecond)}
	return nil
}

// replyError is an error that the server answers.
type replyError string

func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}

// sent returns the commands of the pipelines since the last call.
func (f *fakeRedis) sent() (pipelines [][]string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	pipelines, f.pipelines = f.pipelines, nil
	return pipelines
}

func TestRedis(t *testing.T) {
	idempotencytest.Run(t, func(t *testing.T) (one, two idempotency.Backend, pass func(time.Duration)) {
		c := newClock()
		f := newFakeRedis(c.now)
		return f.backend(t), f.backend(t), c.pass
	})
}

// operations calls every operation of a backend and returns the errors.
func operations(ctx context.Context, b idempotency.Backend) map[string]error {
	_, claim := b.Claim(ctx, "a", pending, time.Hour)
	_, swap := b.Swap(ctx, "a", pending, finished, time.Hour)
	return map[string]error{"claim": claim, "swap": swap, "drop": b.Drop(ctx, "a", finished)}
}

// TestRedisCommands checks what is sent: one command for each operation, and two for a claim of
// what is kept already. A server that has lost its scripts gets them again, under the same key.
func TestRedisCommands(t *testing.T) {
	f := newFakeRedis(newClock().now)
	b := f.backend(t)
	fleet := &fleet{T: t}
	fleet.claims(b, "b", pending, "")
	f.sent()
	for _, test := range []struct {
		name string
		do   func()
		want string
	}{
		{"a claim", func() { fleet.claims(b, "a", pending, "") }, "[[set]]"},
		{"a claim of what is kept", func() { fleet.claims(b, "a", another, pending) }, "[[set] [get]]"},
		{"the first swap", func() { _, _ = b.Swap(t.Context(), "a", pending, pending, time.Hour) }, "[[evalsha] [eval]]"},
		{"a swap", func() { _, _ = b.Swap(t.Context(), "a", pending, finished, time.Hour) }, "[[evalsha]]"},
		{"the first drop", func() { _ = b.Drop(t.Context(), "a", finished) }, "[[evalsha] [eval]]"},
		{"a drop", func() { _ = b.Drop(t.Context(), "a", finished) }, "[[evalsha]]"},
		{"a loss of scripts", func() { clear(f.scripts); _ = b.Drop(t.Context(), "a", finished) }, "[[evalsha] [eval]]"},
		{"a time below a millisecond", func() { _, _ = b.Swap(t.Context(), "b", pending, finished, 1) }, "[[evalsha] [eval]]"},
	} {
		test.do()
		must.Equal(t, fmt.Sprint(f.sent()), test.want, "%s sent", test.name)
	}
	if k := f.records[idempotency.Key("p:", "b")]; k.text != finished || k.end != begin.Add(time.Millisecond) {
		t.Errorf("kept %+v for a time below a millisecond", k)
	}
}

// recording is a span that records.
type recording struct{ trace.Span }

func (recording) IsRecording() bool { return true }

// TestRedisSpan checks that a pipeline has the span of its caller.
func TestRedisSpan(t *testing.T) {
	f := newFakeRedis(newClock().now)
	(&fleet{T: t}).claims(f.backend(t), "a", pending, "")
	if f.span.IsRecording() {
		t.Error("a caller without a span got one")
	}
	_ = f.backend(t).Drop(trace.ContextWithSpan(t.Context(), recording{}), "a", pending)
	must.Equal[trace.Span](t, f.span, recording{}, "the span")
}

// TestRedisReplies checks that a reply that is none of seqd's is an error, and not taken for
// success.
func TestRedisReplies(t *testing.T) {
	for name, test := range map[string]struct {
		replies map[string]any
		failing string
	}{
		"a claim that is not made":         {map[string]any{"set": "QUEUED"}, "claim"},
		"nothing where a claim is kept":    {map[string]any{"set": nil, "get": ""}, "claim"},
		"a number where a claim is kept":   {map[string]any{"set": nil, "get": int64(1)}, "claim"},
		"a number instead of what is kept": {map[string]any{"eval": int64(1)}, "swap"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeRedis(newClock().now)
			f.replies = test.replies
			for what, err := range operations(t.Context(), f.backend(t)) {
				if (seqd.CodeOf(err) == seqd.CodeRedisUnavailable) != (what == test.failing) || what != test.failing && err != nil && seqd.CodeOf(err) != seqd.CodeTimeout {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
}

// TestRedisKeepsChanging claims a record that is there for SET and gone for GET each time.
func TestRedisKeepsChanging(t *testing.T) {
	f := newFakeRedis(newClock().now)
	f.replies = map[string]any{"set": nil, "get": nil}
	held, err := f.backend(t).Claim(t.Context(), "a", pending, time.Hour)
	if held != "" || seqd.CodeOf(err) != seqd.CodeTimeout || seqd.AsError(err).RetryAfter <= 0 {
		t.Errorf("found %q, %v", held, err)
	}
	must.Equal(t, len(f.sent()), 10, "the commands sent, 5 of each,")
}

// TestRedisAway checks that every operation fails while Redis is away, without a command if that is
// known, and that operations work again when it is back.
func TestRedisAway(t *testing.T) {
	f := newFakeRedis(newClock().now)
	errReset := errors.New("connection reset")
	var known error
	b := idempotency.NewRedis(idempotency.RedisOptions{Client: f.client(t), Away: func() (time.Time, error) { return time.Time{}, known }})
	for name, set := range map[string]func(){
		"known":       func() { known = errReset },
		"unreachable": func() { known, f.around = nil, func(func()) error { return errReset } },
		"lost reply":  func() { known, f.around = nil, func(run func()) error { run(); return errReset } },
	} {
		set()
		for what, err := range operations(t.Context(), b) {
			if seqd.CodeOf(err) != seqd.CodeRedisUnavailable || seqd.AsError(err).RetryAfter <= 0 || !errors.Is(err, errReset) {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
		must.Equal(t, f.sent() != nil, name == "lost reply", "%s: ran", name)
	}
	known, f.around = nil, nil
	for what, err := range operations(t.Context(), b) {
		if err != nil {
			t.Errorf("back: %s: %v", what, err)
		}
	}
}

// TestRedisCallerGone checks that an error is not blamed on Redis if the caller has gone.
func TestRedisCallerGone(t *testing.T) {
	f := newFakeRedis(newClock().now)
	f.around = func(func()) error { return context.Canceled }
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for what, err := range operations(gone, f.backend(t)) {
		must.Code(t, err, seqd.CodeCanceled, "%s", what)
	}
}

// slowRedis is a fake Redis whose pipelines wait until the test lets one go on.
func slowRedis() (f *fakeRedis, release chan error) {
	f, release = newFakeRedis(time.Now), make(chan error)
	f.around = func(run func()) error {
		if err := <-release; err != nil {
			return err
		}
		run()
		return nil
	}
	return f, release
}

// TestRedisPipelines checks that calls which come while a pipeline is under way share the next one,
// that an idle node sends at once, and that a caller with a deadline does not wait beyond it for
// the pipelines of others.
func TestRedisPipelines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, release := slowRedis()
		b := f.backend(t)
		var wg sync.WaitGroup
		claim := func(ctx context.Context, id int, want seqd.Code) {
			wg.Go(func() {
				if held, err := b.Claim(ctx, strconv.Itoa(id), pending, time.Hour); held != "" || seqd.CodeOf(err) != want {
					t.Errorf("claim of %d: %q, %v", id, held, err)
				}
			})
			synctest.Wait()
		}
		claim(t.Context(), 0, "")
		hasty, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		claim(hasty, 1, seqd.CodeTimeout)
		patient, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		claim(patient, 2, "")
		// who has no deadline waits for the answer of Redis, even if it leaves meanwhile
		gone, leave := context.WithCancel(t.Context())
		claim(gone, 3, "")
		leave()
		began := time.Now()
		<-hasty.Done()
		synctest.Wait()
		must.Equal(t, time.Since(began), time.Second, "waited")
		release <- nil
		synctest.Wait()
		claim(t.Context(), 4, "")
		claim(t.Context(), 5, "")
		release <- nil
		release <- nil
		wg.Wait()
		synctest.Wait()
		claim(t.Context(), 6, "")
		release <- nil
		wg.Wait()
		var sizes []int
		for _, p := range f.sent() {
			sizes = append(sizes, len(p))
		}
		if want := []int{1, 3, 2, 1}; !slices.Equal(sizes, want) {
			t.Errorf("pipelines of %d, want %d", sizes, want)
		}
		f.around = nil
		(&fleet{T: t}).claims(b, "1", another, pending) // it was made although its caller had gone
	})
}

// TestRedisPanic checks that calls which wait while the client panics are sent nevertheless, and
// that later calls work.
func TestRedisPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, release := newFakeRedis(time.Now), make(chan struct{})
		f.around = func(func()) error {
			f.around = nil
			<-release
			panic("a defect of the client")
		}
		b := f.backend(t)
		panicked, waited := make(chan any), make(chan struct{})
		go func() {
			defer func() { panicked <- recover() }()
			_, _ = b.Claim(t.Context(), "a", pending, time.Hour)
		}()
		synctest.Wait()
		go func() {
			defer close(waited)
			(&fleet{T: t}).claims(b, "b", pending, "")
		}()
		synctest.Wait()
		close(release)
		if <-panicked == nil {
			t.Error("the panic was swallowed")
		}
		<-waited
		synctest.Wait()
		(&fleet{T: t}).claims(b, "a", another, "")
	})
}

// TestHomeInRedis checks that a node is at home in the Redis that its cluster has named, and
// neither in another one nor in the store, and that Elsewhere says the same. A Redis that takes no
// ID is unknown.
func TestHomeInRedis(t *testing.T) {
	docs, readOnly := memory.New(time.Now).Documents(), false
	in := func(id any) redis.UniversalClient {
		f := newFakeRedis(time.Now)
		f.replies = map[string]any{"evalsha": id}
		f.around = func(run func()) error {
			if readOnly {
				readOnly = false // who only looks is answered
				return replyError("READONLY")
			}
			run()
			return nil
		}
		return f.client(t)
	}
	for _, test := range []struct {
		client   redis.UniversalClient
		code     seqd.Code
		readOnly bool
	}{{in("1"), "", false}, {in("1"), "", false}, {in("2"), seqd.CodeRedisUnavailable, false}, {nil, seqd.CodeStoreUnavailable, false}, {in("1"), seqd.CodeRedisUnavailable, true}} {
		h := idempotency.NewHome(docs, test.client, "p:", time.Now)
		readOnly = test.readOnly
		h.Look(t.Context())
		w, elsewhere := newWorld(t), test.code != "" && !test.readOnly
		must.Code(t, w.ask(t.Context(), w.node(func(o *idempotency.Options) { o.Home = h }), "k", 1, w.issue).err, test.code)
		told, err := idempotency.Elsewhere(t.Context(), docs, test.client, "p:")
		if errors.Is(h.Cause(), idempotency.ErrNotHome) != elsewhere || errors.Is(told, idempotency.ErrNotHome) != elsewhere || err != nil {
			t.Errorf("elsewhere: %v, %v, and a request gets %q because %v", told, err, test.code, h.Cause())
		}
	}
}
