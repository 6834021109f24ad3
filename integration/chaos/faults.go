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

	"github.com/seqd/seqd/integration/chaos/record"
)

// class is a kind of fault.
type class struct {
	name string
	// the parts that a fault uses, as words: "seqd" is that of its target, "seqd@all" that of every
	// node, "mongo@m" that of m. Two faults that share a part never overlap.
	holds       string
	targets     []string // one is drawn
	amounts     []time.Duration
	ways        []string
	least, most time.Duration
	// how long its end takes, in which nothing else begins; 0 for faults that end at once. The
	// others are slow.
	after time.Duration
	times int          // how often it may occur in a run; 0 for no limit
	marks record.Fault // its effects, for the checker
	begin func(l *laboratory, t *trouble) error
	end   func(l *laboratory, t *trouble) error
}

// trouble is a fault in progress.
type trouble struct {
	planned
	record.Fault
	undo []func() error // what end also does, in reverse order

	backup *backup // for a restore
}

// locks returns the parts that a fault on a target uses.
func (c *class) locks(target string) (locks []string) {
	for _, word := range strings.Fields(c.holds) {
		thing, place, given := strings.Cut(word, "@")
		if !given {
			place = target
		}
		places := []string{place}
		if place == "all" {
			places = nodes
		}
		for _, place := range places {
			locks = append(locks, thing+" "+place)
		}
	}
	return locks
}

var (
	nodes     = []string{"a", "b", "c"}
	everyLink = []string{"a", "b", "c", "all"}
	roles     = []string{"primary", "primary", "replica"} // the primary matters more
	turns     = []time.Duration{
		50 * time.Millisecond, -50 * time.Millisecond, 400 * time.Millisecond, -400 * time.Millisecond, 900 * time.Millisecond, -900 * time.Millisecond,
		3 * time.Second, -3 * time.Second, time.Minute, -time.Minute, time.Hour, -time.Hour, 24 * time.Hour, -24 * time.Hour,
	}
	// a skew of 1.5 s is allowed
	behind   = []time.Duration{-500 * time.Millisecond, -1200 * time.Millisecond, -1400 * time.Millisecond, -3 * time.Second}
	slews    = []time.Duration{50 * time.Millisecond, -50 * time.Millisecond, 700 * time.Millisecond, -700 * time.Millisecond, 2 * time.Second, -2 * time.Second}
	delays   = []time.Duration{2 * time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond, 200 * time.Millisecond}
	networks = []string{"a×r1", "a×r2", "a×r3", "b×r1", "b×r2", "b×r3", "c×r1", "c×r2", "c×r3", "r1×r2", "r1×r3", "r2×r3", "a×b", "b×c", "a×c"}
	walls    = []string{"drop there", "drop back", "drop both", "reject both"}

	restores     = []string{stopped, killed, stopped + cutOffAtStart, killed + cutOffAtStart}
	switches     = []string{"under load", rolled}
	otherRedises = []string{"another server", "another keyPrefix", "another db"}

	// the checker sees from the servers' roles what a failover loses; choose sets the effects of
	// the death of a primary
	redisAway = record.Fault{Redis: true}
	redisLoss = record.Fault{Redis: true, LosesKeys: true}
	storeAway = record.Fault{Store: true}
	cutOff    = record.Fault{Redis: true, Store: true}

	storeBack    = record.Fault{Store: true, StoreBack: true, Unordered: switchedName}
	redisChanged = record.Fault{LosesKeys: true} // each Redis has its own keys
	twoRedises   = record.Fault{LosesKeys: true, Unordered: record.Every}
	reordered    = record.Fault{Unordered: switchedName}
)

const (
	blink = 300 * time.Millisecond
	short = time.Second
	some  = 4 * time.Second
	long  = 8 * time.Second
	ages  = 20 * time.Second
)

// classes are all kinds of faults.
var classes = []class{
	{name: "seqd-kill", holds: "seqd", targets: nodes, least: blink, most: some, begin: killSeqd, end: startSeqd},
	{name: "seqd-stop", holds: "seqd", targets: nodes, least: short, most: some, begin: stopSeqd, end: startSeqd},
	{name: "seqd-restart", holds: "seqd", targets: nodes, least: blink, most: short, begin: restartSeqd},
	{name: "seqd-pause", holds: "seqd pause", targets: nodes, least: short, most: long, marks: record.Fault{Paused: true}, begin: pauseSeqd, end: resumeSeqd},
	{name: "seqd-long-pause", holds: "seqd pause", targets: nodes, least: long, most: ages, marks: record.Fault{Paused: true}, begin: pauseSeqd, end: resumeSeqd},
	{name: "connection-storm", holds: "storm", targets: nodes, least: short, most: some, begin: storm},
	{name: "disk-full", holds: "disk", targets: nodes, least: short, most: long, begin: fillState, end: clearState},
	{name: "clock-step", holds: "clock", targets: nodes, amounts: turns, least: short, most: long, begin: stepClock, end: resetClock},
	{name: "clock-slew", holds: "clock", targets: nodes, amounts: slews, least: some, most: long, begin: slewClock, end: resetClock},
	{name: "clock-midnight", holds: "clock", targets: nodes, least: some, most: long, begin: midnight, end: resetClock},
	{name: "clock-restart", holds: "clock seqd", targets: nodes, amounts: behind, least: short, most: some, begin: restartBehind, end: resetClock},

	{name: "redis-kill", holds: "redis", targets: roles, least: blink, most: long, marks: redisAway, begin: killRedis, end: startRedis},
	{name: "redis-restart", holds: "redis", targets: roles, least: blink, most: short, marks: redisAway, begin: restartRedisEmpty},
	{name: "redis-restart-old", holds: "redis", targets: roles, least: short, most: some, marks: redisAway, begin: saveRedis, end: restartRedisOld},
	{name: "redis-pause", holds: "redis", targets: roles, least: blink, most: long, marks: redisAway, begin: pauseRedis, end: resumeRedis},
	{name: "redis-failover", holds: "failover", least: short, most: some, marks: redisAway, begin: failOver},
	{name: "redis-flush", holds: "flush", least: blink, most: short, marks: redisLoss, begin: flushRedis},
	{name: "script-flush", holds: "scripts", least: blink, most: short, begin: flushScripts},
	{name: "sentinel-kill", holds: "sentinel", targets: nodes, least: short, most: long, begin: killSentinel, end: startSentinel},
	{name: "sentinel-pause", holds: "sentinel", targets: nodes, least: short, most: long, begin: pauseSentinel, end: resumeSentinel},

	{name: "mongo-kill", holds: "mongo", targets: []string{"m"}, least: blink, most: long, marks: storeAway, begin: killMongo, end: startMongo},
	{name: "mongo-pause", holds: "mongo", targets: []string{"m"}, least: blink, most: long, marks: storeAway, begin: pauseMongo, end: resumeMongo},
	{name: "mongo-disk-full", holds: "mongo", targets: []string{"m"}, least: short, most: some, marks: storeAway, begin: fillMongo, end: clearMongo},
	{name: "mongo-slow", holds: "link", targets: everyLink, amounts: delays, least: short, most: long, marks: storeAway, begin: onLinks((*link).slow), end: restoreLinks},
	{name: "mongo-cut", holds: "link", targets: everyLink, least: blink, most: long, marks: storeAway, begin: onLinks(plain((*link).cut)), end: restoreLinks},
	{name: "mongo-hang", holds: "link", targets: everyLink, least: blink, most: long, marks: storeAway, begin: onLinks(plain((*link).hang)), end: restoreLinks},
	{name: "mongo-lost-replies", holds: "link", targets: everyLink, least: blink, most: some, marks: storeAway, begin: onLinks(plain((*link).dropReplies)), end: restoreLinks},

	{name: "partition", holds: "net", targets: networks, ways: walls, least: blink, most: long, marks: redisAway, begin: partition},
	{name: "isolate-node", holds: "isolation", targets: nodes, least: short, most: long, marks: cutOff, begin: isolateNode},
	{name: "isolate-host", holds: "isolation", targets: []string{"a", "b", "c", "r1", "r2", "r3"}, least: short, most: long, marks: cutOff, begin: isolateHost},

	// Actions of operators. Faults that hide changes from a node do not overlap actions after which
	// all nodes must know the change.
	{name: "restore", holds: "seqd@all pause@all link@all isolation@all mongo@m settings@ ordering@", targets: nodes, ways: restores, least: short, most: some, after: 34 * time.Second, times: 2,
		marks: storeBack, begin: beginRestore, end: endRestore},
	{name: "redis-moved", holds: "seqd@all settings@", ways: otherRedises, least: some, most: long, after: 8 * time.Second, times: 4, marks: redisChanged, begin: moveRedis, end: moveRedisBack},
	{name: "two-redises", holds: "seqd pause@all link@all isolation@all mongo@m settings@", targets: nodes, ways: otherRedises, least: some, most: long, after: 18 * time.Second, times: 4,
		marks: twoRedises, begin: misconfigure, end: configure},
	{name: "ordering-changed", holds: "seqd@all pause@all link@all isolation@all mongo@m ordering@", ways: switches, least: short, most: long, after: 15 * time.Second, times: 4, marks: reordered,
		begin: toPerNode, end: toStrict},
}

// errNothing is returned if a fault found nothing to break or was rejected, so there was no fault.
var errNothing = errors.New("nothing to break")

func (l *laboratory) seqd(name string) *seqd {
	for _, n := range l.world.seqds {
		if n.name() == name {
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
	l.journal.write(record.Entry{Offset: &record.Offset{At: l.journal.now(), Node: node, Nanoseconds: int64(by)}})
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

func killMongo(l *laboratory, _ *trouble) error   { l.world.mongo.process.kill(); return nil }
func startMongo(l *laboratory, _ *trouble) error  { return l.world.mongo.start() }
func pauseMongo(l *laboratory, _ *trouble) error  { return l.world.mongo.process.pause() }
func resumeMongo(l *laboratory, _ *trouble) error { return l.world.mongo.process.resume() }
func fillMongo(l *laboratory, _ *trouble) error   { return fill(l.world.mongo.data) }
func clearMongo(l *laboratory, _ *trouble) error  { return clearDisk(l.world.mongo.data) }

// plain adapts a fault of links without an amount.
func plain(what func(*link) error) func(*link, time.Duration) error {
	return func(l *link, _ time.Duration) error { return what(l) }
}

// onLinks calls a function for the links of a fault.
func onLinks(what func(*link, time.Duration) error) func(*laboratory, *trouble) error {
	return func(l *laboratory, t *trouble) error {
		for _, link := range l.links(t) {
			if err := what(link, t.amount); err != nil {
				return err
			}
		}
		return nil
	}
}

func restoreLinks(l *laboratory, t *trouble) error { return onLinks(plain((*link).restore))(l, t) }

func (l *laboratory) links(t *trouble) (links []*link) {
	for _, n := range l.world.seqds {
		if t.target == n.name() || t.target == "all" {
			links = append(links, n.link)
		}
	}
	return links
}

// host finds a host by its name.
func (l *laboratory) host(name string) *host {
	for _, n := range l.world.seqds {
		if n.name() == name {
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
	h := l.host(t.target)
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
