package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/server"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/strategy"
)

// start runs the program with the file that is shown to users, and returns where it answers.
func start(t *testing.T, file string) (url string) {
	t.Helper()
	t.Setenv("SEQD_SERVER_ADDR", "127.0.0.1:0")
	ctx, cancel := context.WithCancel(t.Context())
	listening, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{file}, server.WithOnListen(func(addr net.Addr) { listening <- "http://" + addr.String() }))
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case url = <-listening:
		return url
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
		return ""
	}
}

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	for {
		r, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r.Body)
		if err := errors.Join(err, r.Body.Close()); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), `"starting"`) {
			return r.StatusCode, string(text)
		}
	}
}

func TestExample(t *testing.T) {
	url := start(t, "seqd.yaml")
	for _, test := range []struct {
		path   string
		status int
		want   string
	}{
		{"/seq/ticket", 200, `{"bizType":"ticket","id":"EU-100"}`},
		{"/seq/ticket?count=3", 200, `{"bizType":"ticket","ids":["EU-101","EU-102","EU-103"]}`},
		{"/seq/ticket/parse/EU-102", 200, `{"bizType":"ticket","id":"EU-102","number":"102","valid":true}`},
		{"/seq/ticket/parse/US-102", 400, "the ID does not begin with EU-"},
		{"/seq/ticket?count=11", 400, "region EU gives at most 10 IDs at once"},
		{"/seq/order?count=11", 200, `"US-11"`},
		{"/seq/order?count=101", 400, "region US gives at most 100 IDs at once"},
	} {
		if status, body := get(t, url+test.path); status != test.status || !strings.Contains(body, test.want) {
			t.Errorf("%s: %d %s, want %d %s", test.path, status, body, test.status, test.want)
		}
	}
}

func TestWrongSettings(t *testing.T) {
	for yaml, want := range map[string]string{
		"bizTypes: [{name: a, plugins: [{name: region}]}]":                              `bizTypes[0].plugins[0].code: "" is not two capital letters`,
		"bizTypes: [{name: a, plugins: [{name: region, code: EU, maxBatch: 0}]}]":       "bizTypes[0].plugins[0].maxBatch: 0 is less than 1",
		"bizTypes: [{name: a, strategy: ticket, start: 0}]":                             "bizTypes[0].start: it is outside",
		"ticket: {rejected: [{name: shout, loud: true}]}\nbizTypes: [{name: a}]":        "ticket.rejected[0].loud: there is no such key",
		"bizTypes: [{name: a, plugins: [{name: regoin, code: EU}]}]":                    `"regoin" is not one of the plugins`,
		"bizTypes: [{name: a, plugins: [{name: region, code: EU, order: first}]}]":      "order",
		"bizTypes: [{name: a, rejected: [{name: shout}, {name: shriek}]}]":              `"shriek" is not one of the rejection handlers`,
		"bizTypes: [{name: a, strategy: tickets, plugins: [{name: region, code: EU}]}]": `"tickets" is not one of the strategies`,
	} {
		if _, err := config.LoadYAML([]byte(yaml), config.Sources{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", yaml, err, want)
		}
	}
	file := filepath.Join(t.TempDir(), "seqd.yaml")
	if err := os.WriteFile(file, []byte("bizTypes: x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), []string{file}); err == nil {
		t.Error("a wrong file is taken")
	}
	if err := run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "usage") {
		t.Error(err)
	}
}

func TestShout(t *testing.T) {
	var text strings.Builder
	(&shout{prefix: "!!!", w: &text}).Rejected(t.Context(), &seqd.Call{BizType: "order", Count: 3}, seqd.Errorf(seqd.CodeTimeout, "late"))
	if got, want := text.String(), "!!! order ×3: late\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A ticket goes on after a restart, and refuses where the counter was lost.
func TestTicket(t *testing.T) {
	store := memory.New(time.Now)
	factory, err := strategy.Lookup("ticket")
	if err != nil {
		t.Fatal(err)
	}
	open := func(fresh bool) (seqd.Strategy, error) {
		s, err := factory.New(strategy.Env{Store: store, Now: time.Now}, seqd.BizType{Name: "a", Settings: factory.Settings()})
		if err != nil {
			t.Fatal(err)
		}
		return s, s.Init(t.Context(), fresh)
	}
	if _, err := open(false); seqd.CodeOf(err) != seqd.CodeConflict {
		t.Errorf("a lost counter: %v", err)
	}
	for i, want := range []int64{1, 4} {
		s, err := open(i == 0)
		if err != nil {
			t.Fatal(err)
		}
		var seq seqd.Sequence
		if err := s.Generate(t.Context(), 3, &seq); err != nil || seq.First() != want {
			t.Errorf("got %d, %v, want %d", seq.First(), err, want)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.Generate(t.Context(), 1, &seq); seqd.CodeOf(err) != seqd.CodeStopping {
			t.Errorf("after Close: %v", err)
		}
	}
}
