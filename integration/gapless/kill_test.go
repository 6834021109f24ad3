// Package gapless tests that gapless numbers stay without gaps while nodes are killed under load.
package gapless

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/fleet"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/node"
	"github.com/seqd/seqd/internal/testing/ordercheck"
)

func TestMain(m *testing.M) { node.MainOf(m, "./internal/testing/clockseqd") }

const (
	callers  = 16
	patience = await.Patience
)

// kinds are the stores, and how many nodes share each.
var kinds = map[string]struct {
	nodes int
	env   func(t testing.TB) []string
}{
	"bolt":     {1, func(testing.TB) []string { return nil }},
	"postgres": {2, fleet.Postgres},
}

// load is callers of one biz type.
type load struct {
	t       *testing.T
	members []*fleet.Member
	keys    bool // each number has an Idempotency-Key, and its caller asks until there is an answer
	client  *http.Client
	record  *ordercheck.Record
	told    atomic.Int64
	unknown atomic.Int64 // requests whose outcome nobody knows
	wait    sync.WaitGroup
}

// start starts the callers.
func (l *load) start(ctx context.Context) {
	for caller := range callers {
		l.wait.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				l.one(caller, i)
			}
		})
	}
}

// one takes a number, through any node.
func (l *load) one(caller, i int) {
	key := ""
	if l.keys {
		key = fmt.Sprintf("key-%d-%d", caller, i)
	}
	start := l.record.Now()
	for try, until := caller, time.Now().Add(patience); ; try++ {
		number, status, err := l.ask(l.members[try%len(l.members)], key)
		switch {
		case err == nil && status == http.StatusOK:
			l.record.Add(start, fmt.Sprint("caller ", caller), []int64{number})
			l.told.Add(1)
			return
		case err == nil && status < 500:
			l.t.Errorf("status %d", status)
			return
		case !l.keys && errors.Is(err, syscall.ECONNREFUSED): // nobody heard it
			return
		case !l.keys:
			l.unknown.Add(1)
			return
		case time.Now().After(until):
			l.t.Errorf("no answer to %s in %v: %d %v", key, patience, status, err)
			return
		}
		time.Sleep(5 * time.Millisecond) // between attempts; nothing depends on it
	}
}

func (l *load) ask(m *fleet.Member, key string) (number int64, status int, err error) {
	req, err := http.NewRequest(http.MethodPost, "http://"+m.HTTP+"/seq/bill", nil)
	if err != nil {
		return 0, 0, err
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := l.client.Do(req)
	if err != nil {
		return 0, 0, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return 0, resp.StatusCode, err
	}
	var answer struct{ ID string }
	if err := json.Unmarshal(body, &answer); err != nil {
		return 0, 0, err
	}
	number, err = strconv.ParseInt(answer.ID, 10, 64)
	return number, resp.StatusCode, err
}

// more waits until so many more numbers were told.
func (l *load) more(n int64) {
	l.t.Helper()
	want := l.told.Load() + n
	await.True(l.t, fmt.Sprintf("%d numbers are told", want), func() bool { return l.told.Load() >= want })
}

// account is what the service says became of the numbers.
type account struct {
	First, Last, Next string
	Issued            int64
	Gaps              []struct{ From, To, State, Reservation, Reason string }
}

func readAccount(t *testing.T, m *fleet.Member) (a account) {
	t.Helper()
	answer, err := m.Node.Do(http.MethodGet, "/biz-types/bill/gaps?limit=1000", "")
	if err != nil || answer.Status != http.StatusOK {
		t.Fatalf("%v %+v", err, answer)
	}
	if err := json.NewDecoder(bytes.NewBufferString(answer.Body)).Decode(&a); err != nil || a.Next != "" {
		t.Fatalf("%v %s", err, answer.Body)
	}
	return a
}

// A node is killed 20 times under 16 callers. With an Idempotency-Key for each number there is
// neither a gap nor a duplicate. Without keys no number is told twice, and the account says what
// each number is: those that nobody was told are no more than the requests without an answer.
func TestKilledUnderCallers(t *testing.T) {
	for name, kind := range kinds {
		for _, keys := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, keys %t", name, keys), func(t *testing.T) {
				t.Parallel()
				env := append(slices.Clone(kind.env(t)), `SEQD_BIZTYPES=[{"name":"bill","strategy":"gapless"}]`)
				l := &load{t: t, members: fleet.Start(t, kind.nodes, env...), keys: keys, record: ordercheck.New(),
					client: &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: callers}}}
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				l.start(ctx)
				for i := range longtest.Or(4, 20) {
					l.more(100)
					m := l.members[i%len(l.members)]
					m.Kill()
					m.Start()
				}
				l.more(100)
				stop()
				l.wait.Wait()
				l.check()
			})
		}
	}
}

// check compares what callers were told with the account.
func (l *load) check() {
	l.t.Helper()
	if err := l.record.Duplicates(); err != nil {
		l.t.Error(err)
	}
	a := readAccount(l.t, l.members[0])
	last, err := strconv.ParseInt(a.Last, 10, 64)
	if err != nil || a.First != "1" {
		l.t.Fatalf("%+v", a)
	}
	missing := int64(0)
	gaps := map[int64]string{}
	for _, g := range a.Gaps {
		from, _ := strconv.ParseInt(g.From, 10, 64)
		to, err := strconv.ParseInt(g.To, 10, 64)
		if err != nil || from > to {
			l.t.Fatalf("%+v", g)
		}
		for number := from; number <= to; number++ {
			gaps[number] = g.State
			missing++
		}
	}
	if a.Issued != last-missing {
		l.t.Errorf("%d of %d are issued, and %d in gaps", a.Issued, last, missing)
	}
	l.record.Each(func(c ordercheck.Call) {
		for _, number := range c.Numbers {
			if number > last || gaps[number] != "" {
				l.t.Errorf("%d was told as issued and is %q of %d", number, gaps[number], last)
			}
		}
	})
	told, unknown := int64(l.record.Numbers()), l.unknown.Load()
	l.t.Logf("%d numbers, %d told, %d in gaps, %d requests without an answer", last, told, missing, unknown)
	switch untold := a.Issued - told; {
	case l.keys && (told != last || missing > 0):
		l.t.Errorf("%d numbers were told of %d, and %d are in gaps", told, last, missing)
	case untold < 0 || untold > unknown:
		l.t.Errorf("%d numbers are issued and nobody was told, after %d requests without an answer", untold, unknown)
	}
}
