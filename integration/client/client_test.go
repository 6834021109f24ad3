// Package client tests the Go client against a real node.
package client

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/seqd/seqd/client"
	"github.com/seqd/seqd/client/admin"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
)

func TestMain(m *testing.M) { node.Main(m) }

// Every call for numbers. Those of package admin are in command/remote.
func TestCalls(t *testing.T) {
	t.Parallel()
	n := node.StartReady(t, t.TempDir(), `SEQD_BIZTYPES=[{"name":"ticket","keyed":true,"maxKeys":2},{"name":"bill","strategy":"gapless"}]`)
	ctx := context.Background()
	c := must.Get(client.New(client.Config{Addrs: []string{n.URL}, Wait: -1, Timeout: await.Patience}))(t)
	t.Cleanup(c.CloseIdleConnections)
	a, b := client.Key("a"), client.Key("b.B_-9")
	for _, key := range []client.Option{a, b} {
		must.Equal(t, must.Get(c.Next(ctx, "ticket", client.IdempotencyKey("once"), key))(t), "1")
	}
	must.Equal(t, fmt.Sprint(must.Get(c.NextN(ctx, "ticket", 2, a))(t)), "[2 3]")
	must.Equal(t, string(must.Get(c.AppendText(ctx, nil, "ticket", 2, b))(t)), "2\n3\n")
	buffer := must.Get(c.Buffer("ticket", client.BufferOptions{Size: 10, Key: "a"}))(t)
	defer buffer.Close()
	must.Equal(t, must.Get(buffer.Next(ctx))(t), "4")
	must.Is(t, must.Err(c.Next(ctx, "ticket", client.Key("c"))), client.ErrTooManyKeys)
	if keys, next, err := admin.New(c).Keys(ctx, "ticket", admin.Page{Limit: 1}); err != nil || fmt.Sprint(keys) != "[a]" || next != "a" {
		t.Errorf("got %q, %q, %v", keys, next, err)
	}
	once := client.ReserveOptions{Count: 2, IdempotencyKey: "payment-1", TTL: time.Hour}
	one := must.Get(c.Reserve(ctx, "bill", once))(t)
	if fmt.Sprint(one.IDs, " ", one.State) != "[1 2] reserved" || time.Until(one.ExpiresAt) < 50*time.Minute {
		t.Errorf("got %+v", one)
	}
	must.Equal(t, must.Get(c.Reserve(ctx, "bill", once))(t).ID, one.ID, "the reservation when it is repeated")
	must.Do(t, one.Confirm(ctx))
	must.Is(t, one.Release(ctx), client.ErrReservationConfirmed)
	if r, err := c.Reservation(ctx, "bill", one.ID); err != nil || r.State != "confirmed" {
		t.Errorf("got %+v, %v", r, err)
	}
}
