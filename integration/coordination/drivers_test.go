//go:build coordination

// Package coordination runs the drivers of package coordination against a real Consul and a real
// ZooKeeper, and nodes whose coordinator is paused, killed or cut off. scripts/coordination runs it.
package coordination

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/seqd/seqd/coordination"
	"github.com/seqd/seqd/coordination/consul"
	"github.com/seqd/seqd/coordination/coordinationtest"
	"github.com/seqd/seqd/coordination/zookeeper"
	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/persist/persisttest"
	"github.com/seqd/seqd/strategy/snowflake/coordslots"
)

func TestMain(m *testing.M) { node.Main(m) }

var prefixes atomic.Int64

// options are those of documents that nobody has used.
func options(addrs ...string) coordination.Options {
	return coordination.Options{Addrs: addrs, Prefix: fmt.Sprint("seqd/test-", prefixes.Add(1)), Timeout: 2 * time.Minute, Dial: new(net.Dialer).DialContext}
}

func suite(t *testing.T, open func() coordination.Coordinator) {
	coordinationtest.Run(t, func(t *testing.T) coordination.Documents {
		d := open()
		t.Cleanup(func() { must.Do(t, d.Close()) })
		return d
	})
	persisttest.RunSlots(t, func(t *testing.T, now func() time.Time) (persist.SlotStore, func() error) {
		d := &ending{Coordinator: open()}
		return coordslots.Open(coordslots.Options{Documents: d, Clock: memory.New(now)}), d.Close
	})
}

// ending is a coordinator that answers nothing after Close. Consul needs none.
type ending struct {
	coordination.Coordinator
	closed atomic.Bool
}

func (e *ending) Read(ctx context.Context, kind, key string) (persist.Document, error) {
	if e.closed.Load() {
		return persist.Document{}, persist.ErrClosed
	}
	return e.Coordinator.Read(ctx, kind, key)
}

func (e *ending) Close() error {
	e.closed.Store(true)
	return e.Coordinator.Close()
}

func TestConsul(t *testing.T) {
	c := testenv.StartConsul(t)
	suite(t, func() coordination.Coordinator { return consul.New(options(c.Addr())) })
	goesOn(t, consul.New(options(testenv.ReserveAddr(t), c.Addr())))
	o := options(c.Addr())
	damaged(t, consul.New(o), func(path, value string) {
		req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+c.Addr()+"/v1/kv/"+o.Prefix+path, strings.NewReader(value)))(t)
		must.Do(t, must.Get(http.DefaultClient.Do(req))(t).Body.Close())
	})
	o.Timeout = 200 * time.Millisecond
	away(t, consul.New(o), c)
}

func TestZooKeeper(t *testing.T) {
	c := testenv.StartZooKeeper(t, 1)[0]
	suite(t, func() coordination.Coordinator { return zookeeper.New(options(c.Addr())) })
	goesOn(t, zookeeper.New(options(testenv.ReserveAddr(t), c.Addr())))
	o := options(c.Addr())
	damaged(t, zookeeper.New(o), func(path, value string) {
		conn, _, err := zk.Connect([]string{c.Addr()}, time.Minute, zk.WithLogInfo(false))
		must.Do(t, err)
		defer conn.Close()
		must.Get(conn.Set("/"+o.Prefix+path, []byte(value), -1))(t)
	})
	o.Timeout = 200 * time.Millisecond
	away(t, zookeeper.New(o), c)

	// only the user of the token may use what it made
	o = options(c.Addr())
	o.Token = func() string { return "shop:secret" }
	own := zookeeper.New(o)
	defer own.Close()
	must.Do(t, own.Create(t.Context(), persist.Document{Kind: "token", Key: "x", Revision: 1}))
	for _, token := range []string{"", "shop:wrong"} {
		o.Token = func() string { return token }
		other := zookeeper.New(o)
		must.Is(t, must.Err(other.Read(t.Context(), "token", "x")), coordination.ErrUnavailable)
		must.Do(t, other.Close())
	}
	must.Get(own.Read(t.Context(), "token", "x"))(t)
}

// What is no document hides no other one, and can be removed by its revision.
func damaged(t *testing.T, d coordination.Coordinator, overwrite func(path, value string)) {
	defer d.Close()
	for _, key := range []string{"a", "b", "c"} {
		must.Do(t, d.Create(t.Context(), persist.Document{Kind: "test", Key: key, Revision: 1, Body: "{}"}))
	}
	last := int64(0)
	for _, nonsense := range []string{"", "x"} { // its revision changes with it
		overwrite("/test/b", nonsense)
		doc, err := d.Read(t.Context(), "test", "b")
		must.Is(t, err, persist.ErrInvalid)
		must.Equal(t, coordination.Damaged(doc, err) && doc.Revision != last && doc.Body == "", true, fmt.Sprint(doc))
		last = doc.Revision
	}
	list := must.Get(d.List(t.Context(), "test", "", 9))(t)
	must.Equal(t, len(list) == 3 && list[1].Body == "" && list[1].Revision == last, true, fmt.Sprint(list))
	if err := d.Delete(t.Context(), "test", "b", last-1); err == nil {
		t.Error("it was removed by another revision")
	}
	must.Do(t, d.Delete(t.Context(), "test", "b", last))
	must.Is(t, must.Err(d.Read(t.Context(), "test", "b")), persist.ErrNotFound)
}

// A server of three that leads is killed. Nothing that was confirmed is missing at the others, also to
// a client of a follower.
func TestThreeZooKeepers(t *testing.T) {
	all := testenv.StartZooKeeper(t, 3)
	var addrs []string
	for _, c := range all {
		addrs = append(addrs, c.Addr())
	}
	o := options(addrs...)
	writer := zookeeper.New(o)
	defer writer.Close()
	var readers []*zookeeper.Documents
	for _, addr := range addrs {
		o.Addrs = []string{addr}
		reader := zookeeper.New(o)
		defer reader.Close()
		readers = append(readers, reader)
	}
	for i := range 200 {
		doc := persist.Document{Kind: "test", Key: fmt.Sprint(i), Revision: 1}
		must.Do(t, writer.Create(t.Context(), doc))
		for _, reader := range readers {
			must.Equal(t, must.Get(reader.Read(t.Context(), "test", doc.Key))(t), doc)
		}
	}
	leader := -1
	await.True(t, "a server leads", func() bool {
		leader = slices.IndexFunc(all, (*testenv.Coordinator).Leads)
		return leader >= 0
	})
	all[leader].Kill()
	readers = slices.Delete(readers, leader, leader+1)
	goesOn(t, writer)
	for _, reader := range readers {
		await.Eventually(t, "a follower has all", func() error {
			list, err := reader.List(t.Context(), "test", "", 1000)
			if err == nil && len(list) < 201 {
				err = fmt.Errorf("%d documents", len(list))
			}
			return err
		})
	}
}

// goesOn requires that a document can be made soon, although a server does not answer.
func goesOn(t *testing.T, d coordination.Coordinator) {
	t.Helper()
	await.Eventually(t, "it goes on", func() error {
		err := d.Create(t.Context(), persist.Document{Kind: "test", Key: "goes on", Revision: 1})
		if errors.Is(err, persist.ErrExists) {
			return nil
		}
		return err
	})
}

// away requires that operations end with an error while a server does not answer.
func away(t *testing.T, d coordination.Coordinator, c *testenv.Coordinator) {
	t.Helper()
	defer d.Close()
	goesOn(t, d) // its time-out is short
	doc := persist.Document{Kind: "test", Key: "goes on", Revision: 1}
	for _, fault := range []struct{ begin, end func() }{{c.Pause, c.Resume}, {c.Kill, c.Start}} {
		fault.begin()
		doc.Revision = 2
		for _, err := range []error{
			must.Err(d.Read(t.Context(), "test", "goes on")), must.Err(d.Read(t.Context(), "test", "none")), d.Update(t.Context(), doc),
			d.Delete(t.Context(), "test", "goes on", 1), must.Err(d.List(t.Context(), "test", "", 1)), d.Create(t.Context(), persist.Document{Kind: "test", Key: "new", Revision: 1}),
		} {
			must.Is(t, err, coordination.ErrUnavailable)
			must.Equal(t, errors.Is(err, persist.ErrNotFound) || errors.Is(err, context.Canceled), false, "not there: ", err)
		}
		fault.end()
		await.Eventually(t, "it answers again", func() error { return must.Err(d.List(t.Context(), "test", "", 1)) })
	}
}
