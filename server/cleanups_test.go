package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist/bolt"
	"github.com/seqd/seqd/server/config"
	_ "github.com/seqd/seqd/standard"
)

// Clean-ups run in reverse order, each once, even after one that fails. Their errors name them.
func TestCleanupsRunInReverse(t *testing.T) {
	var c cleanups
	var ran []string
	failure := errors.New("broken")
	c.add("first", time.Second, func(context.Context) error { ran = append(ran, "first"); return nil })
	c.add("second", time.Second, func(context.Context) error { ran = append(ran, "second"); return failure })
	c.add("third", time.Second, func(context.Context) error { ran = append(ran, "third"); return nil })
	err := c.run()
	if want := []string{"third", "second", "first"}; !slices.Equal(ran, want) {
		t.Errorf("ran %q, want %q", ran, want)
	}
	if !errors.Is(err, failure) || err.Error() != "close second: broken" {
		t.Errorf("error %v", err)
	}
	if err := c.run(); err != nil || len(ran) != 3 {
		t.Errorf("the second time: %v, ran %q", err, ran)
	}
}

// A clean-up that hangs is abandoned after its time, and the others still run.
func TestCleanupThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c cleanups
		closed, release := false, make(chan struct{})
		c.add("the store", time.Second, func(context.Context) error { closed = true; return nil })
		c.add("Redis", 3*time.Second, func(context.Context) error { <-release; return nil })
		began := time.Now()
		err := c.run()
		close(release)
		if took := time.Since(began); took < 3*time.Second || took > 4*time.Second {
			t.Errorf("it took %s", took)
		}
		if !closed || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "Redis did not close within 3s") {
			t.Errorf("closed %t, %v", closed, err)
		}
	})
}

// If a start fails after the store is open, the store is closed and its file can be opened again.
// Stop always returns the same error.
func TestStartThatFailsHalfWay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seqd.db")
	text := fmt.Sprintf("server: {addr: '127.0.0.1:0'}\nlog: {level: error}\nstore: {bolt: {path: %s}}\nbizTypes: [{name: order}]", path)
	cfg := must.Get(config.LoadYAML([]byte(text), config.Sources{}))(t)
	missing := filepath.Join(t.TempDir(), "missing.pem")
	cfg.Redis.Addrs, cfg.Redis.TLS = []string{"127.0.0.1:1"}, config.ClientTLS{Enabled: true, CAFile: missing}
	s := New(cfg)
	if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), missing) {
		t.Fatalf("the start returned %v", err)
	}
	for range 2 {
		must.Report(t, s.Stop())
	}
	store := must.Get(bolt.Open(bolt.Options{Path: path, LockTimeout: time.Second, Now: time.Now}))(t)
	must.Report(t, store.Close())
}

// A stop ends a start that is under way, waits for it, and closes what it opened.
func TestStopWhileItStarts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seqd.db")
	text := fmt.Sprintf("server: {addr: '127.0.0.1:0'}\nlog: {level: error}\nstore: {bolt: {path: %s}}\nbizTypes: [{name: order}]", path)
	cfg := must.Get(config.LoadYAML([]byte(text), config.Sources{}))(t)
	for range 20 {
		listens, started := make(chan struct{}), make(chan error, 1)
		s := New(cfg, WithOnListen(func(net.Addr) { close(listens) }))
		go func() { started <- s.Start(t.Context()) }()
		<-listens
		must.Report(t, s.Stop())
		<-started
		store := must.Get(bolt.Open(bolt.Options{Path: path, LockTimeout: time.Second, Now: time.Now}))(t)
		must.Report(t, store.Close())
	}
	s := New(cfg)
	must.Report(t, s.Stop())
	if err := s.Start(t.Context()); err == nil {
		t.Error("it started after it was stopped")
	}
}
