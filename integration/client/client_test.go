// Package client tests the Go client against real nodes.
package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seqd/seqd/client"
	"github.com/seqd/seqd/client/admin"
	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/node"
	"github.com/seqd/seqd/internal/testing/ordercheck"
)

func TestMain(m *testing.M) { node.Main(m) }

// dial returns a client for nodes.
func dial(t *testing.T, cfg client.Config, nodes ...*node.Node) *client.Client {
	t.Helper()
	for _, n := range nodes {
		cfg.Addrs = append(cfg.Addrs, n.URL)
	}
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// take returns the next number, recorded in both records.
func take(next func() (string, error), who string, records ...*ordercheck.Record) error {
	began := make([]int64, len(records))
	for i, r := range records {
		began[i] = r.Now()
	}
	id, err := next()
	if err != nil {
		return err
	}
	number, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return err
	}
	for i, r := range records {
		r.Add(began[i], who, []int64{number})
	}
	return nil
}

// Sixteen callers take numbers from three nodes in strict order, half of them from two buffers, while
// one node is killed and then one is stopped. No call fails, and no number is given out twice. Numbers
// are in order over all unbuffered callers, and over those of each buffer.
func TestNodesEnd(t *testing.T) {
	t.Parallel()
	env := []string{"SEQD_STORE_DRIVER=postgres", "SEQD_STORE_POSTGRES_URL=" + testenv.StartPostgres(t).URL(), `SEQD_BIZTYPES=[{"name":"order"}]`}
	nodes := make([]*node.Node, 3)
	for i := range nodes {
		nodes[i] = node.StartReady(t, t.TempDir(), env...)
	}
	c := dial(t, client.Config{Wait: await.Patience, Timeout: time.Minute}, nodes...)
	all, unbuffered := ordercheck.New(), ordercheck.New()
	records := []*ordercheck.Record{ordercheck.New(), ordercheck.New()}
	var buffers []*client.Buffer
	for range records {
		b, err := c.Buffer("order", client.BufferOptions{Size: 200})
		if err != nil {
			t.Fatal(err)
		}
		buffers = append(buffers, b)
	}
	stop := make(chan struct{})
	var callers sync.WaitGroup
	for i := range 16 {
		record, next := unbuffered, func() (string, error) { return c.Next(context.Background(), "order") }
		if i%2 == 1 {
			b := buffers[i/2%2]
			record, next = records[i/2%2], func() (string, error) { return b.Next(context.Background()) }
		}
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := take(next, fmt.Sprint("caller ", i), all, record); err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Millisecond) // the buffers would hand out millions
			}
		})
	}
	more := func() {
		t.Helper()
		wants := []int{all.Numbers() + 1000, unbuffered.Numbers() + 50}
		await.Eventually(t, "callers get on", func() error {
			switch {
			case t.Failed():
				t.FailNow()
			case all.Numbers() < wants[0] || unbuffered.Numbers() < wants[1]:
				return fmt.Errorf("%d numbers, %d of them unbuffered, want %d", all.Numbers(), unbuffered.Numbers(), wants)
			}
			return nil
		})
	}
	more()
	nodes[0].Kill()
	more()
	nodes[1].Stop()
	more()
	close(stop)
	callers.Wait()
	for i, b := range buffers {
		t.Logf("buffer %d: %d handed out, %d skipped by Close", i, records[i].Numbers(), b.Close())
	}
	if err := all.Duplicates(); err != nil {
		t.Error(err)
	}
	for _, r := range append(records, unbuffered) {
		if err := r.Check(); err != nil {
			t.Error(err)
		}
	}
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
	if _, err := a.PatchBizType(ctx, "refund", []byte(`{"start":1000}`), admin.Change{IfMatch: 2}); !errors.Is(err, client.ErrPreconditionFailed) {
		t.Errorf("got %v", err)
	}
	if b, err = a.PatchBizType(ctx, "refund", []byte(`{"start":1000}`), admin.Change{IfMatch: 1}); err != nil || b.Version != 2 {
		t.Errorf("got %+v, %v", b, err)
	}
	if b, err = a.EnableBizType(ctx, "refund", false, admin.Change{}); err != nil || b.Enabled {
		t.Errorf("got %+v, %v", b, err)
	}
	if _, err := c.NextN(ctx, "refund", 3); !errors.Is(err, client.ErrDisabled) {
		t.Errorf("got %v", err)
	}
	if b, err = a.EnableBizType(ctx, "refund", true, admin.Change{}); err != nil || !b.Enabled {
		t.Errorf("got %+v, %v", b, err)
	}
	if text, err := c.AppendText(ctx, nil, "refund", 3); err != nil || string(text) != "1000\n1001\n1002\n" {
		t.Errorf("got %q, %v", text, err)
	}
	if names := names(t, a); names != "order refund" {
		t.Errorf("got %s", names)
	}
	if err := a.DeleteBizType(ctx, "refund", admin.Change{IfMatch: b.Version}); err != nil {
		t.Error(err)
	}
	if _, err := a.BizType(ctx, "refund"); !errors.Is(err, client.ErrUnknownBizType) {
		t.Errorf("got %v", err)
	}

	nodes, complete, err := a.Nodes(ctx)
	if err != nil || len(nodes) != 1 || !complete || !nodes[0].Self || nodes[0].Backends["store"].State != "ok" {
		t.Errorf("got %+v, %v, %v", nodes, complete, err)
	}
	if ready, err := a.Ready(ctx); err != nil || ready.Status != "ready" {
		t.Errorf("got %+v, %v", ready, err)
	}
	if _, err := c.Reserve(ctx, "order", client.ReserveOptions{}); !errors.Is(err, client.ErrInvalidRequest) {
		t.Errorf("a biz type that is not gapless: got %v", err)
	}
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
	if _, err := shop.Next(ctx, "invoice"); !errors.Is(err, client.ErrForbidden) {
		t.Errorf("got %v", err)
	}
	if _, _, err := admin.New(shop).BizTypes(ctx, admin.Page{}); !errors.Is(err, client.ErrForbidden) {
		t.Errorf("got %v", err)
	}
	if _, err := dial(t, client.Config{Wait: -1}, n).Next(ctx, "order"); !errors.Is(err, client.ErrUnauthorized) {
		t.Errorf("got %v", err)
	}
	no := false
	changed, err := a.PatchToken(ctx, "shop", admin.TokenPatch{Enabled: &no, Expires: new(time.Time), Scopes: []string{"read"}}, made.Version)
	if err != nil || changed.Enabled || !changed.Expires.IsZero() || changed.Scopes[0] != "read" || changed.Secret != "" {
		t.Errorf("got %+v, %v", changed, err)
	}
	if _, err := a.PatchToken(ctx, "shop", admin.TokenPatch{Enabled: &no}, made.Version); !errors.Is(err, client.ErrPreconditionFailed) {
		t.Errorf("got %v", err)
	}
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
	if err := a.DeleteToken(ctx, "shop", changed.Version); err != nil {
		t.Error(err)
	}
	if _, err := a.Token(ctx, "shop"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

// IDs of every kind pass: plugins show them as they like, and what they say is read back.
func TestIDs(t *testing.T) {
	t.Parallel()
	n := node.StartReady(t, t.TempDir(), `SEQD_BIZTYPES=[{"name":"order"},{"name":"user","strategy":"snowflake"},`+
		`{"name":"note","plugins":[{"name":"format","template":"N-{date:2006}-{seq:08}"}]},{"name":"invite","plugins":[{"name":"obfuscate","digits":8,"key":"00112233445566778899aabbccddeeff"}]}]`)
	c := dial(t, client.Config{}, n)
	ctx := context.Background()
	for _, name := range []string{"order", "user", "note", "invite"} {
		ids, err := c.NextN(ctx, name, 5000)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		text, err := c.AppendText(ctx, nil, name, 5000)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		ids = append(ids, strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")...)
		one, err := c.Next(ctx, name, client.IdempotencyKey(client.NewIdempotencyKey()))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		ids = append(ids, one)
		last := int64(-1)
		for i, id := range ids {
			if i%1000 != 0 && i != len(ids)-1 {
				continue
			}
			p, err := c.Parse(ctx, name, id)
			if err != nil || !p.Valid || p.Number <= last {
				t.Fatalf("%s: %q after %d: got %+v, %v", name, id, last, p, err)
			}
			last = p.Number
		}
		slices.Sort(ids)
		if len(slices.Compact(ids)) != 10_001 {
			t.Errorf("%s: an ID twice", name)
		}
	}
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
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range list {
			names = append(names, b.Name)
		}
		if after = next; after == "" {
			return strings.Join(names, " ")
		}
	}
}
