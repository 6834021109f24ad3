package sim

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/sim/redissim"
	"github.com/seqd/seqd/internal/testing/sim/storesim"
	_ "github.com/seqd/seqd/standard"
)

// The settings of nodes that these tests depend on.
const (
	leaseLength = 6 * time.Second // snowflake.horizon
	floorWait   = 9 * time.Second // the wait of a new registry: horizon + 2 × maxSkew
	reserved    = 30 * time.Second
	sequences   = 12 // bits
)

// offlineStart lets nodes begin without the registry.
var offlineStart = map[string]string{"SEQD_SNOWFLAKE_OFFLINESTART": reserved.String()}

// flakes is a world of nodes that issue snowflake numbers. One caller asks each node all the time, and
// a test inflicts the faults.
type flakes struct {
	*World
	*testing.T
	machineBits int

	mu      sync.Mutex          // guards what follows
	issued  map[int64]string    // the life that issued a number
	used    map[[2]int64]string // the life that used a millisecond of a machine ID
	highest map[string]int64    // by life
	recent  map[*node]int       // the answers with numbers since they were last counted
}

// onRegistries runs a test with the registry in the store, with the registry in Redis, and with the one
// in a coordinator, which has no reservations.
func onRegistries(t *testing.T, machineBits int, settings map[string]string, test func(s *flakes)) {
	for registry, o := range map[string]Options{"store": {}, "redis": {Redis: true, Registry: true}, "coordinator": {Coordinator: true, Registry: true}} {
		if o.inCoordinator() && len(settings) > 0 {
			continue
		}
		o.Settings = settings
		t.Run(registry, func(t *testing.T) { playFlakes(t, machineBits, o, test) })
	}
}

// playFlakes runs a test in a world of its own, and checks the numbers.
func playFlakes(t *testing.T, machineBits int, o Options, test func(s *flakes)) {
	synctest.Test(t, func(t *testing.T) { runFlakes(t, machineBits, o, test) })
}

func runFlakes(t *testing.T, machineBits int, o Options, test func(s *flakes)) {
	time.Sleep(time.Until(begins))
	o.Seed, o.Say = 1, t.Output()
	w := must.Get(newWorld(t, o))(t)
	w.bizTypes = `[{"name":"order","strategy":"snowflake","bitsMachine":` + strconv.Itoa(machineBits) + `}]`
	w.sparse = w.bizTypes
	s := &flakes{World: w, T: t, machineBits: machineBits, issued: map[int64]string{}, used: map[[2]int64]string{}, highest: map[string]int64{},
		recent: map[*node]int{}}
	ctx, end := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for _, n := range s.nodes {
		callers.Go(func() {
			for ctx.Err() == nil {
				s.ask(n)
				time.Sleep(50 * time.Millisecond)
			}
		})
	}
	defer func() { // also if the test has failed: the bubble waits for all goroutines
		end()
		callers.Wait()
		w.stop()
		if len(s.issued) == 0 {
			t.Error("nothing was issued")
		}
	}()
	test(s)
}

// get sends a request. The status is 0 if there is no answer.
func (s *flakes) get(n *node, path string) (status int, body string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var headers []string
	if strings.HasPrefix(path, "/seq/") {
		headers = []string{"Accept", "text/plain"}
	}
	status, _, body = s.request(ctx, n, http.MethodGet, path, "", headers...)
	return status, body
}

// ask asks for numbers, and checks them: a life issues ascending numbers, and nobody issues a number
// of a machine ID and a time that another life has used.
func (s *flakes) ask(n *node) {
	number := n.Life()
	life := n.name + strconv.Itoa(number)
	status, body := s.get(n, "/seq/order?count=5")
	if number != n.Life() {
		return // it is not known who answered
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if status != http.StatusOK {
		return
	}
	s.recent[n]++
	for line := range strings.Lines(body) {
		id, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil {
			s.Errorf("%s answers %q", life, body)
			return
		}
		when := [2]int64{id & (1<<s.machineBits - 1), id >> (sequences + s.machineBits)}
		if by, twice := s.issued[id]; twice {
			s.Errorf("%s issued %d, which %s had issued", life, id, by)
		}
		if by, is := s.used[when]; is && by != life {
			s.Errorf("%s used a time of machine ID %d that %s had used", life, when[0], by)
		}
		if id <= s.highest[life] {
			s.Errorf("%s issued %d after %d", life, id, s.highest[life])
		}
		s.issued[id], s.used[when], s.highest[life] = life, life, id
	}
}

// issues waits until a node has issued something from now on.
func (s *flakes) issues(n *node) {
	s.Helper()
	s.mu.Lock()
	s.recent[n] = 0
	s.mu.Unlock()
	s.until(n.name+" issues", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.recent[n] > 1 // the first may have been on its way
	})
}

// until waits for something, and fails the test if it does not happen.
func (s *flakes) until(what string, is func() bool) {
	s.Helper()
	for end := time.Now().Add(settle); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("not so: %s", what)
		}
	}
}

// shownLease is what /readyz says of a machine ID; -1 stands for none.
type shownLease struct {
	machine     int64
	from, until time.Time
}

// ready returns what /readyz says: its status, the code of the biz type, "" if it is well, and its lease.
func (s *flakes) ready(n *node) (status int, code string, lease shownLease, body string) {
	status, body = s.get(n, "/readyz")
	var answer struct {
		Code     string
		Store    struct{ Code string }
		BizTypes []struct{ Code string }
		Details  map[string]struct {
			MachineID             *int64
			LeaseFrom, LeaseUntil time.Time
		}
	}
	_ = json.Unmarshal([]byte(body), &answer) // a ready node has a text as its status
	code = answer.Code
	if len(answer.BizTypes) > 0 {
		code = answer.BizTypes[0].Code
	}
	lease.machine = -1
	if d := answer.Details["order"]; d.MachineID != nil {
		lease = shownLease{*d.MachineID, d.LeaseFrom, d.LeaseUntil}
	}
	return status, code, lease, body
}

// becomes waits until /readyz of a node has a status and a code.
func (s *flakes) becomes(n *node, status int, code string) shownLease {
	s.Helper()
	var lease shownLease
	var last string
	defer func() {
		if s.Failed() {
			s.Logf("/readyz of %s: %s", n.name, last)
		}
	}()
	s.until(n.name+" is "+strconv.Itoa(status)+" "+code, func() bool {
		now, is, l, body := s.ready(n)
		lease, last = l, body
		return now == status && is == code
	})
	return lease
}

// away cuts a node off from the registry, in this life and, if it is in Redis, in later ones. back ends
// that.
func (s *flakes) away(n *node) (back func()) {
	if s.options.inCoordinator() {
		view := n.now.coordination
		view.Set(storesim.Hung)
		return func() { view.Set(storesim.Up) }
	}
	if !s.options.Registry {
		n.setStore(storesim.Hung)
		return func() { n.setStore(storesim.Up) }
	}
	f := new(fault)
	s.cutOffRedis(f, n)
	return f.undoAll
}

// There are two machine IDs and three nodes. One node is paused, or cut off from the registry, and the
// node that stands by takes its machine ID over. When the first node is back, it has lost it.
func TestMachineIDTakenOver(t *testing.T) {
	for what, settings := range map[string]map[string]string{"lease": nil, "reservation": offlineStart} {
		t.Run(what, func(t *testing.T) {
			onRegistries(t, 1, settings, func(s *flakes) {
				a, b, c := s.nodes[0], s.nodes[1], s.nodes[2]
				for _, n := range []*node{a, b} {
					n.start()
					s.becomes(n, http.StatusOK, "")
				}
				c.start()
				s.becomes(c, http.StatusServiceUnavailable, "no_machine_id")
				if _, _, _, body := s.ready(c); !strings.Contains(body, "stands by") {
					s.Errorf("c does not say that it stands by: %s", body)
				}
				for _, loses := range []func() (back func()){
					func() func() { a.pause(); return a.resume },
					func() func() { return s.away(a) },
				} {
					_, _, was, _ := s.ready(a)
					s.issues(a)
					back := loses()
					s.becomes(c, http.StatusOK, "")
					s.issues(c)
					if _, _, now, _ := s.ready(c); now.machine != was.machine || !now.from.After(was.until) {
						s.Errorf("c has %+v, a had %+v", now, was)
					}
					back()
					s.becomes(a, http.StatusServiceUnavailable, "no_machine_id")
					s.issues(b)
					a, c = c, a
				}
				b.stop() // what is released is taken at once
				s.issues(c)
				s.issues(a)
			})
		})
	}
}

// The registry loses everything, or the last lease, while the holder of that lease is cut off from it and
// another node runs. That node notices it, and nobody begins below the floor, which is above the lease of
// the node that is cut off.
func TestRegistryLost(t *testing.T) {
	ways := map[string]func(s *flakes, old storesim.Backup){
		"flushed": func(s *flakes, _ storesim.Backup) { s.primaryRedis().Flush() },
		"restarted": func(s *flakes, _ storesim.Backup) {
			s.primaryRedis().Kill()
			s.primaryRedis().Start(redissim.Nothing)
			s.resync()
		},
		"restored":             func(s *flakes, old storesim.Backup) { s.store.Restore(old, false) },
		"coordinator wiped":    func(s *flakes, _ storesim.Backup) { s.wipeCoordinator() },
		"coordinator put back": func(s *flakes, old storesim.Backup) { s.coordinator.Restore(old, false) },
	}
	for way, lose := range ways {
		t.Run(way, func(t *testing.T) {
			apart := strings.HasPrefix(way, "coordinator")
			redis := way != "restored" && !apart
			playFlakes(t, 1, Options{Redis: redis, Registry: redis || apart, Coordinator: apart}, func(s *flakes) {
				s.losesRegistry(func(old storesim.Backup) { lose(s, old) })
			})
		})
	}
}

func (s *flakes) losesRegistry(lose func(old storesim.Backup)) {
	a, b, c := s.nodes[0], s.nodes[1], s.nodes[2]
	b.start()
	s.becomes(b, http.StatusOK, "")
	old := s.store.Backup()
	if s.options.inCoordinator() {
		old = s.coordinator.Backup()
	}
	a.start()
	s.becomes(a, http.StatusOK, "")
	time.Sleep(leaseLength) // b renews its lease, and so can see that the copy is older
	back := s.away(a)
	lose(old)
	lost := time.Now()
	time.Sleep(leaseLength / 2) // b renews its lease again
	c.start()
	s.issues(a)
	if lease := s.becomes(c, http.StatusOK, ""); lease.from.Before(lost.Add(floorWait)) {
		s.Errorf("c has a lease from %v on, %v after the loss", lease.from, lease.from.Sub(lost))
	}
	s.becomes(b, http.StatusOK, "")
	for _, n := range []*node{b, c} {
		s.issues(n)
	}
	s.becomes(a, http.StatusServiceUnavailable, "no_machine_id")
	back()
	b.stop()
	s.becomes(a, http.StatusOK, "")
	s.issues(a)
}

// Redis fails over before it has replicated the last lease, whose holder still reaches only the former
// primary. The other nodes take all machine IDs, and the holder finds out that it has lost its own.
func TestRegistryFailsOver(t *testing.T) {
	playFlakes(t, 1, Options{Redis: true, Registry: true}, func(s *flakes) {
		a, b, c := s.nodes[0], s.nodes[1], s.nodes[2]
		b.start()
		s.issues(b)
		replica := s.redis.Server(1)
		replica.Hold(true)
		a.start()
		s.issues(a)
		replica.Promote()
		s.World.mu.Lock()
		s.primary = 1
		s.World.mu.Unlock()
		s.lead(1, b, c)
		s.resync()
		c.start()
		s.issues(a)
		s.issues(b)
		s.issues(c)
		s.lead(1, a)
		s.becomes(a, http.StatusServiceUnavailable, "no_machine_id")
		b.stop()
		s.issues(a)
	})
}

// The store fails over to a standby that never got the last lease. Its holder is cut off, and issues
// until the lease ends. Nobody else begins within the time that the documents say.
func TestStoreFailsOverWithoutTheLease(t *testing.T) {
	playFlakes(t, 1, Options{Mode: storesim.Lossy}, func(s *flakes) {
		a, b, c := s.nodes[0], s.nodes[1], s.nodes[2]
		b.start()
		s.becomes(b, http.StatusOK, "")
		s.store.SetLag(mayLack)
		a.start()
		s.becomes(a, http.StatusOK, "")
		s.away(a)
		s.store.Failover(false)
		over := time.Now()
		s.store.SetLag(0)
		c.start()
		s.issues(a)
		s.becomes(a, http.StatusServiceUnavailable, "no_machine_id")
		for _, n := range []*node{b, c} {
			if lease := s.becomes(n, http.StatusOK, ""); lease.from.Before(over.Add(time.Minute + floorWait)) {
				s.Errorf("%s has a lease from %v on, %v after the failover", n.name, lease.from, lease.from.Sub(over))
			}
			s.issues(n)
		}
	})
}
