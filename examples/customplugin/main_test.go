package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seqd/seqd/command"
	"github.com/seqd/seqd/server"
)

// beCustom is set where the test program is to be the example itself.
const beCustom = "BE_CUSTOMPLUGIN"

func TestMain(m *testing.M) {
	if os.Getenv(beCustom) != "" {
		main()
	}
	os.Exit(m.Run())
}

// start serves with the file that is shown to users, and returns where it answers.
func start(t *testing.T, flags ...string) (addr string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	listening, ended := make(chan string, 1), make(chan int, 1)
	t.Setenv("SEQD_STORE_DRIVER", "none") // of whoever runs the test: their store must not be used
	args := append([]string{"serve", "--config", "seqd.yaml", "--server.addr", "127.0.0.1:0"}, flags...)
	onListen := server.WithOnListen(func(addr net.Addr) { listening <- addr.String() })
	go func() {
		ended <- command.Run(ctx, args, io.Discard, os.Stderr, command.WithServer(onListen), command.WithEnv(nil))
	}()
	stop = func() {
		cancel()
		if code := <-ended; code != command.ExitOK {
			t.Errorf("the service ended with %d", code)
		}
		ended <- command.ExitOK // for a second stop
	}
	select {
	case addr = <-listening:
		t.Cleanup(stop)
		return addr, stop
	case code := <-ended:
		cancel()
		t.Fatalf("the service ended with %d", code)
		return "", nil
	}
}

// do runs the program itself with a sub-command.
func do(t *testing.T, args ...string) (output string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = []string{beCustom + "=1"} // without SEQD_… of whoever runs the test
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%q: %v: %s", args, err, text)
	}
	return string(text)
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
	addr, _ := start(t)
	url := "http://" + addr
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

// Every sub-command knows what is the program's own.
func TestSubCommands(t *testing.T) {
	on := []string{"--config", "seqd.yaml", "--store.driver", "bolt", "--store.bolt.path", filepath.Join(t.TempDir(), "seqd.db")}
	says := func(want string, args ...string) {
		t.Helper()
		if got := do(t, append(args, on...)...); !strings.Contains(got, want) {
			t.Errorf("%q says %q, want %q", args, got, want)
		}
	}
	issues := func(addr, want string) {
		t.Helper()
		if _, body := get(t, "http://"+addr+"/seq/ticket"); !strings.Contains(body, want) {
			t.Errorf("got %s, want %s", body, want)
		}
	}
	says("the configuration is good: 2 biz types", "check-config")
	addr, stop := start(t, on[2:]...)
	issues(addr, "EU-100")
	says(addr+" is alive, ready", "healthcheck", "--server.addr", addr)
	stop()
	says("2 biz types issue as they did before", "doctor", "--server.addr", "127.0.0.1:0")
	says("ticket: 100 → 5000", "raise", "ticket", "5000")
	addr, _ = start(t, on[2:]...)
	issues(addr, "EU-5001")
}
