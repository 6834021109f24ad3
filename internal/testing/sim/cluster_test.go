package sim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd/internal/testing/load"
	"github.com/seqd/seqd/internal/testing/record"
	"github.com/seqd/seqd/internal/testing/sim/redissim"
	"github.com/seqd/seqd/internal/testing/sim/storesim"
	"github.com/seqd/seqd/server/config"
	_ "github.com/seqd/seqd/standard"
)

// The codes of what is away.
const (
	noStore = "store_unavailable"
	noRedis = "redis_unavailable"
)

// What the load asks for, by what happens while Redis or the store is away.
const (
	degrades = "order"  // each node issues on its own without Redis
	rejects  = "fenced" // nothing is issued without Redis
	alone    = "local"  // each node always issues on its own
	inStore  = "ledger" // the store orders the numbers
	scarce   = "tiny"   // degrades, and few numbers are in hand
	offline  = "device" // a node that knows its machine ID can begin without the store
)

// scripted is a world whose faults a test inflicts, under the usual load. The checker looks at all
// answers afterwards.
type scripted struct {
	*World
	*testing.T
}

// playScript runs a world with Redis under the faults of a script.
func playScript(t *testing.T, script func(s *scripted)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		report := Run(t, Options{Seed: 1, Redis: true, Loaded: true, Script: func(w *World) {
			s := &scripted{World: w, T: t}
			w.makeLate(new(fault))
			s.useAll()
			script(s)
		}})
		if report.Total() > 0 {
			t.Error(report)
		}
	})
}

// useAll takes numbers of all that a script may ask for, on each node, and waits until as much is in
// hand as nodes keep.
func (s *scripted) useAll() {
	for _, n := range s.nodes {
		for _, name := range []string{degrades, rejects, alone, inStore, scarce, offline} {
			s.issues(n, name)
		}
	}
	time.Sleep(quiet)
}

// during says for the checker what is broken while do runs.
func (s *scripted) during(marks record.Fault, do func()) {
	s.while("scripted", marks, func(*fault) { do() })
}

// take makes a call for numbers.
func (s *scripted) take(n *node, name string, count int) *record.Call {
	return s.ask(n.name, load.Question{BizType: name, Count: count})
}

// issues fails the test if a node does not issue a number now.
func (s *scripted) issues(n *node, name string) {
	s.Helper()
	if c := s.take(n, name, 1); c.Status != http.StatusOK {
		s.Errorf("%s does not issue %s: %d %s", n.name, name, c.Status, c.Code)
	}
}

// refuses fails the test if a node does not refuse a number with a code.
func (s *scripted) refuses(n *node, name, code string) {
	s.Helper()
	if c := s.take(n, name, 1); c.Status != http.StatusServiceUnavailable || c.Code != code {
		s.Errorf("%s answers %d %q for %s, want %s", n.name, c.Status, c.Code, name, code)
	}
}

// awaitState waits until /readyz of a node has a code for a biz type, or for all of them. It has none
// for what is well, nor for what is degraded while something else cannot issue.
func (s *scripted) awaitState(n *node, name, code string) {
	s.Helper()
	status, body, now := 0, "", ""
	for end := time.Now().Add(settle); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		status, _, body = s.do(n, http.MethodGet, "/readyz", "")
		var answer struct {
			Code     string
			Unready  int
			BizTypes []struct {
				BizType, Code string
				Unready       bool
			}
		}
		if json.Unmarshal([]byte(body), &answer) != nil {
			continue // a node that has just been started does not listen yet
		}
		now = ""
		for _, b := range answer.BizTypes {
			if b.BizType == name && (b.Unready || answer.Unready == 0) {
				now = b.Code
			}
		}
		if len(answer.BizTypes) == 0 {
			now = answer.Code
		}
		if now == code {
			return
		}
	}
	s.Errorf("/readyz of %s answers %d %s, want %q for %s", n.name, status, body, code, name)
}

// probes checks the status that a probe gets.
func (s *scripted) probes(n *node, path string, want int) {
	s.Helper()
	if status, _, body := s.do(n, http.MethodGet, path, ""); status != want {
		s.Errorf("%s of %s answers %d %s", path, n.name, status, body)
	}
}

// awaitServing waits until all is well everywhere, and takes a number of everything.
func (s *scripted) awaitServing(when string) {
	s.Helper()
	s.awaitReady(when)
	for _, n := range s.nodes {
		for _, name := range []string{degrades, rejects, alone, inStore, scarce, offline} {
			s.awaitState(n, name, "")
			s.issues(n, name)
		}
	}
}

// do sends a request to a node. The status is 0 if there is no answer.
func (s *scripted) do(n *node, method, path, body string, headers ...string) (status int, header http.Header, answer string) {
	return s.request(s.Context(), n, method, path, body, headers...)
}

// While the store is away, numbers in hand are issued. Whoever needs more is refused, and so are
// changes and nodes that start, except for snowflake numbers of a node that knows its machine ID.
func TestStoreAway(t *testing.T) {
	playScript(t, func(s *scripted) {
		a, b := s.nodes[0], s.nodes[1]
		s.during(storeAway, func() {
			s.store.Set(storesim.Away)
			b.kill(false)
			b.start()
			s.awaitState(b, degrades, noStore)
			s.refuses(b, degrades, noStore)
			if status, _, _ := s.do(b, http.MethodGet, "/healthz", ""); status != http.StatusOK {
				s.Errorf("/healthz answers %d", status)
			}
			s.awaitState(b, offline, "")
			s.issues(b, offline)

			s.refuses(a, inStore, noStore)
			s.awaitState(a, inStore, noStore)
			s.probes(a, "/readyz", http.StatusOK) // one biz type that cannot issue does not take the others away
			s.probes(a, "/readyz?bizType="+degrades, http.StatusOK)
			s.probes(a, "/readyz?bizType="+degrades+","+inStore, http.StatusServiceUnavailable)
			for _, name := range []string{degrades, rejects, alone} {
				s.issues(a, name)
				s.awaitState(a, name, "")
			}
			s.changesNothing(a)
			taken := 0
			for c := s.take(a, scarce, 1); c.Status == http.StatusOK; c = s.take(a, scarce, 1) {
				taken++
			}
			// two buffers and two ranges more, of which callers take some, too
			if taken == 0 || taken > 4*50 {
				s.Errorf("%d numbers were in hand", taken)
			}
			s.refuses(a, scarce, noStore)
			s.awaitState(a, scarce, noStore)

			s.issues(a, degrades)
			s.store.Set(storesim.Up)
		})
		s.awaitServing("after the store was away")
	})
}

// changesNothing checks what a node answers to administrators while the store is away.
func (s *scripted) changesNothing(n *node) {
	s.Helper()
	for _, request := range [][3]string{
		{http.MethodGet, "", ""}, {http.MethodGet, "/order", ""}, {http.MethodPut, "/order", "{}"}, {http.MethodPatch, "/order", "{}"},
		{http.MethodDelete, "/order", ""}, {http.MethodPost, "/order/disable", ""},
	} {
		status, header, answer := s.do(n, request[0], "/biz-types"+request[1], request[2])
		if status != http.StatusServiceUnavailable || !strings.Contains(answer, `"`+noStore+`"`) || header.Get("Retry-After") == "" {
			s.Errorf("%s %s: %d %s %v", request[0], request[1], status, answer, header)
		}
	}
	var list struct {
		Complete bool
		Nodes    []struct {
			Backends map[string]struct{ State string }
		}
	}
	status, _, answer := s.do(n, http.MethodGet, "/nodes", "")
	if err := json.Unmarshal([]byte(answer), &list); err != nil || status != http.StatusOK || list.Complete || len(list.Nodes) == 0 || list.Nodes[0].Backends["store"].State != "away" {
		s.Errorf("%d %s", status, answer)
	}
}

// A node that loses Redis issues on its own what may be issued so, and refuses the rest. It returns to
// the cursor by itself. The other nodes do not notice.
func TestRedisAwayForOneNode(t *testing.T) {
	playScript(t, func(s *scripted) {
		a, b := s.nodes[0], s.nodes[1]
		s.during(record.Fault{Redis: true}, func() {
			mend := s.cutOff(a)
			s.awaitRedisAway(a)
			for _, name := range []string{degrades, rejects, scarce} {
				s.awaitState(b, name, "")
				s.issues(b, name)
			}
			a.kill(false) // its own numbers are skipped
			a.start()
			s.awaitRedisAway(a)
			mend()
		})
		s.awaitServing("after the link was cut")
		s.during(redisLoses, func() {
			s.primaryRedis().Kill()
			for _, n := range s.nodes[:2] {
				s.awaitRedisAway(n)
			}
			s.primaryRedis().Start(redissim.Nothing)
			s.resync()
		})
		s.awaitServing("after Redis has lost everything")
	})
}

// awaitRedisAway waits until a node says that Redis is away, and checks what it still issues.
func (s *scripted) awaitRedisAway(n *node) {
	s.Helper()
	s.awaitState(n, rejects, noRedis)
	s.issues(n, degrades)
	s.refuses(n, rejects, noRedis)
	for _, name := range []string{alone, inStore, offline} {
		s.awaitState(n, name, "")
		s.issues(n, name)
	}
}

// Redis and the store are away, and return in either order, under nodes that run and under nodes that
// start.
func TestBothAway(t *testing.T) {
	for _, first := range []string{"Redis", "the store"} {
		t.Run(first+" returns first", func(t *testing.T) {
			playScript(t, func(s *scripted) {
				for _, starting := range []bool{false, true} {
					s.during(record.Fault{Store: true, Redis: true, LosesKeys: true}, func() { s.loseBoth(starting, first) })
					s.awaitServing(fmt.Sprintf("after both were away, nodes start: %t", starting))
				}
			})
		})
	}
}

// loseBoth lets Redis and the store go away, and come back.
func (s *scripted) loseBoth(starting bool, first string) {
	if starting {
		s.onAll((*node).stop)
	}
	s.store.Set(storesim.Away)
	s.primaryRedis().Kill()
	if starting {
		s.onAll((*node).start)
	}
	for _, n := range s.nodes[:2] {
		if !starting {
			s.issues(n, degrades) // of its standby range
			s.refuses(n, rejects, noRedis)
			s.awaitState(n, rejects, noRedis)
			for s.take(n, degrades, 100).Status == http.StatusOK {
			}
			s.refuses(n, degrades, noStore)
		}
		s.awaitState(n, degrades, noStore)
		s.probes(n, "/readyz?bizType="+degrades, http.StatusServiceUnavailable)
	}
	redis := func() { s.primaryRedis().Start(redissim.Nothing); s.resync() }
	store := func() { s.store.Set(storesim.Up) }
	if first == "Redis" {
		redis()
		time.Sleep(short)
		for _, n := range s.nodes[:2] {
			s.awaitState(n, degrades, noStore)
			s.refuses(n, degrades, noStore)
		}
		store()
		return
	}
	store()
	for _, n := range s.nodes[:2] {
		s.awaitRedisAway(n)
	}
	redis()
}

// takeMany moves the counters on, so that ranges wait in Redis.
func (s *scripted) takeMany() {
	for range 30 {
		for _, n := range s.nodes {
			s.take(n, degrades, 1000)
			s.take(n, inStore, 1000)
		}
	}
	time.Sleep(short)
}

// An older copy of the store is restored and raised with a configuration without Redis, as if that were
// lost. The ranges that still wait in Redis are never issued: a node that is cut off from Redis takes
// the same numbers from the store.
func TestRaisedWithoutRedis(t *testing.T) {
	playScript(t, func(s *scripted) {
		f := byHand()
		f.backup = backup{s.store.Backup(), true}
		s.takeMany()
		s.during(storeBack, func() {
			s.endNodes(false)
			issued := load.Enough(s.load.Shapes, s.journal.Highest(), s.counters(f))
			s.store.Restore(f.backup.Backup, false)
			s.raiseAll(f, map[string]int64{"limited": issued["limited"]}) // it needs Redis
			delete(issued, "limited")
			s.raiseAll(f, issued, func(cfg *config.Config) { cfg.Redis.Addrs = nil })
			mend := s.cutOff(s.nodes[0])
			s.onAll((*node).start)
			s.awaitState(s.nodes[0], rejects, noRedis)
			s.takeMany()
			mend()
			time.Sleep(allSettle)
		})
		s.awaitServing("after the restore")
	})
}

// A change on one node reaches every node, also the ones that never used the biz type.
func TestChangesReachAllNodes(t *testing.T) {
	playScript(t, func(s *scripted) {
		change := func(n *node, method, path, body string, status int) {
			s.Helper()
			if made, _, answer := s.do(n, method, "/biz-types/fresh"+path, body); made > 299 {
				s.Errorf("%s %s: %d %s", method, path, made, answer)
			}
			time.Sleep(allKnow)
			for _, n := range s.nodes {
				if got, _, answer := s.do(n, http.MethodGet, "/seq/fresh", ""); got != status {
					s.Errorf("%s after %s %s: %d %s", n.name, method, path, got, answer)
				}
			}
		}
		change(s.nodes[0], http.MethodPut, "", `{"start":7}`, http.StatusOK)
		change(s.nodes[1], http.MethodPost, "/disable", "", http.StatusConflict)
		change(s.nodes[2], http.MethodPost, "/enable", "", http.StatusOK)
		mend := s.cutOff(s.nodes[0])
		change(s.nodes[1], http.MethodPatch, "", `{"ordering":"per-node"}`, http.StatusOK)
		mend()
		s.oneWins("fresh")
		change(s.nodes[0], http.MethodDelete, "", "", http.StatusNotFound)
	})
}

// oneWins lets all nodes change one version of a biz type at once. One of the changes succeeds.
func (s *scripted) oneWins(name string) {
	s.Helper()
	_, header, _ := s.do(s.nodes[0], http.MethodGet, "/biz-types/"+name, "")
	const callers = 12
	answers := make(chan int, callers)
	for i := range callers {
		go func() {
			status, _, _ := s.do(s.nodes[i%len(s.nodes)], http.MethodPatch, "/biz-types/"+name, fmt.Sprintf(`{"step":%d}`, 50+i), "If-Match", header.Get("ETag"))
			answers <- status
		}()
	}
	counts := map[int]int{}
	for range callers {
		counts[<-answers]++
	}
	if counts[http.StatusOK] != 1 || counts[http.StatusPreconditionFailed] != callers-1 {
		s.Errorf("%v", counts)
	}
}

// Each node lists all nodes, and shows what all of them issue. What a node has issued that was killed
// stays.
func TestOverviewOfAllNodes(t *testing.T) {
	playScript(t, func(s *scripted) {
		before := s.overview(s.nodes[0])
		const each = 700
		for _, n := range s.nodes {
			s.take(n, inStore, each)
		}
		time.Sleep(long)
		for _, n := range s.nodes {
			if now := s.overview(n); now.states["ready"] != Nodes || now.numbers < before.numbers+Nodes*each || len(s.list(n)) != Nodes {
				s.Errorf("%s shows %v after %v, and %v", n.name, now, before, s.list(n))
			}
		}
		before = s.overview(s.nodes[0])
		s.during(record.Fault{}, func() {
			s.nodes[2].kill(false)
			time.Sleep(2 * long)
			now := s.overview(s.nodes[0])
			if now.numbers < before.numbers || now.states["gone"] != 1 || now.states["ready"] != Nodes-1 || len(s.list(s.nodes[1])) != Nodes-1 {
				s.Errorf("%v after %v, and %v", now, before, s.list(s.nodes[1]))
			}
			s.nodes[2].start()
		})
	})
}

// overview is what GET /overview says: how many numbers were issued, and how many nodes are in each
// state.
type overview struct {
	numbers float64
	states  map[string]int
	reasons []string // why nodes are not ready
}

func (s *scripted) overview(n *node) (o overview) {
	var answer struct {
		Complete   bool
		IntervalMs float64
		Numbers    []*float64
		Nodes      []struct {
			State   string
			Reasons json.RawMessage
		}
	}
	status, _, body := s.do(n, http.MethodGet, "/overview", "")
	if err := json.Unmarshal([]byte(body), &answer); err != nil || !answer.Complete {
		s.Errorf("%s: %d %s", n.name, status, body)
	}
	for _, v := range answer.Numbers {
		if v != nil {
			o.numbers += *v * answer.IntervalMs / 1000
		}
	}
	o.states = map[string]int{}
	for _, one := range answer.Nodes {
		o.states[one.State]++
		o.reasons = append(o.reasons, string(one.Reasons))
	}
	return o
}

// list returns the IDs of the nodes that GET /nodes lists, all of which must be well.
func (s *scripted) list(n *node) (ids []string) {
	var answer struct {
		Complete bool
		Nodes    []struct {
			ID       string
			Self     bool
			Backends map[string]struct{ State string }
		}
	}
	_, _, body := s.do(n, http.MethodGet, "/nodes", "")
	if err := json.Unmarshal([]byte(body), &answer); err != nil || !answer.Complete {
		s.Errorf("%s lists %s", n.name, body)
	}
	self := 0
	for _, one := range answer.Nodes {
		if one.Self {
			self++
		}
		if one.Backends["store"].State != "ok" || one.Backends["redis"].State != "ok" {
			s.Errorf("%s lists %s", n.name, body)
		}
		ids = append(ids, one.ID)
	}
	if self != 1 {
		s.Errorf("%s lists %s", n.name, body)
	}
	return ids
}
