package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/node"
	"github.com/seqd/seqd/internal/testing/ordercheck"
	"github.com/seqd/seqd/persist"
)

// A range that a node sends to the cursor is delayed and arrives long after the others have moved
// on. None of its numbers may be issued.
func TestRangeArrivesLate(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	for _, meanwhile := range []string{"the others continue", "the cursor is lost and started again"} {
		t.Run(meanwhile, func(t *testing.T) {
			t.Parallel()
			// without standby ranges, so that a range of the store is a range for the cursor
			f := newFleet(t, reject)
			r := testenv.StartRedis(t)
			toRedis, toStore := testenv.NewLink(t, r.Addr()), testenv.NewLink(t, f.mongo.Addr())
			const spare = 8
			a := f.add("a", redisAt(toRedis.Addr()), "SEQD_STORE_MONGO_URI=mongodb://"+toStore.Addr(), moreBizTypes(spare))
			b := f.add("b", redisAt(r.Addr()))
			a.start()
			b.start()
			f.awaitWell()
			a.connect(toRedis, r, spare) // no connection can be opened through a link that hangs
			a.load()
			a.traffic.More(t, 2*step)

			toStore.Latency(300 * time.Millisecond) // a range takes two requests
			await.Eventually(f.t, "a refill is over", func() error {
				if f.claimed(r) == nil {
					return errors.New("it is not")
				}
				return nil
			})
			known := ranges(a.Node)
			await.Eventually(f.t, "a brings a range", func() error { return f.claimed(r) })
			// so a has received the answer with its claim
			a.traffic.More(t, int64(f.pace.Callers*f.pace.Largest))
			toRedis.Hang()
			await.Eventually(f.t, "a has the range", func() error {
				if len(ranges(a.Node)) == len(known) {
					return errors.New("it has not")
				}
				return nil
			})
			late := ranges(a.Node)[len(known)]
			toStore.Latency(0)
			if meanwhile != "the others continue" {
				if err := r.Client().FlushAll(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
			}
			b.load()
			b.traffic.More(t, 5*step)
			a.AwaitReadiness(503, noRedis)

			record(f, r)
			f.mongo.Pause() // so that the queue stays open for a range
			await.Eventually(f.t, "the queue has room", func() error {
				queued, err := r.Client().HGet(t.Context(), key, "queued").Int()
				if err == nil && queued > reserve {
					err = fmt.Errorf("%d ranges are queued", queued)
				}
				return err
			})
			toRedis.Resume()
			await.Eventually(f.t, "the range arrives", func() error { return arrived(f, r, late) })
			f.mongo.Resume()
			f.awaitWell()
			f.more(step)
			f.history.Each(func(c ordercheck.Call) {
				if slices.ContainsFunc(c.Numbers, func(n int64) bool { return late.First <= n && n <= late.Last }) {
					t.Errorf("%v is of the range %d to %d, which came late", c, late.First, late.Last)
				}
			})
			f.finish(lossOf(2) + step)
		})
	}
}

// moreBizTypes is the biz type order and n others.
func moreBizTypes(n int) string {
	list := `{"name":"order","start":100}`
	for i := range n {
		list += fmt.Sprintf(`,{"name":"spare%d"}`, i)
	}
	return "SEQD_BIZTYPES=[" + list + "]"
}

// connect makes a node open as many connections to Redis, through a link, as it has spare biz
// types. It asks for a number of each while the link hangs.
func (m *member) connect(link *testenv.Link, r *testenv.Redis, spare int) {
	m.fleet.t.Helper()
	connected := func() int {
		n, err := strconv.Atoi(r.Info("clients")["connected_clients"])
		if err != nil {
			m.fleet.t.Fatal(err)
		}
		return n
	}
	before := connected()
	link.Hang()
	var asking sync.WaitGroup
	for i := range spare {
		asking.Go(func() { _, _ = m.Take(fmt.Sprintf("spare%d", i), 1) })
	}
	await.Eventually(m.fleet.t, "connections are opened", func() error {
		if now := connected(); now < before+spare-2 {
			return fmt.Errorf("%d were open before, %d are open now", before, now)
		}
		return nil
	})
	link.Resume()
	asking.Wait()
	m.awaitWell()
}

// ranges returns the ranges that a node got from the store, from its log.
func ranges(n *node.Node) (list []persist.Range) {
	for line := range strings.Lines(n.Log()) {
		var entry struct {
			Msg, BizType string
			First, Last  int64
		}
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "segment" && entry.BizType == "order" {
			list = append(list, persist.Range{First: entry.First, Last: entry.Last})
		}
	}
	return list
}

// record makes Redis log every command.
func record(f *fleet, r *testenv.Redis) {
	f.t.Helper()
	for setting, value := range map[string]string{"slowlog-log-slower-than": "0", "slowlog-max-len": "100000"} {
		if err := r.Client().ConfigSet(f.t.Context(), setting, value).Err(); err != nil {
			f.t.Fatal(err)
		}
	}
}

// arrived returns an error until Redis has logged a command with the range.
func arrived(f *fleet, r *testenv.Redis, late persist.Range) error {
	commands, err := r.Client().SlowLogGet(f.t.Context(), 100_000).Result()
	if err != nil {
		return err
	}
	for _, command := range commands {
		if slices.Contains(command.Args, strconv.FormatInt(late.First, 10)) && slices.Contains(command.Args, strconv.FormatInt(late.Last, 10)) {
			return nil
		}
	}
	return fmt.Errorf("none of %d commands brings %d to %d", len(commands), late.First, late.Last)
}
