package client

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/client"
	"github.com/seqd/seqd/client/admin"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/node"
)

// Every call of a keyed biz type, and what the service says of keys.
func TestKeys(t *testing.T) {
	t.Parallel()
	n := node.StartReady(t, t.TempDir(), `SEQD_BIZTYPES=[{"name":"order"},{"name":"ticket","keyed":true,"maxKeys":3}]`)
	ctx := context.Background()
	c := dial(t, client.Config{Wait: -1}, n)
	a, b := client.Key("a"), client.Key("b.B_-9")
	for i, want := range []string{"1", "2"} {
		for _, key := range []client.Option{a, b} {
			if id, err := c.Next(ctx, "ticket", key); err != nil || id != want {
				t.Errorf("call %d: got %q, %v", i, id, err)
			}
		}
	}
	if ids, err := c.NextN(ctx, "ticket", 2, a); err != nil || fmt.Sprint(ids) != "[3 4]" {
		t.Errorf("got %q, %v", ids, err)
	}
	if text, err := c.AppendText(ctx, nil, "ticket", 2, b); err != nil || string(text) != "3\n4\n" {
		t.Errorf("got %q, %v", text, err)
	}
	once := client.IdempotencyKey("once")
	for _, key := range []client.Option{a, b, a, b} {
		if id, err := c.Next(ctx, "ticket", once, key); err != nil || id != "5" {
			t.Errorf("got %q, %v", id, err)
		}
	}
	buffer, err := c.Buffer("ticket", client.BufferOptions{Size: 10, Key: "a"})
	if err != nil {
		t.Fatal(err)
	}
	defer buffer.Close()
	for want := 6; want < 30; want++ {
		if id, err := buffer.Next(ctx); err != nil || id != strconv.Itoa(want) {
			t.Fatalf("got %q, %v, want %d", id, err, want)
		}
	}
	for i, got := range []struct {
		key  []client.Option
		biz  string
		want error
	}{
		{nil, "ticket", client.ErrInvalidKey}, {[]client.Option{a}, "order", client.ErrInvalidKey}, {[]client.Option{client.Key("a/b")}, "ticket", client.ErrInvalidKey},
		{[]client.Option{client.Key("c")}, "ticket", nil}, {[]client.Option{client.Key("d")}, "ticket", client.ErrTooManyKeys}, {[]client.Option{a}, "ticket", nil},
	} {
		if id, err := c.Next(ctx, got.biz, got.key...); !errors.Is(err, got.want) {
			t.Errorf("case %d: got %q, %v", i, id, err)
		}
	}
	adm := admin.New(c)
	if keys, next, err := adm.Keys(ctx, "ticket", admin.Page{Limit: 2}); err != nil || fmt.Sprint(keys) != "[a b.B_-9]" || next != "b.B_-9" {
		t.Errorf("got %q, %q, %v", keys, next, err)
	}
	if keys, next, err := adm.Keys(ctx, "ticket", admin.Page{After: "b.B_-9"}); err != nil || fmt.Sprint(keys) != "[c]" || next != "" {
		t.Errorf("got %q, %q, %v", keys, next, err)
	}
	if _, _, err := adm.Keys(ctx, "order", admin.Page{}); !errors.Is(err, client.ErrInvalidRequest) {
		t.Errorf("got %v", err)
	}
}

// Every call of a gapless biz type, and what the service says of reservations.
func TestReservations(t *testing.T) {
	t.Parallel()
	tokens := func(names ...string) string {
		var list []string
		for _, name := range names {
			scopes := `"issue:*"`
			if name == "root" {
				scopes = `"admin","read"`
			}
			list = append(list, fmt.Sprintf(`{"name":%q,"sha256":%q,"scopes":[%s]}`, name, sha256Hex("seqd_"+name), scopes))
		}
		return "SEQD_AUTH_TOKENS=[" + strings.Join(list, ",") + "]"
	}
	n := node.StartReady(t, t.TempDir(), tokens("shop", "other", "root"),
		`SEQD_BIZTYPES=[{"name":"order"},{"name":"invoice","strategy":"gapless","maxReserved":5},{"name":"bill","strategy":"gapless","keyed":true}]`)
	ctx := context.Background()
	as := func(name string) *client.Client { return dial(t, client.Config{Token: "seqd_" + name, Wait: -1}, n) }
	shop, other, root := as("shop"), as("other"), as("root")
	reserve := func(c *client.Client, opts client.ReserveOptions) *client.Reservation {
		t.Helper()
		r, err := c.Reserve(ctx, "invoice", opts)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	want := func(err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	one := reserve(shop, client.ReserveOptions{})
	if fmt.Sprint(one.IDs, " ", one.State) != "[1] reserved" || time.Until(one.ExpiresAt) < 9*time.Minute {
		t.Errorf("got %+v", one)
	}
	two := reserve(shop, client.ReserveOptions{Count: 2, IdempotencyKey: "payment-1", TTL: time.Hour})
	if again := reserve(shop, client.ReserveOptions{Count: 2, IdempotencyKey: "payment-1", TTL: time.Hour}); again.ID != two.ID || fmt.Sprint(again.IDs) != "[2 3]" {
		t.Errorf("got %+v, and %+v before", again, two)
	}
	_, err := shop.Reserve(ctx, "invoice", client.ReserveOptions{Count: 3, IdempotencyKey: "payment-1", TTL: time.Hour})
	want(err, client.ErrIdempotencyKeyReused)
	_, err = shop.Next(ctx, "invoice", client.IdempotencyKey("payment-1"))
	want(err, client.ErrIdempotencyKeyReused)
	for range 2 {
		if id, err := shop.Next(ctx, "invoice", client.IdempotencyKey("payment-2")); err != nil || id != "4" {
			t.Errorf("got %q, %v", id, err)
		}
	}
	_, err = shop.Reserve(ctx, "invoice", client.ReserveOptions{Count: 3})
	want(err, client.ErrTooManyReserved)
	_, err = shop.Reserve(ctx, "invoice", client.ReserveOptions{Count: 6})
	want(err, client.ErrInvalidCount)
	_, err = shop.Reserve(ctx, "invoice", client.ReserveOptions{TTL: time.Millisecond})
	want(err, client.ErrInvalidTTL)
	_, err = shop.Reserve(ctx, "order", client.ReserveOptions{})
	want(err, client.ErrInvalidRequest)

	_, err = other.Confirm(ctx, "invoice", one.ID)
	want(err, client.ErrForbidden)
	want(other.Release(ctx, "invoice", one.ID), client.ErrForbidden)
	_, err = other.Reservation(ctx, "invoice", one.ID)
	want(err, client.ErrForbidden)
	for range 2 {
		if r, err := shop.Confirm(ctx, "invoice", one.ID); err != nil || fmt.Sprint(r.IDs, " ", r.State) != "[1] confirmed" {
			t.Errorf("got %+v, %v", r, err)
		}
		want(root.Release(ctx, "invoice", two.ID), nil)
	}
	want(one.Release(ctx), client.ErrReservationConfirmed)
	want(two.Confirm(ctx), client.ErrReservationReleased)
	if r, err := shop.Reservation(ctx, "invoice", two.ID); err != nil || r.State != "released" {
		t.Errorf("got %+v, %v", r, err)
	}
	_, err = shop.Confirm(ctx, "invoice", "00000000000000000000")
	want(err, client.ErrUnknownReservation)

	late := reserve(shop, client.ReserveOptions{TTL: time.Second}) // 2: the lowest that was released
	if fmt.Sprint(late.IDs) != "[2]" {
		t.Errorf("got %+v", late)
	}
	await.True(t, "it expires", func() bool {
		r, err := shop.Reservation(ctx, "invoice", late.ID)
		if err != nil {
			t.Fatal(err)
		}
		return r.State == "expired"
	})
	want(late.Confirm(ctx), client.ErrReservationExpired)

	adm := admin.New(root)
	want(adm.Void(ctx, "invoice", admin.Void{ID: "1", Reason: "typed wrong"}), nil)
	want(adm.Void(ctx, "invoice", admin.Void{ID: "1", Reason: "again"}), nil)
	want(adm.Void(ctx, "invoice", admin.Void{ID: "99", Reason: "never issued"}), client.ErrInvalidID)
	want(admin.New(shop).Void(ctx, "invoice", admin.Void{ID: "4", Reason: "x"}), client.ErrForbidden)
	account, err := adm.Account(ctx, "invoice", admin.Counter{}, admin.Page{})
	if err != nil || account.First != 1 || account.Last != 4 || account.Issued != 1 || account.Next != "" {
		t.Fatalf("got %+v, %v", account, err)
	}
	var gaps []string
	for _, g := range account.Gaps {
		gaps = append(gaps, fmt.Sprint(g.From, " ", g.To, " ", g.State, " ", g.Reason, " ", g.By))
	}
	if got := strings.Join(gaps, "\n"); got != "1 1 void typed wrong root\n2 3 released  " && got != "1 1 void typed wrong root\n2 2 released  \n3 3 released  " {
		t.Errorf("got %s", got)
	}
	_, err = admin.New(shop).Account(ctx, "invoice", admin.Counter{}, admin.Page{})
	want(err, client.ErrForbidden)

	for _, key := range []string{"t-1", "t.2"} {
		r, err := shop.Reserve(ctx, "bill", client.ReserveOptions{Key: key})
		if err != nil || fmt.Sprint(r.IDs) != "[1]" {
			t.Fatalf("got %+v, %v", r, err)
		}
		if got, err := shop.Confirm(ctx, "bill", r.ID); err != nil || got.State != "confirmed" {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	_, err = shop.Reserve(ctx, "bill", client.ReserveOptions{})
	want(err, client.ErrInvalidKey)
	if account, err := adm.Account(ctx, "bill", admin.Counter{Key: "t.2"}, admin.Page{}); err != nil || account.Key != "t.2" || account.Issued != 1 {
		t.Errorf("got %+v, %v", account, err)
	}
}
