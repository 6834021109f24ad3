package client

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/seqd/seqd/client"
	"github.com/seqd/seqd/client/admin"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
)

// Every call of a keyed biz type.
func TestKeys(t *testing.T) {
	t.Parallel()
	n := node.StartReady(t, t.TempDir(), `SEQD_BIZTYPES=[{"name":"ticket","keyed":true,"maxKeys":2}]`)
	ctx := context.Background()
	c := dial(t, client.Config{Wait: -1}, n)
	a, b := client.Key("a"), client.Key("b.B_-9")
	for _, key := range []client.Option{a, b} {
		if id, err := c.Next(ctx, "ticket", client.IdempotencyKey("once"), key); err != nil || id != "1" {
			t.Errorf("got %q, %v", id, err)
		}
	}
	if ids, err := c.NextN(ctx, "ticket", 2, a); err != nil || fmt.Sprint(ids) != "[2 3]" {
		t.Errorf("got %q, %v", ids, err)
	}
	if text, err := c.AppendText(ctx, nil, "ticket", 2, b); err != nil || string(text) != "2\n3\n" {
		t.Errorf("got %q, %v", text, err)
	}
	buffer := must.Get(c.Buffer("ticket", client.BufferOptions{Size: 10, Key: "a"}))(t)
	defer buffer.Close()
	if id, err := buffer.Next(ctx); err != nil || id != "4" {
		t.Errorf("got %q, %v", id, err)
	}
	must.Is(t, must.Err(c.Next(ctx, "ticket", client.Key("c"))), client.ErrTooManyKeys)
	if keys, next, err := admin.New(c).Keys(ctx, "ticket", admin.Page{Limit: 1}); err != nil || fmt.Sprint(keys) != "[a]" || next != "a" {
		t.Errorf("got %q, %q, %v", keys, next, err)
	}
}

// Every call of a gapless biz type.
func TestReservations(t *testing.T) {
	t.Parallel()
	n := node.StartReady(t, t.TempDir(), `SEQD_BIZTYPES=[{"name":"bill","strategy":"gapless","keyed":true}]`)
	ctx := context.Background()
	c := dial(t, client.Config{Wait: -1}, n)
	adm := admin.New(c)
	reserve := func(opts client.ReserveOptions) *client.Reservation {
		t.Helper()
		opts.Key = "t-1"
		return must.Get(c.Reserve(ctx, "bill", opts))(t)
	}
	want := func(err, want error) {
		t.Helper()
		must.Is(t, err, want)
	}
	one := reserve(client.ReserveOptions{})
	if fmt.Sprint(one.IDs, " ", one.State) != "[1] reserved" || time.Until(one.ExpiresAt) < 9*time.Minute {
		t.Errorf("got %+v", one)
	}
	again := client.ReserveOptions{Count: 2, IdempotencyKey: "payment-1", TTL: time.Hour}
	two := reserve(again)
	if same := reserve(again); same.ID != two.ID || fmt.Sprint(same.IDs) != "[2 3]" {
		t.Errorf("got %+v, and %+v before", same, two)
	}
	if r, err := c.Confirm(ctx, "bill", one.ID); err != nil || fmt.Sprint(r.IDs, " ", r.State) != "[1] confirmed" {
		t.Errorf("got %+v, %v", r, err)
	}
	want(c.Release(ctx, "bill", two.ID), nil)
	want(one.Release(ctx), client.ErrReservationConfirmed)
	want(two.Confirm(ctx), client.ErrReservationReleased)
	if r, err := c.Reservation(ctx, "bill", two.ID); err != nil || r.State != "released" {
		t.Errorf("got %+v, %v", r, err)
	}
	counter := admin.Counter{Key: "t-1"}
	want(adm.Void(ctx, "bill", admin.Void{ID: "1", Reason: "typed wrong", Counter: counter}), nil)
	account, err := adm.Account(ctx, "bill", counter, admin.Page{})
	if err != nil || account.Key != "t-1" || account.First != 1 || account.Last != 3 || account.Issued != 0 || account.Gaps[0].Reason != "typed wrong" {
		t.Errorf("got %+v, %v", account, err)
	}
}
