package cursor

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// model is the expected state of a cursor. Random values are copied from the replies of the
// scripts.
type model struct {
	exists  bool
	trusted bool // written with the server's replication ID
	gen     string
	epoch   string // empty in a stub

	replaced *string // the epoch that a seed replaced; nil before the first
	ceil     int64
	buffer   persist.Range
	cur      int64
	queue    []persist.Range
	claimed  bool // nothing expires during the test
}

func (m *model) take(t rediscursor.Take) rediscursor.Taken {
	if !m.exists || !m.trusted {
		*m = model{exists: true, trusted: true, ceil: m.ceil, replaced: m.replaced}
	}
	switch m.epoch {
	case t.Epoch:
	case "":
		return rediscursor.Taken{Stub: true, Ceil: m.ceil, Low: m.claim(t)}
	default:
		return rediscursor.Taken{Other: true, Epoch: m.epoch, Replaced: *m.replaced, Ceil: m.ceil}
	}
	if free := 1 + t.Reserve - len(m.queue); t.Count > 0 && t.Count <= m.buffer.Last-m.cur &&
		(free <= 0 || float64(m.cur+t.Count-m.buffer.First+1) < t.Threshold*float64(m.buffer.Size())) {
		m.cur += t.Count
		return rediscursor.Taken{Epoch: m.epoch, Ceil: m.ceil, Runs: []persist.Range{{First: m.cur - t.Count + 1, Last: m.cur}}}
	}
	taken := rediscursor.Taken{Epoch: m.epoch, Gen: m.gen, Ceil: m.ceil}
	wanted, promoted := t.Count, 0
	for wanted > 0 {
		if m.cur == m.buffer.Last {
			if len(m.queue) == 0 || promoted > 0 && !t.UseReserve {
				break
			}
			m.buffer, m.queue = m.queue[0], m.queue[1:]
			m.cur = m.buffer.First - 1
			promoted++
		}
		run := persist.Range{First: m.cur + 1, Last: m.cur + min(wanted, m.buffer.Last-m.cur)}
		taken.Runs = append(taken.Runs, run)
		wanted -= run.Size()
		m.cur = run.Last
	}
	taken.Free = max(0, 1+t.Reserve-len(m.queue))
	if taken.Free > 0 && float64(m.cur-m.buffer.First+1) >= t.Threshold*float64(m.buffer.Size()) {
		taken.Low = m.claim(t)
	}
	if len(taken.Runs) > 0 && wanted == 0 {
		return taken // the script reads no further
	}
	rest := m.queue
	if m.cur < m.buffer.Last {
		rest = append([]persist.Range{{First: m.cur + 1, Last: m.buffer.Last}}, rest...)
	}
	for _, r := range rest {
		taken.Hand += r.Size()
	}
	if len(rest) > 0 {
		taken.Next = rest[0].First
	}
	return taken
}

func (m *model) claim(t rediscursor.Take) rediscursor.Low {
	if m.claimed || t.Claim == 0 {
		return rediscursor.Claimed
	}
	m.claimed = true
	return rediscursor.WantsRefill
}

func (m *model) install(in rediscursor.Install) rediscursor.Answer {
	switch {
	case !m.exists, !m.trusted, in.Gen != m.gen, (in.Mode == rediscursor.Seed) == (in.Epoch == m.epoch):
		return rediscursor.Answer{Verdict: rediscursor.Moved}
	case in.Range.First <= m.ceil:
		return rediscursor.Answer{Verdict: rediscursor.Stale, Ceil: m.ceil}
	case in.Mode == rediscursor.Append && len(m.queue) >= 1+in.Reserve:
		return rediscursor.Answer{Verdict: rediscursor.Full}
	case in.Mode == rediscursor.Append:
		m.queue = append(m.queue, in.Range)
		m.claimed = m.claimed && len(m.queue) < 1+in.Reserve
	default:
		m.claimed = false
		if in.Mode == rediscursor.Seed {
			m.replaced = &in.Replaced
		}
		m.epoch, m.buffer, m.cur, m.queue = in.Epoch, in.Range, in.Range.First-1, nil
	}
	m.ceil = in.Range.Last
	return rediscursor.Answer{Verdict: rediscursor.Installed, Gen: m.gen, Free: 1 + in.Reserve - len(m.queue)}
}

// fields returns the hash, without random values and times.
func (m *model) fields() map[string]string {
	if !m.exists {
		return map[string]string{}
	}
	queue := ""
	for _, r := range m.queue {
		queue += fmt.Sprintf("%d-%d ", r.First, r.Last)
	}
	fields := map[string]string{
		"v": fmt.Sprint(rediscursor.FormatVersion), "cluster": clusterID, "gen": m.gen, "ceil": fmt.Sprint(m.ceil), "epoch": m.epoch,
		"first": fmt.Sprint(m.buffer.First), "cur": fmt.Sprint(m.cur), "last": fmt.Sprint(m.buffer.Last), "queue": queue, "queued": fmt.Sprint(len(m.queue)),
	}
	if m.replaced != nil {
		fields["replaced"] = *m.replaced
	}
	return fields
}

// Random operations on a cursor have the same results as on the model, in every reply and field.
// Each writes at most once. Takes share their runs with others, or do not.
func TestModel(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	client := connect(t, server.Addr(), calm)
	replid := server.ReplicationID()
	beside := newNeighbours(t, client)
	client.AddHook(beside)
	rapid.Check(t, func(t *rapid.T) {
		run := &modelRun{t: t, client: client, beside: beside, cursor: open(t, client), gens: map[string]bool{"": true}, seen: newLedger(t), replid: replid, usual: rapid.IntRange(0, 3).Draw(t, "usual reserve")}
		// Start low, where decimal numbers get longer, where Lua would write exponents, or near the
		// end.
		run.max = rapid.SampledFrom([]int64{0, 0, 90, 99999999999950, 999999999999950, persist.MaxNumber - 150}).Draw(t, "max")
		t.Repeat(map[string]func(*rapid.T){
			"":        run.compare,
			"take":    run.take,
			"take2":   run.take, // more often
			"append":  func(*rapid.T) { run.install(rediscursor.Append) },
			"append2": func(*rapid.T) { run.install(rediscursor.Append) },
			"seed":    func(*rapid.T) { run.install(rediscursor.Seed) },
			"advance": func(*rapid.T) { run.install(rediscursor.Advance) },
			"lose":    func(*rapid.T) { run.lose() },
		})
	})
}

type modelRun struct {
	t      *rapid.T
	client *redis.Client
	cursor *cursor
	beside *neighbours
	model  model
	gens   map[string]bool // all so far
	seen   *ledger
	max    int64 // the highest allocated number
	replid string
	usual  int // the reserve of most nodes
}

// reserve returns the reserve of a node.
func (r *modelRun) reserve() int {
	if rapid.IntRange(0, 3).Draw(r.t, "other reserve") > 0 {
		return r.usual
	}
	return rapid.IntRange(0, 3).Draw(r.t, "reserve")
}

func (r *modelRun) take(*rapid.T) {
	take := rediscursor.Take{
		Count:      rapid.OneOf(rapid.Int64Range(0, 12), rapid.Int64Range(0, 12), rapid.Just(int64(1_000_000)), rapid.Just(int64(math.MaxInt64))).Draw(r.t, "count"),
		Threshold:  rapid.OneOf(rapid.Float64Range(1e-9, 1), rapid.SampledFrom([]float64{0.1, 0.5, 0.7, 1})).Draw(r.t, "threshold"),
		Reserve:    r.reserve(),
		UseReserve: rapid.Bool().Draw(r.t, "use"),
	}
	if b := r.model.buffer; b.Last > 0 && rapid.Bool().Draw(r.t, "at the mark") { // or one before it
		used := r.model.cur - b.First + 1 + take.Count + rapid.Int64Range(0, 1).Draw(r.t, "mark")
		take.Threshold = min(1, max(1e-9, float64(used)/float64(b.Size())))
	}
	if rapid.Bool().Draw(r.t, "claims") {
		take.Claim = claim
	}
	take.Epoch = r.believed()
	some := rapid.SliceOfN(rapid.SampledFrom(r.beside.all), 0, 3)
	r.beside.before, r.beside.after = some.Draw(r.t, "before"), some.Draw(r.t, "after")
	before := r.writes()
	got, err := r.cursor.Take(context.Background(), take)
	if err != nil {
		r.t.Fatalf("%+v: %v", take, err)
	}
	if writes := r.writes() - before; writes > 1 {
		r.t.Errorf("%d writes", writes)
	}
	anew := !r.model.exists || !r.model.trusted
	want := r.model.take(take)
	if want.Gen != "" || want.Stub || want.Other {
		want.Gen = r.adopt(got.Gen, anew)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		r.t.Errorf("%+v:\n got %+v\nwant %+v", take, got, want)
	}
	r.seen.add(got.Runs)
}

// believed returns an epoch that a node may have, usually the right one.
func (r *modelRun) believed() string {
	other := []string{epoch, strings.Repeat("e", 32)}
	if r.model.epoch == "" || rapid.IntRange(0, 4).Draw(r.t, "other epoch") == 0 {
		return rapid.SampledFrom(other).Draw(r.t, "epoch")
	}
	return r.model.epoch
}

// adopt checks a gen, and copies it to the model if the cursor starts again.
func (r *modelRun) adopt(gen string, anew bool) string {
	if anew {
		if r.gens[gen] {
			r.t.Errorf("the gen %q comes again", gen)
		}
		r.gens[gen] = true
		r.model.gen = gen
	}
	return r.model.gen
}

func (r *modelRun) install(mode rediscursor.Mode) {
	gen := r.model.gen
	if rapid.IntRange(0, 9).Draw(r.t, "other gen") == 0 {
		gen = "other"
	}
	in := rediscursor.Install{Mode: mode, Gen: gen, Epoch: r.believed(), Replaced: r.believed(), Reserve: r.reserve()}
	// Usually a new range, sometimes one that comes too late. Only ceil detects that; without it
	// the caller must be right.
	gaps := []int64{1, 1, 1, 1, 5}
	if r.model.ceil == r.max {
		gaps = append(gaps, 0, -10)
	}
	in.Range.First = max(1, r.max+rapid.SampledFrom(gaps).Draw(r.t, "gap"))
	in.Range.Last = in.Range.First + rapid.Int64Range(0, 15).Draw(r.t, "size")
	if in.Range.Last > persist.MaxNumber {
		r.t.Skip("exhausted")
	}
	r.max = max(r.max, in.Range.Last)
	before := r.writes()
	got, err := r.cursor.Install(context.Background(), in)
	if err != nil {
		r.t.Fatalf("%+v: %v", in, err)
	}
	want := r.model.install(in)
	wrote := int64(0)
	if want.Verdict == rediscursor.Installed {
		wrote = 1
		want.Gen = r.adopt(got.Gen, mode != rediscursor.Append)
	}
	if got != want {
		r.t.Errorf("%+v:\n got %+v\nwant %+v", in, got, want)
	}
	must.Equal(r.t, r.writes()-before, wrote, "writes")
}

// lose deletes the hash, or changes its replication ID.
func (r *modelRun) lose() {
	switch rapid.IntRange(0, 5).Draw(r.t, "loss") {
	case 0:
		must.Do(r.t, r.client.Del(context.Background(), r.cursor.key).Err())
		r.model = model{gen: r.model.gen}
	case 1:
		if r.model.exists {
			r.cursor.set("replid", strings.Repeat("0", 40))
			r.model.trusted = false
		}
	}
}

// compare compares the hash with the model.
func (r *modelRun) compare(*rapid.T) {
	got, want := r.cursor.hash(), r.model.fields()
	if len(got) > 0 {
		if len(got) != len(want)+2 || (got["replid"] == r.replid) != r.model.trusted || (got["claim"] != "0") != r.model.claimed {
			r.t.Errorf("%v of %+v", got, r.model)
		}
	}
	for field, value := range want {
		must.Equal(r.t, got[field], value, "%s", field)
	}
	if len(want) == 0 && len(got) > 0 {
		r.t.Errorf("there is %v", got)
	}
}

// writes returns how often a hash was written.
func (r *modelRun) writes() int64 {
	return writes(r.t, r.client)
}
