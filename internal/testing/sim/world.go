package sim

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/internal/testing/check"
	"github.com/seqd/seqd/internal/testing/load"
	"github.com/seqd/seqd/internal/testing/record"
	"github.com/seqd/seqd/internal/testing/sim/netsim"
	"github.com/seqd/seqd/internal/testing/sim/redissim"
	"github.com/seqd/seqd/internal/testing/sim/storesim"
	"github.com/seqd/seqd/internal/testing/worlds"
)

// Options say what a world has.
type Options struct {
	Seed uint64
	// Length is how long faults and load last, in virtual time.
	Length time.Duration
	// Redis is whether a cursor in Redis orders numbers.
	Redis bool
	// Registry is whether machine IDs are leased in that Redis, or else in the coordinator, and not in the
	// store.
	Registry bool
	// Mode is what a failover of the store can lose.
	Mode storesim.Mode
	// Tokens is whether callers need tokens.
	Tokens bool
	// Bolt is whether there is one node only, whose store is a file of its own.
	Bolt bool
	// Works is whether nodes do works under terms.
	Works bool
	// Coordinator is whether sessions are in a coordinator, and not in the store.
	Coordinator bool
	// Receives is whether a receiver that fails has the events, if there is random load.
	Receives bool
	// Pace multiplies the pauses of callers, see [load.Load]; 0 means 40, some 20 calls a second.
	Pace int
	// Only names the kinds of faults; nil is all that the world can have.
	Only []string
	// Kept are the faults of the plan that happen, by their numbers; nil is all.
	Kept []int
	// Without are rules that are taken out of the store and the scripts.
	Without []sabotage.Rule
	// Script is what happens instead of a drawn plan and random load; nil for those. Loaded is whether a
	// world with a script has the random load all the same.
	Script Script
	Loaded bool
	// BizTypes are those of a world without random load, each with settings besides the usual ones.
	BizTypes map[string]load.Settings
	// Settings are those of all nodes besides the usual ones, such as SEQD_IDEMPOTENCY_TTL.
	Settings map[string]string
	// Log gets the log of the nodes; nil for nobody. Say gets what happens; nil for nobody.
	Log, Say io.Writer
}

// OfSeed returns the world that a seed determines: what it has, and how busy its callers are.
func OfSeed(seed uint64, length time.Duration) Options {
	modes := []storesim.Mode{storesim.Unfenced, storesim.Lossy, storesim.Lossless}
	paces := []int{40, 200, 200}
	return Options{Seed: seed, Length: length, Redis: seed%2 == 0, Registry: seed%8 == 4 || seed%20 == 17, Tokens: seed%5 == 3, Works: seed%5 == 2, Coordinator: seed%10 == 7, Receives: seed%4 == 1, Mode: modes[seed/2%3], Pace: paces[seed/6%3]}
}

// quiet reports whether nothing happens but what the script says.
func (o Options) quiet() bool { return o.Script != nil && !o.Loaded }

// String names a world.
func (o Options) String() string {
	text := map[storesim.Mode]string{storesim.Unfenced: "unfenced store", storesim.Lossy: "lossy store", storesim.Lossless: "lossless store"}[o.Mode]
	switch {
	case o.Bolt:
		text = "one node on bolt"
	case o.Redis:
		text += " and Redis"
	}
	if o.Registry {
		text += " with machine IDs"
	}
	if o.Tokens {
		text += " with tokens"
	}
	if o.Works {
		text += " with works"
	}
	if o.Coordinator {
		text += " and a coordinator"
	}
	if o.Receives {
		text += " and a receiver"
	}
	return fmt.Sprintf("seed %d, %v, %s, pace %d", o.Seed, o.Length, text, o.Pace)
}

// nodes returns the names of the nodes.
func (o Options) nodes() []string {
	if o.Bolt {
		return nodeNames[:1]
	}
	return nodeNames
}

// The hosts of a world.
const (
	callers   = "127.0.0.1"
	redisAddr = "127.0.0.30:6379" // of which the network decides which server it leads to
)

var nodeNames = []string{"a", "b", "c"}

// Nodes is how many nodes a world has.
const Nodes = 3

const redisServers = 2

// quiet is how long there are no faults at the beginning of a world, and settle how long after the
// last fault nodes may take until they issue everything again. Snowflake waits for a minute after a
// failover that can lose something.
const (
	quiet  = 10 * time.Second
	settle = 2 * time.Minute
)

// World is a system under faults and load. It lives in one bubble of testing/synctest.
type World struct {
	options          Options
	dir              string // for state of the nodes
	bizTypes, sparse string
	variant          variant

	net         *netsim.Network
	store       *storesim.Cluster
	former      *storesim.Cluster    // nil unless everything was moved out of it
	coordinator *storesim.Cluster    // nil without
	redis       *redissim.Deployment // nil without
	other       *redissim.Deployment // that nodes use by mistake
	nodes       []*node
	receiver    *receiver // nil without
	load        *load.Load
	journal     *load.Journal
	entries     *entries
	running     sync.WaitGroup // what belongs to lives
	serving     sync.WaitGroup // the ports of Redis
	ended       atomic.Bool    // no life begins any more
	begun       int            // how many faults a script has begun

	mu          sync.Mutex // guards what follows
	storeOutage outage
	redisOutage outage
	primary     int    // the server of Redis that nodes are led to
	late        string // the definition of load.LateName, once it was to be created
	meetings    []meeting
	slower      map[[2]string]time.Duration // how much longer what a host sends to another one takes
}

// entries is the record of a world.
type entries struct {
	mu  sync.Mutex
	all []record.Entry
}

// Write implements [load.Sink].
func (e *entries) Write(one record.Entry) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, one)
	return nil
}

// begins is when virtual time begins: every world passes midnight.
var begins = time.Date(2026, 11, 27, 23, 58, 30, 0, time.UTC)

// Run runs a world in the bubble of the test, and checks what callers got.
func Run(t *testing.T, o Options) *check.Report {
	t.Helper()
	time.Sleep(time.Until(begins))
	w, err := newWorld(t, o)
	if err != nil {
		t.Fatal(err)
	}
	w.run()
	report, err := check.Entries(w.entries.all, check.Options{Shown: 3})
	if err != nil {
		t.Fatal(err)
	}
	if w.redis != nil {
		if unknown := append(w.redis.Unknown(), w.other.Unknown()...); len(unknown) > 0 {
			t.Errorf("the simulated Redis does not know %q", unknown)
		}
	}
	return report
}

func newWorld(t *testing.T, o Options) (w *World, err error) {
	w = &World{options: o, dir: fastFolder(t), net: netsim.New(), entries: new(entries), slower: make(map[[2]string]time.Duration)}
	if o.Pace == 0 {
		o.Pace = 40
	}
	if w.options.Say == nil {
		w.options.Say = io.Discard
	}
	shapes := load.Shapes(load.Options{NoRedis: !o.Redis, Lossy: o.Mode == storesim.Lossy})
	if o.quiet() {
		shapes = load.Some(shapes, o.BizTypes)
	} else {
		w.variant = newVariant(o.Seed)
		for i := range shapes {
			w.variant.vary(&shapes[i])
		}
	}
	if o.Bolt {
		inHand(shapes)
	}
	if o.inCoordinator() {
		offlineInStore(shapes)
	}
	if w.bizTypes, w.sparse, err = load.Configuration(shapes); err != nil {
		return nil, err
	}
	if w.journal, err = load.NewJournal(w.entries, w.options.Say, shapes); err != nil {
		return nil, err
	}
	w.describe(shapes)
	w.net.Delay = w.delay()
	w.store = storesim.New(storesim.Options{Mode: o.Mode, Without: o.Without})
	if o.Coordinator {
		w.coordinator = storesim.New(storesim.Options{})
	}
	if o.Redis {
		w.startRedis()
	}
	w.load = &load.Load{
		Seed: int64(o.Seed), Shapes: shapes, Journal: w.journal, Pace: o.Pace,
		Loops: load.Loops{Mixed: 3, Burst: 1, Admin: 1, RESP: 1, DropIn: 1, Books: 2, Audit: 1},
	}
	if o.Script == nil { // scripts do what no operator should
		w.load.Loops.Programs, w.load.Loops.Machines = 6, 3
		if !o.Bolt {
			w.load.Loops.Jobs = 1
		}
	}
	transport := &http.Transport{DialContext: w.dialAsCaller, MaxIdleConnsPerHost: 128, DisableCompression: true}
	w.load.HTTP = &http.Client{Transport: transport}
	if o.Tokens {
		w.load.Token, w.load.Loops.Owners = admin, 1
		w.load.HTTP.Transport = load.Authorized{Transport: transport, Token: admin}
	}
	for i, name := range o.nodes() {
		n := &node{World: w, name: name, host: fmt.Sprintf("127.0.0.%d", 11+i), settings: maps.Clone(o.Settings)}
		if err := os.MkdirAll(filepath.Join(w.dir, name), 0o700); err != nil {
			return nil, err
		}
		w.nodes = append(w.nodes, n)
		w.load.Nodes = append(w.load.Nodes, n)
	}
	return w, nil
}

// describe begins the record.
func (w *World) describe(shapes []load.Shape) {
	world := record.World{Seed: int64(w.options.Seed), Store: w.options.String(), OwnStore: w.options.Bolt, Began: w.journal.Began.UnixNano(), Duration: int64(w.options.Length), Nodes: w.options.nodes()}
	for i := range shapes {
		world.BizTypes = append(world.BizTypes, shapes[i].BizType)
	}
	world.Protocols = []string{record.RESP, record.Leaf, record.Tinyid, record.CosID}
	w.journal.Write(record.Entry{World: &world})
}

func (w *World) dialAsCaller(ctx context.Context, _, addr string) (net.Conn, error) {
	return w.net.Dial(ctx, callers, addr)
}

// delay returns the times that the network takes: up to half a millisecond, by the hosts and how much
// they have sent. The network calls it with its lock.
func (w *World) delay() func(from, to string) time.Duration {
	ways := make(map[[2]string]*worlds.Dice)
	return func(from, to string) time.Duration {
		way := ways[[2]string{from, to}]
		if way == nil {
			d := w.dice("delay", from, to)
			way, ways[[2]string{from, to}] = &d, &d
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		return time.Duration(way.Below(500))*time.Microsecond + w.slower[[2]string{from, to}]
	}
}

// dice returns the generator of an entity of the world. What it draws depends on nothing else.
func (w *World) dice(entity ...any) worlds.Dice {
	return worlds.NewDice(w.options.Seed, hash(fmt.Sprint(entity...)))
}

// hash is FNV-1a.
func hash(text string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for _, b := range []byte(text) {
		h = (h ^ uint64(b)) * 0x100000001b3
	}
	return h
}

// fates returns what happens to the operations of a life in the store, also between planned faults. A
// world that only plays a script has no such failures, and commands of operators have none. Which
// operation of which record meets what is drawn for each of them, however many others there are.
func (l *life) fates() func(storesim.Call) storesim.Fate {
	w, of := l.node.World, make(map[storesim.Call]*worlds.Dice)
	return func(c storesim.Call) storesim.Fate {
		if f, found := w.meets(l.node.name, c); found {
			return f
		}
		d := of[c]
		if d == nil {
			fresh := w.dice("store", l.node.name, l.number, c.Op, c.ID)
			d, of[c] = &fresh, &fresh
		}
		f := storesim.Fate{Send: time.Duration(d.Below(1500)) * time.Microsecond, Reply: time.Duration(d.Below(1500)) * time.Microsecond, Left: d.OneIn(2)}
		if w.over() {
			return f
		}
		switch d.Below(300) {
		case 0:
			f.End = storesim.Unsent
		case 1:
			f.End, f.Reply = storesim.QuestionLost, f.Reply+time.Duration(d.Below(3000))*time.Millisecond
		case 2:
			f.End, f.Reply = storesim.ReplyLost, f.Reply+time.Duration(d.Below(3000))*time.Millisecond
		case 3, 4:
			f.Send += time.Duration(d.Below(1000)) * time.Millisecond
		}
		return f
	}
}

// over reports whether all faults have ended. In a quiet world only the script makes faults.
func (w *World) over() bool {
	return w.options.quiet() || time.Duration(w.journal.Now()) > w.options.Length+quiet
}

// run runs the world to its end.
func (w *World) run() {
	for _, n := range w.nodes {
		n.start()
	}
	ctx, endWatch := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	for _, n := range w.nodes {
		watching.Go(func() { w.load.Watch(ctx, n, 2*time.Second) })
	}
	w.awaitReady("at the start")
	if w.options.quiet() {
		w.options.Script(w)
		w.awaitReady("after the script")
		if len(sabotage.Names()) == 0 { // else other things may happen
			w.allMet()
		}
	} else {
		w.improvise(ctx)
	}
	w.load.CloseBooks(ctx)
	w.checkEvents()
	w.checkReceiver()
	endWatch()
	watching.Wait()
	w.stop()
	unheard := w.store.Unheard()
	if w.former != nil {
		unheard = append(unheard, w.former.Unheard()...)
	}
	for _, u := range unheard {
		w.journal.Write(record.Entry{Line: &record.Line{At: w.journal.Now(), BizType: u.Counter, What: record.Unheard, First: u.Range.First, Last: u.Range.Last}})
	}
	w.journal.Write(record.Entry{Done: &record.Done{At: w.journal.Now()}})
}

// improvise runs the usual load, and lets the faults of the seed happen, or those of the script.
func (w *World) improvise(ctx context.Context) {
	if w.variant.inStore {
		w.defineAll()
	}
	loading, endLoad := context.WithCancel(ctx)
	var loaded sync.WaitGroup
	loaded.Go(func() { w.load.Run(loading) })
	if w.options.Receives {
		loaded.Go(func() {
			if err := w.receive(); err != nil {
				w.journal.Find("no receiver: %v", err)
			}
		})
	}
	if w.options.Script != nil {
		w.options.Script(w)
	} else {
		plan := newPlan(w.options)
		if !slices.ContainsFunc(plan, func(p planned) bool { return p.kind.marks.StoreBack }) { // which creates it
			loaded.Go(func() { w.makeLate(&fault{planned: planned{kind: &kind{name: "the start"}}}) })
		}
		w.inflict(plan)
	}
	w.lookAfterRegistry()
	w.awaitReady("after the last fault")
	if w.load.Loops.Programs > 0 && !w.options.Bolt { // whose clock is that of the registry, and jumps
		w.load.AwaitWorkers(context.Background(), settle)
		w.load.AwaitMachines(context.Background(), settle)
	}
	time.Sleep(time.Until(w.journal.Began.Add(w.options.Length + quiet)))
	time.Sleep(20 * time.Second) // everything is issued once more
	endLoad()
	loaded.Wait()
	w.load.AwaitJobs(context.Background(), 3*settle)
}

// stop ends everything that the world has begun.
func (w *World) stop() {
	w.ended.Store(true)
	var stopping sync.WaitGroup
	for _, n := range w.nodes {
		stopping.Go(n.stop)
	}
	stopping.Wait()
	w.running.Wait()
	time.Sleep(time.Minute) // a strategy that was killed while it began closes later
	w.load.HTTP.CloseIdleConnections()
	if w.redis != nil {
		w.stopRedis()
	}
	w.store.Close()
	if w.former != nil {
		w.former.Close()
	}
	if w.coordinator != nil {
		w.coordinator.Close()
	}
	time.Sleep(time.Minute) // what nodes have abandoned ends by itself
}

// awaitReady waits until all biz types of all nodes can issue, and reports a finding if they are
// not in time.
func (w *World) awaitReady(when string) {
	for _, n := range w.nodes {
		for end := time.Now().Add(settle); ; time.Sleep(100 * time.Millisecond) {
			states, status, all := load.Readiness(context.Background(), w.load.HTTP, n.URL())
			if all {
				break
			}
			if time.Now().After(end) {
				w.journal.Find("%s is not ready %s: %d %v", n.name, when, status, states)
				break
			}
		}
	}
}
