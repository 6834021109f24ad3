// Package resp tests the Redis protocol of real nodes with go-redis and with raw connections, while
// nodes are killed, answers are cut, clients do not read, and tokens are revoked.
package resp

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/node"
	"github.com/seqd/seqd/internal/testing/ordercheck"
	"github.com/seqd/seqd/internal/testing/respconn"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silent{}) // it would log every connection that fails
	node.Main(m)
}

// silent drops what go-redis logs.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

const (
	rawCallers = 8
	redisPools = 8
	patience   = await.Patience
)

// load takes numbers of the biz type order on many connections until stop, or until a node ends if
// untilEnd is set. Each pipeline is one call in the record: its answers arrive in order.
type load struct {
	t        *testing.T
	history  *ordercheck.Record
	untilEnd bool
	ended    chan struct{}
	once     sync.Once
	wait     sync.WaitGroup
	taken    atomic.Int64
	failed   atomic.Int64
}

func newLoad(t *testing.T) *load {
	l := &load{t: t, history: ordercheck.New(), ended: make(chan struct{})}
	t.Cleanup(l.stop) // if the test fails
	return l
}

// start starts callers of the nodes at these addresses.
func (l *load) start(addrs ...string) {
	for i := range rawCallers {
		l.wait.Go(func() { l.raw(i, addrs) })
	}
	for i := range redisPools {
		l.wait.Go(func() { l.redis(i, addrs[i%len(addrs)]) })
	}
}

// over reports whether a caller must end.
func (l *load) over(err error) bool {
	select {
	case <-l.ended:
		return true
	default:
	}
	if err != nil {
		l.failed.Add(1)
		if l.untilEnd {
			return true
		}
		time.Sleep(5 * time.Millisecond) // not all callers spin while a node is away
	}
	return false
}

// stop ends all callers.
func (l *load) stop() {
	l.once.Do(func() { close(l.ended) })
	l.wait.Wait()
}

// more waits for n further numbers.
func (l *load) more(n int64) {
	l.t.Helper()
	l.await(&l.taken, n)
}

// fails waits for n further calls that fail.
func (l *load) fails(n int64) {
	l.t.Helper()
	l.await(&l.failed, n)
}

// await waits until a counter has grown by n.
func (l *load) await(counter *atomic.Int64, n int64) {
	l.t.Helper()
	want := counter.Load() + n
	await.Eventually(l.t, "callers get on", func() error {
		switch {
		case l.t.Failed():
			l.t.FailNow()
		case counter.Load() < want:
			return fmt.Errorf("%d numbers were taken, %d calls failed", l.taken.Load(), l.failed.Load())
		}
		return nil
	})
}

// add records the numbers of one call.
func (l *load) add(began int64, who string, numbers []int64) {
	if len(numbers) > 0 {
		l.history.Add(began, who, numbers)
		l.taken.Add(int64(len(numbers)))
	}
}

// commands returns a pipeline, and how many numbers each INCRBY in it asks for.
func commands(round int) (all []string, counts []int) {
	for i := range 1 + round*7%40 {
		switch count := 1 + (round+i)%20; (round + i) % 4 {
		case 0:
			all, counts = append(all, fmt.Sprintf("INCRBY order %d", count)), append(counts, count)
		case 1:
			all, counts = append(all, fmt.Sprintf("SEQ.NEXT order COUNT %d", count)), append(counts, 0)
		default:
			all, counts = append(all, "INCR order"), append(counts, 0)
		}
	}
	return all, counts
}

// raw sends pipelines on one connection, which it opens again on another node when it breaks.
func (l *load) raw(caller int, addrs []string) {
	var c *respconn.Conn
	for round := caller; ; round++ {
		var err error
		if c == nil {
			if c, err = respconn.Dial(addrs[round%len(addrs)], patience, nil); err != nil {
				c = nil
				if l.over(err) {
					return
				}
				continue
			}
		}
		if err = l.pipeline(c, round, fmt.Sprintf("raw %d", caller)); err != nil {
			_ = c.Close()
			c = nil
		}
		if l.over(err) {
			if c != nil {
				_ = c.Close()
			}
			return
		}
	}
}

// pipeline sends some commands at once. The answers that arrived before an error count.
func (l *load) pipeline(c *respconn.Conn, round int, who string) error {
	began := l.history.Now()
	sent, counts := commands(round)
	if err := errors.Join(c.SetDeadline(time.Now().Add(patience)), c.Send(sent...)); err != nil {
		return err
	}
	var numbers []int64
	defer func() { l.add(began, who, numbers) }()
	for i := range sent {
		answer, err := c.Read()
		if refused, is := errors.AsType[respconn.Error](err); is {
			l.mindRefusal(refused)
			continue
		}
		if err != nil {
			l.mind(err)
			return err
		}
		n, err := respconn.Numbers(answer, counts[i])
		if err != nil {
			l.t.Errorf("%s got %v: %v", sent[i], answer, err)
			return err
		}
		numbers = append(numbers, n...)
	}
	return nil
}

// mind fails the test if an answer was not of the protocol.
func (l *load) mind(err error) {
	if errors.Is(err, respconn.ErrProtocol) {
		l.t.Error(err)
	}
}

// newClient returns a client of go-redis, which repeats nothing.
func newClient(addr string, change ...func(*redis.Options)) *redis.Client {
	options := &redis.Options{
		Addr: addr, MaxRetries: -1, PoolSize: 2, DialerRetries: 1, DialTimeout: patience, ReadTimeout: patience,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	for _, c := range change {
		c(options)
	}
	return redis.NewClient(options)
}

// redis sends single commands and pipelines with go-redis.
func (l *load) redis(caller int, addr string) {
	client := newClient(addr)
	defer func() { _ = client.Close() }()
	ctx, who := context.Background(), fmt.Sprintf("go-redis %d", caller)
	for round := caller; ; round++ {
		began := l.history.Now()
		var numbers []int64
		var err error
		if round%3 == 0 {
			var n int64
			if n, err = client.Incr(ctx, "order").Result(); err == nil {
				numbers = []int64{n}
			}
		} else {
			var answers []redis.Cmder
			answers, err = client.Pipelined(ctx, func(p redis.Pipeliner) error {
				for range 1 + round%50 {
					p.Incr(ctx, "order")
				}
				return nil
			})
			for _, a := range answers {
				// a command that was not sent has no error of its own
				if n := a.(*redis.IntCmd).Val(); n > 0 {
					numbers = append(numbers, n)
				}
			}
		}
		l.add(began, who, numbers)
		if l.over(err) {
			return
		}
	}
}

// mindRefusal fails the test if a node refused a command for a reason that a caller cannot expect of
// a node that starts or stops.
func (l *load) mindRefusal(refused respconn.Error) {
	l.failed.Add(1)
	for _, word := range []string{"LOADING", "TRYAGAIN"} {
		if len(refused) > len(word) && string(refused[:len(word)]) == word {
			return
		}
	}
	l.t.Errorf("refused: %s", refused)
}
