package chaos

import (
	"strings"
	"time"

	"github.com/seqd/seqd/internal/testing/load"
	"github.com/seqd/seqd/internal/testing/record"
)

// class is a kind of fault.
type class struct {
	name string
	// the parts that a fault uses, as words: "seqd" is that of its target, "seqd@all" that of every
	// node, "store@" the servers of the store. Two faults that share a part never overlap.
	holds       string
	targets     []string // one is drawn
	amounts     []time.Duration
	ways        []string
	least, most time.Duration
	// how long its end takes, in which nothing else begins; 0 for faults that end at once. The
	// others are slow.
	after time.Duration
	times int  // how often it may occur in a run; 0 for no limit
	needs need // it occurs only in systems that have this
	// its targets are the servers of the store, by role if the system has a standby
	servers bool
	marks   record.Fault // its effects, for the checker
	begin   func(l *laboratory, t *trouble) error
	end     func(l *laboratory, t *trouble) error
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
	nodes      = []string{"a", "b", "c"}
	everyLink  = []string{"a", "b", "c", "all"}
	roles      = []string{"primary", "primary", "replica"} // the primary matters more
	storeRoles = []string{primaryRole, primaryRole, standbyRole}
	turns      = []time.Duration{
		50 * time.Millisecond, -50 * time.Millisecond, 400 * time.Millisecond, -400 * time.Millisecond, 900 * time.Millisecond, -900 * time.Millisecond,
		3 * time.Second, -3 * time.Second, time.Minute, -time.Minute, time.Hour, -time.Hour, 24 * time.Hour, -24 * time.Hour,
	}
	// a skew of 1.5 s is allowed
	behind   = []time.Duration{-500 * time.Millisecond, -1200 * time.Millisecond, -1400 * time.Millisecond, -3 * time.Second}
	slews    = []time.Duration{50 * time.Millisecond, -50 * time.Millisecond, 700 * time.Millisecond, -700 * time.Millisecond, 2 * time.Second, -2 * time.Second}
	delays   = []time.Duration{2 * time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond, 200 * time.Millisecond}
	networks = []string{"a×r1", "a×r2", "a×r3", "b×r1", "b×r2", "b×r3", "c×r1", "c×r2", "c×r3", "r1×r2", "r1×r3", "r2×r3", "a×b", "b×c", "a×c"}
	walls    = []string{"drop there", "drop back", "drop both", "reject both"}

	failovers     = []string{primaryKilled, primaryCutOff, standbyLags}
	restores      = []string{stopped, killed, stopped + cutOffAtStart, killed + cutOffAtStart}
	switches      = []string{"under load", rolled}
	resequencings = []string{toStore, overPerNode}
	otherRedises  = []string{"another server", "another keyPrefix", "another db"}

	// the checker sees from the servers' roles what a failover loses; choose sets the effects of
	// the death of a primary
	redisAway = record.Fault{Redis: true}
	redisLoss = record.Fault{Redis: true, LosesKeys: true}
	storeAway = record.Fault{Store: true}
	cutOff    = record.Fault{Redis: true, Store: true}

	storeBack    = record.Fault{Store: true, StoreBack: true, Unordered: load.SwitchedName}
	redisChanged = record.Fault{LosesKeys: true} // each Redis has its own keys
	twoRedises   = record.Fault{LosesKeys: true, Unordered: record.Every}
	reordered    = record.Fault{Unordered: load.SwitchedName}
	resequenced  = record.Fault{Unordered: load.MovingName}
)

const (
	blink = 300 * time.Millisecond
	short = time.Second
	some  = 4 * time.Second
	long  = 8 * time.Second
	ages  = 20 * time.Second
)

// classes are all kinds of faults. The order of those that end at once is a part of what a seed
// determines.
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

	{name: "redis-kill", needs: someRedis, holds: "redis", targets: roles, least: blink, most: long, marks: redisAway, begin: killRedis, end: startRedis},
	{name: "redis-restart", needs: someRedis, holds: "redis", targets: roles, least: blink, most: short, marks: redisAway, begin: restartRedisEmpty},
	{name: "redis-restart-old", needs: someRedis, holds: "redis", targets: roles, least: short, most: some, marks: redisAway, begin: saveRedis, end: restartRedisOld},
	{name: "redis-pause", needs: someRedis, holds: "redis", targets: roles, least: blink, most: long, marks: redisAway, begin: pauseRedis, end: resumeRedis},
	{name: "redis-failover", needs: someRedis, holds: "failover", least: short, most: some, marks: redisAway, begin: failOver},
	{name: "redis-flush", needs: someRedis, holds: "flush", least: blink, most: short, marks: redisLoss, begin: flushRedis},
	{name: "script-flush", needs: someRedis, holds: "scripts", least: blink, most: short, begin: flushScripts},
	{name: "sentinel-kill", needs: someRedis, holds: "sentinel", targets: nodes, least: short, most: long, begin: killSentinel, end: startSentinel},
	{name: "sentinel-pause", needs: someRedis, holds: "sentinel", targets: nodes, least: short, most: long, begin: pauseSentinel, end: resumeSentinel},

	{name: "store-kill", needs: ownStore, holds: "store@", servers: true, least: blink, most: long, marks: storeAway, begin: killStore, end: startStore},
	{name: "store-pause", needs: ownStore, holds: "store@", servers: true, least: blink, most: long, marks: storeAway, begin: pauseStore, end: resumeStore},
	{name: "store-disk-full", needs: ownStore, holds: "store@", servers: true, least: short, most: some, marks: storeAway, begin: fillStore, end: clearStore},
	{name: "store-slow", holds: "link", targets: everyLink, amounts: delays, least: short, most: long, marks: storeAway, begin: onLinks((*link).slow), end: restoreLinks},
	{name: "store-cut", holds: "link", targets: everyLink, least: blink, most: long, marks: storeAway, begin: onLinks(plain((*link).cut)), end: restoreLinks},
	{name: "store-hang", holds: "link", targets: everyLink, least: blink, most: long, marks: storeAway, begin: onLinks(plain((*link).hang)), end: restoreLinks},
	{name: "store-lost-replies", holds: "link", targets: everyLink, least: blink, most: some, marks: storeAway, begin: onLinks(plain((*link).dropReplies)), end: restoreLinks},
	{name: "store-failover", needs: standby, holds: "store@", ways: failovers, least: blink, most: some, marks: storeAway, begin: failStoreOver, end: rebuildStandby},

	{name: "partition", needs: someRedis, holds: "net", targets: networks, ways: walls, least: blink, most: long, marks: redisAway, begin: partition},
	{name: "isolate-node", holds: "isolation", targets: nodes, least: short, most: long, marks: cutOff, begin: isolateNode},
	{name: "isolate-host", holds: "isolation", targets: []string{"a", "b", "c", "r1", "r2", "r3"}, least: short, most: long, marks: cutOff, begin: isolateHost},

	// Actions of operators. Faults that hide changes from a node do not overlap actions after which
	// all nodes must know the change.
	{name: "restore", holds: "seqd@all pause@all link@all isolation@all store@ settings@ ordering@ sequencer@", targets: nodes, ways: restores, least: short, most: some, after: 34 * time.Second, times: 2,
		marks: storeBack, begin: beginRestore, end: endRestore},
	{name: "redis-moved", needs: someRedis, holds: "seqd@all settings@", ways: otherRedises, least: some, most: long, after: 8 * time.Second, times: 4, marks: redisChanged, begin: moveRedis, end: moveRedisBack},
	{name: "two-redises", needs: someRedis, holds: "seqd pause@all link@all isolation@all store@ settings@", targets: nodes, ways: otherRedises, least: some, most: long, after: 18 * time.Second, times: 4,
		marks: twoRedises, begin: misconfigure, end: configure},
	{name: "ordering-changed", holds: "seqd@all pause@all link@all isolation@all store@ ordering@", ways: switches, least: short, most: long, after: 15 * time.Second, times: 4, marks: reordered,
		begin: toPerNode, end: toStrict},
	{name: "sequencer-changed", needs: someRedis, holds: "seqd@all pause@all link@all isolation@all store@ sequencer@", ways: resequencings, least: short, most: long, after: 15 * time.Second, times: 4,
		marks: resequenced, begin: toOtherSequencer, end: toFirstSequencer},
}
