package main

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy"
)

// A run continues where the previous one stopped.
func TestRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "embedded.db")
	for i, want := range []string{
		"order 1\norder 2\norder 3\ninvoice INV-1000\ninvoice INV-1001\n",
		"order 4\norder 5\norder 6\ninvoice INV-1002\ninvoice INV-1003\n",
	} {
		var out strings.Builder
		if err := run(t.Context(), &out, path); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Errorf("run %d prints\n%s, want\n%s", i+1, out.String(), want)
		}
	}
}

// An interrupted run stops cleanly: the next one gets the first numbers.
func TestInterrupted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "embedded.db")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out strings.Builder
	if err := run(ctx, &out, path); err == nil {
		t.Errorf("it printed %q", out.String())
	}
	if err := run(t.Context(), &out, path); err != nil || !strings.HasPrefix(out.String(), "order 1\n") {
		t.Errorf("after that it printed %q, %v", out.String(), err)
	}
}

// A biz type that is shown otherwise than before is refused, and one whose counter was lost.
func TestClaim(t *testing.T) {
	store := memory.New(time.Now)
	env := strategy.Env{Store: store, Now: time.Now, Log: slog.New(slog.DiscardHandler), Observer: seqd.NopObserver{}}
	next := func(plugins ...string) error {
		definition, err := define(env, "order", 1, plugins...)
		if err != nil {
			t.Fatal(err)
		}
		issuer, err := issuer.New([]issuer.Definition{definition}, issuer.Options{Log: env.Log})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = closeIssuer(issuer) }()
		_, err = issuer.Next(t.Context(), "order", 1)
		return err
	}
	for _, step := range []struct {
		plugins []string
		want    seqd.Code
	}{{nil, ""}, {[]string{"prefix(INV-)"}, seqd.CodeConflict}, {nil, ""}} {
		if err := next(step.plugins...); seqd.CodeOf(err) != step.want {
			t.Errorf("shown by %q: %v, want %q", step.plugins, err, step.want)
		}
	}
	if err := store.Counters().Delete(t.Context(), "order"); err != nil {
		t.Fatal(err)
	}
	if err := next(); seqd.CodeOf(err) != seqd.CodeConflict {
		t.Errorf("without its counter: %v", err)
	}
}
