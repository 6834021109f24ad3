// Package invoices kills the service of examples/invoices, and the seqd that it takes numbers from.
package invoices

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seqd/seqd/client"
	"github.com/seqd/seqd/client/admin"
	"github.com/seqd/seqd/integration/fleet"
	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
)

const bizType = `SEQD_BIZTYPES=[{"name":"invoice","strategy":"gapless"}]`

// town is shops that share a database, and nodes of seqd that share a store.
type town struct {
	t     *testing.T
	pg    *testenv.Postgres
	nodes []*fleet.Member
	shops []*shop
	admin *admin.Admin

	// What callers were told.
	mu      sync.Mutex
	numbers map[string]string // by order
	placed  atomic.Int64
	refused atomic.Int64
	stop    chan struct{}
	callers sync.WaitGroup
}

// newTown starts everything. The shops reserve for ttl.
func newTown(t *testing.T, ttl time.Duration) *town {
	t.Helper()
	c := &town{t: t, pg: testenv.StartPostgres(t), numbers: map[string]string{}, stop: make(chan struct{})}
	c.pg.Query("CREATE DATABASE invoices OWNER seqd")
	c.nodes = fleet.Start(t, 2, "SEQD_STORE_DRIVER=postgres", "SEQD_STORE_POSTGRES_URL="+c.pg.URL(), bizType)
	program := build(t)
	for range 2 {
		c.shops = append(c.shops, newShop(t, program, "-database", c.database(), "-seqd", strings.Join(addrs(c.nodes), ","), "-ttl", ttl.String()))
	}
	numbers := must.Get(client.New(client.Config{Addrs: addrs(c.nodes), Wait: time.Minute}))(t)
	t.Cleanup(numbers.CloseIdleConnections)
	c.admin = admin.New(numbers)
	return c
}

func addrs(nodes []*fleet.Member) (list []string) {
	for _, n := range nodes {
		list = append(list, "http://"+n.HTTP)
	}
	return list
}

func (c *town) database() string { return strings.Replace(c.pg.URL(), "/seqd?", "/invoices?", 1) }

// query returns the first column of the first row of a query.
func (c *town) query(statement string) int {
	c.t.Helper()
	conn := must.Get(pgx.Connect(context.Background(), c.database()))(c.t)
	defer func() { _ = conn.Close(context.Background()) }()
	var n int
	must.Do(c.t, conn.QueryRow(context.Background(), statement).Scan(&n))
	return n
}

// order places an order, however often that takes. Every ninth is not valid: its transaction is
// rolled back.
func (c *town) order(i int) {
	order, cents := fmt.Sprint("o-", i), int64(i%9)
	for {
		status, got := c.shops[rand.IntN(len(c.shops))].post(order, cents)
		switch {
		case status == http.StatusUnprocessableEntity && cents == 0:
			c.refused.Add(1)
			return
		case status == http.StatusOK || status == http.StatusCreated:
			c.note(order, got, cents)
			return
		case status != 0 && status != http.StatusServiceUnavailable:
			c.t.Errorf("%s: %d", order, status)
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// note checks that an order has one number.
func (c *town) note(order string, got invoice, cents int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if got.Order != order || got.Cents != cents || c.numbers[order] != "" && c.numbers[order] != got.Number {
		c.t.Errorf("%s: got %+v, and %s before", order, got, c.numbers[order])
	}
	c.numbers[order] = got.Number
	c.placed.Add(1)
}

// open begins to place orders, every tenth of them by two callers at once.
func (c *town) open(callers int) {
	var last atomic.Int64
	for range callers {
		c.callers.Go(func() {
			for !c.t.Failed() {
				select {
				case <-c.stop:
					return
				default:
				}
				i := int(last.Add(1))
				if i%10 == 0 {
					c.callers.Go(func() { c.order(i) })
				}
				c.order(i)
			}
		})
	}
}

// more waits until some more orders are placed.
func (c *town) more(n int64) {
	c.t.Helper()
	want := c.placed.Load() + n
	await.Eventually(c.t, "orders are placed", func() error {
		switch {
		case c.t.Failed():
			c.t.FailNow()
		case c.placed.Load() < want:
			return fmt.Errorf("%d are, want %d", c.placed.Load(), want)
		}
		return nil
	})
}

// close ends the callers, once each has placed its order.
func (c *town) close() {
	close(c.stop)
	c.callers.Wait()
}

// settle waits until no number is reserved, and places orders until none is released.
func (c *town) settle() admin.Account {
	c.t.Helper()
	next := 1_000_000
	for deadline := time.Now().Add(await.Patience); ; {
		states := map[string]int{}
		var account admin.Account
		err := c.admin.EachPage(context.Background(), "invoice", admin.Counter{}, func(page admin.Account) error {
			for _, g := range page.Gaps {
				states[g.State] += int(g.To - g.From + 1)
			}
			account = page
			return nil
		})
		switch {
		case err != nil:
			c.t.Fatal(err)
		case len(states) == 0 && c.query("SELECT count(*) FROM outbox") == 0:
			return account
		case states["void"] > 0:
			c.t.Fatalf("numbers are void, and nobody made them so: %v", states)
		case c.t.Failed() || time.Now().After(deadline):
			c.t.Fatalf("it does not settle: %v", states)
		case states["released"] > 0:
			for range states["released"] {
				if next++; next%9 == 0 {
					next++
				}
				c.order(next)
			}
		default:
			time.Sleep(50 * time.Millisecond)
		}
	}
}

// check requires that the invoices are 1 to n, and that callers were told what is in the database.
func (c *town) check(account admin.Account) {
	c.t.Helper()
	n := c.query("SELECT count(*) FROM invoice")
	if highest := c.query("SELECT max(number::int) FROM invoice"); highest != n || account.First != 1 || account.Last != int64(n) || account.Issued != int64(n) {
		c.t.Errorf("%d invoices, the highest is %d, and the account says %+v", n, highest, account)
	}
	orders := make(map[string]string)
	for order, number := range c.numbers {
		if other, taken := orders[number]; taken {
			c.t.Errorf("%s and %s have the number %s", order, other, number)
		}
		orders[number] = order
	}
	must.Equal(c.t, len(c.numbers), n, "the invoices that callers were told of")
	for i := range n {
		if orders[strconv.Itoa(i+1)] == "" {
			c.t.Errorf("nobody has the number %d", i+1)
		}
	}
	late := 0
	for _, s := range c.shops {
		late += strings.Count(s.log.String(), "the reservation expired before it was confirmed")
	}
	c.t.Logf("%d invoices, %d orders refused, %d reservations confirmed too late", n, c.refused.Load(), late)
}

// kill kills all shops, and start starts them again.
func (c *town) kill() {
	for _, s := range c.shops {
		s.kill()
	}
}

func (c *town) start() {
	for _, s := range c.shops {
		s.start()
	}
}

// Shops, nodes and the database are killed in a random order, and all shops and everything for longer
// than a number is reserved. Afterwards the invoices are numbered 1 to n.
func TestKilled(t *testing.T) {
	longtest.Only(t)
	const ttl = 2 * time.Second
	c := newTown(t, ttl)
	c.open(6)
	c.more(20)
	faults := []func(){
		func() { c.shops[0].kill(); c.shops[0].start() },
		func() { c.nodes[0].Kill(); c.nodes[0].Start() },
		func() { c.nodes[1].Kill(); c.nodes[1].Start() },
		c.pg.Restart,
		func() { // the nodes reclaim what the shops have reserved
			c.kill()
			time.Sleep(ttl * 3 / 2)
			c.start()
		},
		func() {
			c.kill()
			for _, n := range c.nodes {
				n.Kill()
			}
			time.Sleep(ttl * 3 / 2)
			for _, n := range c.nodes {
				n.Start()
			}
			c.start()
		},
	}
	for range 2 {
		for _, i := range rand.Perm(len(faults)) {
			faults[i]()
			c.more(int64(rand.IntN(30)))
		}
	}
	c.more(10)
	c.close()
	c.check(c.settle())
}
