// Package gapless tests that gapless numbers in bolt stay without gaps while the node is killed under
// load. Nodes that share a store are tested in simulation, see internal/testing/sim, and in
// integration/invoices.
package gapless

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/fleet"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/node"
	"github.com/seqd/seqd/internal/testing/ordercheck"
)

func TestMain(m *testing.M) { node.Main(m) }

const callers = 16

// load is callers of one biz type. Each number has an Idempotency-Key, and its caller asks until there
// is an answer.
type load struct {
	t      *testing.T
	node   *fleet.Member
	client *http.Client
	record *ordercheck.Record
	told   atomic.Int64
	wait   sync.WaitGroup
}

// start starts the callers.
func (l *load) start(ctx context.Context) {
	for caller := range callers {
		l.wait.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				l.one(fmt.Sprint("caller ", caller), fmt.Sprintf("key-%d-%d", caller, i))
			}
		})
	}
}

// one takes a number.
func (l *load) one(caller, key string) {
	start := l.record.Now()
	for until := time.Now().Add(await.Patience); ; {
		number, status, err := l.ask(key)
		switch {
		case err == nil && status == http.StatusOK:
			l.record.Add(start, caller, []int64{number})
			l.told.Add(1)
			return
		case err == nil && status < 500:
			l.t.Errorf("status %d", status)
			return
		case time.Now().After(until):
			l.t.Errorf("no answer to %s in %v: %d %v", key, await.Patience, status, err)
			return
		}
		time.Sleep(5 * time.Millisecond) // between attempts; nothing depends on it
	}
}

func (l *load) ask(key string) (number int64, status int, err error) {
	req, err := http.NewRequest(http.MethodPost, "http://"+l.node.HTTP+"/seq/bill", nil)
	if err != nil {
		return 0, 0, err
	}
	req.Header.Set("Idempotency-Key", key)
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

// A node is killed several times under its callers. There is neither a gap nor a duplicate, and the
// account of the service says so.
func TestKilledUnderCallers(t *testing.T) {
	t.Parallel()
	n := fleet.Start(t, 1, `SEQD_BIZTYPES=[{"name":"bill","strategy":"gapless"}]`)[0]
	l := &load{t: t, node: n, record: ordercheck.New(),
		client: &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: callers}}}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	l.start(ctx)
	for range longtest.Or(3, 20) {
		l.more(100)
		n.Kill()
		n.Start()
	}
	l.more(100)
	stop()
	l.wait.Wait()
	l.check()
}

// check compares what callers were told with the account of the service.
func (l *load) check() {
	l.t.Helper()
	if err := l.record.Duplicates(); err != nil {
		l.t.Error(err)
	}
	answer, err := l.node.Node.Do(http.MethodGet, "/biz-types/bill/gaps?limit=1000", "")
	var account struct {
		First, Last string
		Issued      int64
		Gaps        []struct{ From, To, State string }
	}
	if err == nil {
		err = json.Unmarshal([]byte(answer.Body), &account)
	}
	told := int64(l.record.Numbers())
	if err != nil || account.First != "1" || account.Last != strconv.FormatInt(told, 10) || account.Issued != told || len(account.Gaps) > 0 {
		l.t.Errorf("%v: %d numbers were told up to %d, and the account is %+v", err, told, l.record.Highest(), account)
	}
}
