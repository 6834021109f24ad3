package chaos

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/internal/testing/record"
)

// trouble is a fault in progress.
type trouble struct {
	planned
	record.Fault
	undo []func() error // what end also does, in reverse order

	backup *backup      // for a restore
	server *storeServer // for a fault of one
}

// errNothing is returned if a fault found nothing to break or was rejected, so there was no fault.
var errNothing = errors.New("nothing to break")

func (l *laboratory) seqd(name string) *seqd {
	for _, n := range l.world.seqds {
		if n.Name() == name {
			return n
		}
	}
	panic("no node has the name " + name)
}

func killSeqd(l *laboratory, t *trouble) error { l.seqd(t.target).kill(); return nil }

// stopSeqd asks a node to end. A failure to do so is a finding, and not an error of the laboratory.
func stopSeqd(l *laboratory, t *trouble) error {
	l.stop(l.seqd(t.target))
	return nil
}

func startSeqd(l *laboratory, t *trouble) error { return l.seqd(t.target).start() }

func restartSeqd(l *laboratory, t *trouble) error {
	return errors.Join(stopSeqd(l, t), startSeqd(l, t))
}

func pauseSeqd(l *laboratory, t *trouble) error {
	process := l.seqd(t.target).present()
	t.undo = append(t.undo, process.resume)
	return process.pause()
}

func resumeSeqd(*laboratory, *trouble) error { return nil } // undo has done it

// storm opens many connections that send incomplete requests.
func storm(l *laboratory, t *trouble) error {
	const crowd = 500
	var open []net.Conn
	for i := range crowd {
		conn, err := net.DialTimeout("tcp", l.seqd(t.target).addr(), 100*time.Millisecond)
		if err != nil {
			break // the node is away
		}
		if i%2 == 0 {
			_, _ = conn.Write([]byte("GET /seq/order HTTP/1.1\r\nHost: a")) // the rest never comes
		}
		open = append(open, conn)
	}
	t.undo = append(t.undo, func() error {
		for _, conn := range open {
			_ = conn.Close()
		}
		return nil
	})
	return nil
}

func fillState(l *laboratory, t *trouble) error  { return fill(l.seqd(t.target).state) }
func clearState(l *laboratory, t *trouble) error { return clearDisk(l.seqd(t.target).state) }

func stepClock(l *laboratory, t *trouble) error  { return l.turn(t.target, t.amount) }
func resetClock(l *laboratory, t *trouble) error { return l.turn(t.target, 0) }

// slewClock moves a clock away and back in small steps.
func slewClock(l *laboratory, t *trouble) error {
	const steps = 40
	done := make(chan error, 1)
	go func() {
		var err error
		for i := range steps {
			part := min(i, steps-i)
			err = errors.Join(err, l.turn(t.target, t.amount*time.Duration(part)*2/steps))
			time.Sleep(t.length / steps)
		}
		done <- err
	}()
	t.undo = append(t.undo, func() error { return <-done })
	return nil
}

// midnight makes a node's clock pass midnight after a second.
func midnight(l *laboratory, t *trouble) error {
	const day = 24 * time.Hour
	now := time.Now().UTC()
	t.amount = now.Truncate(day).Add(day).Sub(now) - time.Second
	t.Detail = t.detail()
	return l.turn(t.target, t.amount)
}

// restartBehind stops a node and starts it with a slow clock, so that it gets its machine ID back
// at a time that was used.
func restartBehind(l *laboratory, t *trouble) error {
	return inOrder(func() error { return stopSeqd(l, t) }, func() error { return stepClock(l, t) }, func() error { return startSeqd(l, t) })
}

// turn sets a node's clock.
func (l *laboratory) turn(node string, by time.Duration) error {
	err := l.seqd(node).turnClock(by)
	l.Journal.Write(record.Entry{Offset: &record.Offset{At: l.Journal.Now(), Node: node, Nanoseconds: int64(by)}})
	return err
}

// choose finds a Redis with a role that no other fault uses.
func (l *laboratory) choose(t *trouble) (*redisServer, error) {
	primary := l.world.primary()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.world.redises {
		if !l.broken[s] && (s == primary) == (t.target == "primary") {
			l.broken[s] = true
			t.Target = s.host.name
			t.Detail = t.target
			t.undo = append(t.undo, func() error {
				l.mu.Lock()
				defer l.mu.Unlock()
				delete(l.broken, s)
				return nil
			})
			return s, nil
		}
	}
	return nil, errNothing
}

func (l *laboratory) redis(name string) *redisServer {
	for _, s := range l.world.redises {
		if s.host.name == name {
			return s
		}
	}
	panic("no Redis has the name " + name)
}

func killRedis(l *laboratory, t *trouble) error {
	s, err := l.choose(t)
	if err == nil {
		t.LosesKeys = t.target == "primary" // the primary still has what a replica loses
		s.kill()
	}
	return err
}

// startRedis starts a Redis without its data.
func startRedis(l *laboratory, t *trouble) error {
	s := l.redis(t.Target)
	if err := os.Remove(s.dump()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return s.start()
}

func restartRedisEmpty(l *laboratory, t *trouble) error {
	return inOrder(func() error { return killRedis(l, t) }, func() error { return startRedis(l, t) })
}

// saveRedis makes a Redis save its data, and starts it with that data at the end.
func saveRedis(l *laboratory, t *trouble) error {
	s, err := l.choose(t)
	if err == nil {
		t.LosesKeys = t.target == "primary"
		err = s.do("SAVE")
	}
	return err
}

func restartRedisOld(l *laboratory, t *trouble) error {
	s := l.redis(t.Target)
	s.kill()
	return s.start()
}

func pauseRedis(l *laboratory, t *trouble) error {
	s, err := l.choose(t)
	if err == nil {
		err = s.present().pause()
	}
	return err
}

func resumeRedis(l *laboratory, t *trouble) error { return l.redis(t.Target).present().resume() }

// failOver makes a Sentinel promote a replica while the primary is alive.
func failOver(l *laboratory, t *trouble) (err error) {
	for _, sentinel := range l.world.sentinels {
		if err = sentinel.do("SENTINEL", "FAILOVER", masterName); err == nil {
			t.Target = sentinel.host.name
			return nil
		}
	}
	return errors.Join(errNothing, err) // such as INPROG: another failover is in progress
}

func flushRedis(l *laboratory, t *trouble) error   { return l.onPrimary(t, "FLUSHALL") }
func flushScripts(l *laboratory, t *trouble) error { return l.onPrimary(t, "SCRIPT", "FLUSH") }

func (l *laboratory) onPrimary(t *trouble, args ...any) error {
	t.target = "primary"
	s, err := l.choose(t)
	if err != nil {
		return err
	}
	if err = s.do(args...); redis.HasErrorPrefix(err, "NOREPLICAS") || redis.HasErrorPrefix(err, "READONLY") {
		return errors.Join(errNothing, err)
	}
	return err
}

func (l *laboratory) sentinel(t *trouble) *redisServer {
	for _, s := range l.world.sentinels {
		if s.host.name == t.target {
			return s
		}
	}
	panic("no Sentinel on " + t.target)
}

func killSentinel(l *laboratory, t *trouble) error   { l.sentinel(t).kill(); return nil }
func startSentinel(l *laboratory, t *trouble) error  { return l.sentinel(t).start() }
func pauseSentinel(l *laboratory, t *trouble) error  { return l.sentinel(t).present().pause() }
func resumeSentinel(l *laboratory, t *trouble) error { return l.sentinel(t).present().resume() }

// host finds a host by its name.
func (l *laboratory) host(name string) *host {
	for _, n := range l.world.seqds {
		if n.Name() == name {
			return n.host
		}
	}
	return l.redis(name).host
}

// partition cuts one host off from another.
func partition(l *laboratory, t *trouble) error {
	from, to, _ := strings.Cut(t.target, "×")
	a, b := l.host(from), l.host(to)
	var rules []rule
	switch t.way {
	case "drop there":
		rules = []rule{incoming(b, a)}
	case "drop back":
		rules = []rule{incoming(a, b)}
	case "drop both":
		rules = []rule{incoming(a, b), incoming(b, a)}
	case "reject both":
		rules = []rule{unreachable(a, b), unreachable(b, a)}
	default:
		return fmt.Errorf("%q is not a kind of partition", t.way)
	}
	return t.enforce(rules...)
}

// isolateNode cuts a node off from all servers; its callers still reach it.
func isolateNode(l *laboratory, t *trouble) error {
	n := l.seqd(t.target)
	rules := linkRules(n.host, n.link.port)
	for _, other := range slices.Concat(l.world.redises, l.world.sentinels) {
		if other.host != n.host {
			rules = append(rules, incoming(n.host, other.host), incoming(other.host, n.host))
		}
	}
	return t.enforce(rules...)
}

// isolateHost cuts a host off from all others.
func isolateHost(l *laboratory, t *trouble) error {
	return isolate(l.host(t.target), t)
}

// isolate cuts a host off until the fault ends.
func isolate(h *host, t *trouble) error {
	return t.enforce(rule{h, "INPUT -i eth0 -j DROP"}, rule{h, "OUTPUT -o eth0 -j DROP"})
}

// enforce adds rules that are removed at the end.
func (t *trouble) enforce(rules ...rule) error {
	for _, r := range rules {
		if err := r.add(); err != nil {
			return err
		}
		t.undo = append(t.undo, r.remove)
	}
	return nil
}
