// Package client tests the Go client against real nodes.
package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/client"
	"github.com/seqd/seqd/client/admin"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
)

func TestMain(m *testing.M) { node.Main(m) }

// dial returns a client for nodes.
func dial(t *testing.T, cfg client.Config, nodes ...*node.Node) *client.Client {
	t.Helper()
	for _, n := range nodes {
		cfg.Addrs = append(cfg.Addrs, n.URL)
	}
	c := must.Get(client.New(cfg))(t)
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// Every call of package admin, and what the service says to those who must not make them.
func TestAdmin(t *testing.T) {
	t.Parallel()
	const secret = "seqd_test"
	n := node.StartReady(t, t.TempDir(), `SEQD_AUTH_TOKENS=[{"name":"root","sha256":"`+sha256Hex(secret)+`","scopes":["admin","issue:*"]}]`)
	ctx := context.Background()
	c := dial(t, client.Config{Token: secret, Wait: -1}, n)
	a := admin.New(c)

	b, created, err := a.PutBizType(ctx, "refund", []byte(`{"start":7}`), admin.Change{IfNoneMatch: true, DryRun: true})
	if err != nil || b.Name != "refund" || created {
		t.Errorf("got %+v, %v, %v", b, created, err)
	}
	if b, created, err = a.PutBizType(ctx, "refund", []byte(`{"start":7}`), admin.Change{IfNoneMatch: true}); err != nil || !created || b.Version != 1 {
		t.Errorf("got %+v, %v, %v", b, created, err)
	}
	if _, _, err = a.PutBizType(ctx, "refund", []byte(`{"start":7}`), admin.Change{IfNoneMatch: true}); !errors.Is(err, client.ErrPreconditionFailed) {
		t.Errorf("got %v", err)
	}
	if id, err := c.Next(ctx, "refund"); err != nil || id != "7" {
		t.Errorf("got %q, %v", id, err)
	}
	if _, err := a.PatchBizType(ctx, "refund", []byte(`{"step":0}`), admin.Change{}); !errors.Is(err, client.ErrInvalidDefinition) || problems(err) == 0 {
		t.Errorf("got %v", err)
	}
	must.Is(t, must.Err(a.PatchBizType(ctx, "refund", []byte(`{"start":1000}`), admin.Change{IfMatch: 2})), client.ErrPreconditionFailed)
	if b, err = a.PatchBizType(ctx, "refund", []byte(`{"start":1000}`), admin.Change{IfMatch: 1}); err != nil || b.Version != 2 {
		t.Errorf("got %+v, %v", b, err)
	}
	if b, err = a.EnableBizType(ctx, "refund", false, admin.Change{}); err != nil || b.Enabled {
		t.Errorf("got %+v, %v", b, err)
	}
	must.Is(t, must.Err(c.NextN(ctx, "refund", 3)), client.ErrDisabled)
	if b, err = a.EnableBizType(ctx, "refund", true, admin.Change{}); err != nil || !b.Enabled {
		t.Errorf("got %+v, %v", b, err)
	}
	if text, err := c.AppendText(ctx, nil, "refund", 3); err != nil || string(text) != "1000\n1001\n1002\n" {
		t.Errorf("got %q, %v", text, err)
	}
	if names := names(t, a); names != "order refund" {
		t.Errorf("got %s", names)
	}
	must.Report(t, a.DeleteBizType(ctx, "refund", admin.Change{IfMatch: b.Version}))
	must.Is(t, must.Err(a.BizType(ctx, "refund")), client.ErrUnknownBizType)

	nodes, complete, err := a.Nodes(ctx)
	if err != nil || len(nodes) != 1 || !complete || !nodes[0].Self || nodes[0].Backends["store"].State != "ok" {
		t.Errorf("got %+v, %v, %v", nodes, complete, err)
	}
	if ready, err := a.Ready(ctx); err != nil || ready.Status != "ready" {
		t.Errorf("got %+v, %v", ready, err)
	}
	must.Is(t, must.Err(c.Reserve(ctx, "order", client.ReserveOptions{})), client.ErrInvalidRequest, "a biz type that is not gapless: got")
}

// Tokens are created, used, changed and deleted.
func TestTokens(t *testing.T) {
	t.Parallel()
	const secret = "seqd_test"
	n := node.StartReady(t, t.TempDir(), `SEQD_AUTH_TOKENS=[{"name":"root","sha256":"`+sha256Hex(secret)+`","scopes":["admin"]}]`)
	ctx := context.Background()
	a := admin.New(dial(t, client.Config{Token: secret, Wait: -1}, n))
	made, err := a.CreateToken(ctx, admin.NewToken{Name: "shop", Scopes: []string{"issue:order"}, Expires: time.Now().Add(time.Hour)})
	if err != nil || made.Secret == "" || made.Expires.IsZero() {
		t.Fatalf("got %+v, %v", made, err)
	}
	shop := dial(t, client.Config{Token: made.Secret, Wait: -1}, n)
	if _, err := shop.Next(ctx, "order"); err != nil {
		t.Error(err)
	}
	must.Is(t, must.Err(shop.Next(ctx, "invoice")), client.ErrForbidden)
	if _, _, err := admin.New(shop).BizTypes(ctx, admin.Page{}); !errors.Is(err, client.ErrForbidden) {
		t.Errorf("got %v", err)
	}
	must.Is(t, must.Err(dial(t, client.Config{Wait: -1}, n).Next(ctx, "order")), client.ErrUnauthorized)
	no := false
	changed, err := a.PatchToken(ctx, "shop", admin.TokenPatch{Enabled: &no, Expires: new(time.Time), Scopes: []string{"read"}}, made.Version)
	if err != nil || changed.Enabled || !changed.Expires.IsZero() || changed.Scopes[0] != "read" || changed.Secret != "" {
		t.Errorf("got %+v, %v", changed, err)
	}
	must.Is(t, must.Err(a.PatchToken(ctx, "shop", admin.TokenPatch{Enabled: &no}, made.Version)), client.ErrPreconditionFailed)
	if _, err := shop.Next(ctx, "order"); !errors.Is(err, client.ErrUnauthorized) || strings.Contains(err.Error(), made.Secret) {
		t.Errorf("got %v", err)
	}
	list, next, err := a.Tokens(ctx, admin.Page{Limit: 1})
	if err != nil || len(list) != 1 || list[0].Name != "root" || next != "root" {
		t.Errorf("got %+v, %q, %v", list, next, err)
	}
	if got, err := a.Token(ctx, "shop"); err != nil || got.Version != changed.Version {
		t.Errorf("got %+v, %v", got, err)
	}
	must.Report(t, a.DeleteToken(ctx, "shop", changed.Version))
	must.Is(t, must.Err(a.Token(ctx, "shop")), client.ErrNotFound)
}

func sha256Hex(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func problems(err error) int {
	var e *client.Error
	if errors.As(err, &e) {
		return len(e.Problems)
	}
	return 0
}

// names returns the names of all biz types, a page of one at a time.
func names(t *testing.T, a *admin.Admin) string {
	t.Helper()
	var names []string
	for after := ""; ; {
		list, next, err := a.BizTypes(context.Background(), admin.Page{After: after, Limit: 1})
		must.Do(t, err)
		for _, b := range list {
			names = append(names, b.Name)
		}
		if after = next; after == "" {
			return strings.Join(names, " ")
		}
	}
}
