package remote_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/seqd/seqd/command"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server"
	"github.com/seqd/seqd/server/access"
	_ "github.com/seqd/seqd/standard"
)

// serving runs the service itself in this process, and returns command lines for it.
func serving(t *testing.T, config string) line {
	t.Helper()
	file := filepath.Join(t.TempDir(), "seqd.yaml")
	must.Do(t, os.WriteFile(file, []byte(config), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	listening, ended := make(chan string, 1), make(chan int, 1)
	onListen := server.WithOnListen(func(addr net.Addr) { listening <- addr.String() })
	args := []string{"serve", "--config", file, "--server.addr", "127.0.0.1:0", "--log.level", "error"}
	go func() {
		ended <- command.Run(ctx, args, io.Discard, os.Stderr, command.WithServer(onListen), command.WithEnv(nil))
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	select {
	case addr := <-listening:
		return line{t: t, env: []string{"SEQD_CLIENT_ADDR=http://" + addr}}
	case code := <-ended:
		ended <- code
		t.Fatalf("the service ended with %d", code)
		return line{}
	}
}

// until repeats a command line while the service starts.
func (l line) until(args ...string) outcome {
	l.t.Helper()
	for {
		got := l.run(args...)
		if !strings.HasPrefix(got.errs, "seqd: starting: ") || l.t.Context().Err() != nil {
			return got
		}
	}
}

// A session at a terminal: the commands do what they say in the service itself.
func TestAgainstTheService(t *testing.T) {
	l := serving(t, "store: {driver: memory}\nbizTypes: [{name: order, start: 100, step: 1000}, {name: user, strategy: snowflake}]\n")
	if got := l.until("next", "order"); got != (outcome{0, "100\n", ""}) {
		t.Fatalf("%+v", got)
	}
	l.want("101\n102\n103\n", "next", "order", "-n", "3")
	got := l.run("next", "order", "-n", "25000")
	for i, id := range strings.Fields(got.out) {
		if id != strconv.Itoa(104+i) {
			t.Fatalf("number %d is %s", i, id)
		}
	}
	first := l.run("next", "order", "--idempotency-key", "k", "-n", "2")
	if again := l.run("next", "order", "--idempotency-key", "k", "-n", "2"); again != first || first.code != 0 {
		t.Errorf("%+v, and then %+v", first, again)
	}
	l.want("biz type    order\nID          105\nnumber      105\nvalid       true\n", "parse", "order", "105")
	l.wantError(1, `unknown_biz_type: no biz type is called "ordre"; seqd biz-types list shows what there is`, "next", "ordre")
	l.wantError(1, "invalid_id: ", "parse", "order", "x")

	l.in = "start: 1000\nstep: 500\n"
	l.want("refund: the definition is good; nothing was changed; IDs look like 1000\n", "biz-types", "put", "refund", "--dry-run")
	l.want("refund: version 1, enabled\n", "biz-types", "put", "refund", "--create")
	l.wantError(1, "precondition_failed: the biz type exists", "biz-types", "put", "refund", "--create")
	l.wantError(1, "somebody else changed it first", "biz-types", "put", "refund", "--if-match", "2")
	l.want("1000\n", "next", "refund")
	l.want("refund: version 2, enabled\n", "biz-types", "patch", "refund", "--set", "step=700", "--if-match", "1")
	shown := l.run("biz-types", "get", "refund")
	if _, yaml, _ := strings.Cut(shown.out, "\n"); yaml != "start: 1000\nstep: 700\n" {
		t.Errorf("%+v", shown)
	}
	l.in = shown.out // what get shows is what put takes
	l.want("refund: the definition is good; nothing was changed; IDs look like 1000\n", "biz-types", "put", "refund", "--dry-run")
	got = l.run("biz-types", "patch", "refund", "--set", "step=0", "--set", "maxStep=-1")
	if got.code != 1 || !strings.HasPrefix(got.errs, "seqd: invalid_definition:\n") || !strings.Contains(got.errs, "\n  step: ") || !strings.Contains(got.errs, "\n  maxStep: ") {
		t.Errorf("%+v", got)
	}
	l.wantError(1, "conflict: ", "biz-types", "patch", "refund", "--set", "strategy=snowflake", "--set", "start=null", "--set", "step=null")
	l.want("refund: version 3, disabled\n", "biz-types", "disable", "refund")
	l.wantError(1, "seqd biz-types enable lets it issue again", "next", "refund")
	l.want("refund: version 4, enabled\n", "biz-types", "enable", "refund")
	l.want("refund: deleted\n", "biz-types", "delete", "refund", "--yes")
	l.wantError(1, "unknown_biz_type: ", "biz-types", "get", "refund")
	if got := l.run("biz-types", "list"); strings.Count(got.out, "\n") != 3 || !strings.Contains(got.out, "snowflake") {
		t.Errorf("%+v", got)
	}
	if got := l.run("biz-types", "list", "--match", "o*r"); strings.Count(got.out, "\n") != 2 || !strings.Contains(got.out, "order") {
		t.Errorf("%+v", got)
	}
	if got := l.run("__complete", "next", "o"); got.out != "order\n:4\n" {
		t.Errorf("completion: %+v", got)
	}
	if got := l.run("nodes"); strings.Count(got.out, "\n") != 2 || got.errs != "" {
		t.Errorf("%+v", got)
	}
	var page struct {
		Nodes []struct {
			State            string
			NumbersPerSecond *float64
			Backends         map[string]string
		}
		BizTypes []struct{ Name string }
	}
	if got := l.run("top", "--json", "--interval", "1s", "-n", "1"); json.Unmarshal([]byte(got.out), &page) != nil || len(page.Nodes) != 1 || page.Nodes[0].NumbersPerSecond == nil || page.Nodes[0].Backends["store"] != "ok" || len(page.BizTypes) != 1 {
		t.Errorf("%+v", got)
	}
}

// With tokens each command needs its scope.
func TestAgainstAServiceWithTokens(t *testing.T) {
	const secret = "seqd_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	var made struct{ Secret, Sha256 string }
	if err := json.Unmarshal([]byte(line{t: t}.run("token", "--json").out), &made); err != nil || len(made.Secret) != len(secret) {
		t.Fatalf("%v: %+v", err, made)
	}
	l := serving(t, "store: {driver: memory}\nbizTypes: [{name: order}]\nauth: {tokens: [{name: ops, sha256: \""+made.Sha256+"\", scopes: [admin]}]}\n")
	anybody := l
	l.env = append(l.env[:1:1], "SEQD_CLIENT_TOKEN="+made.Secret)
	if got := l.until("tokens", "list"); got.code != 0 || !strings.Contains(got.out, "ops") || strings.Contains(got.out, made.Sha256) {
		t.Fatalf("%+v", got)
	}
	anybody.wantError(1, "set SEQD_CLIENT_TOKEN to a token of the service", "next", "order")
	l.wantError(1, "forbidden: ", "next", "order")
	var till struct{ Secret string }
	must.Do(t, json.Unmarshal([]byte(l.run("tokens", "create", "till", "--scope", "issue:order", "--json").out), &till))
	caller := l
	caller.env = append(l.env[:1:1], "SEQD_CLIENT_TOKEN="+till.Secret)
	caller.want("1\n", "next", "order")
	caller.wantError(1, "forbidden: ", "biz-types", "list")
	if got := l.run("tokens", "change", "till", "--scope", "issue:order,read", "--expires", "24h", "--if-match", "1"); got.code != 0 || !strings.Contains(got.out, "scopes issue:order,read, expires 2") {
		t.Errorf("%+v", got)
	}
	if got := caller.run("biz-types", "list"); got.code != 0 {
		t.Errorf("%+v", got)
	}
	if got := l.run("tokens", "change", "till", "--disable"); got.code != 0 || !strings.HasPrefix(got.out, "till: disabled") {
		t.Errorf("%+v", got)
	}
	caller.wantError(1, "is wrong, expired or disabled", "next", "order")
	l.want("till: deleted\n", "tokens", "delete", "till", "--yes")
	l.wantError(1, "not_found: ", "tokens", "get", "till")
	l.wantError(1, "conflict: ", "tokens", "delete", "ops", "--yes")
}

// Who got a number, and who changed what.
func TestHistoryAndAuditAgainstTheService(t *testing.T) {
	l := serving(t, "store: {driver: memory}\nbizTypes: [{name: order, start: 100, plugins: [{name: history, flushInterval: 1ms}]}]\n"+
		"auth: {tokens: [{name: ops, sha256: \""+access.DigestOf("ops-secret").Hex()+"\", scopes: [admin, read, \"issue:*\"]}]}\n")
	l.env = append(l.env, "SEQD_CLIENT_TOKEN=ops-secret")
	if got := l.until("next", "order", "-n", "3"); got.out != "100\n101\n102\n" {
		t.Fatalf("%+v", got)
	}
	await.True(t, "the history shows the record", func() bool {
		return strings.Contains(l.run("history", "show", "order", "--id", "101").out, "100 to 102")
	})
	if got := l.run("biz-types", "disable", "order"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	for args, want := range map[string]string{
		"history show order --caller ops --csv":                   ",,100,102,3,,,ops,127.0.0.1,",
		"history show order --id 101 --json":                      `"first":"100"`,
		"audit --target order":                                    "/biz-types/order/disable",
		"audit --caller ops --csv":                                ",ops,127.0.0.1,POST,/biz-types/order/disable,,order,200,",
		"audit --from 2020-01-01T00:00:00Z --json --target order": `"status":200`,
		"audit --biz-type order --action POST --json":             `"path":"/biz-types/order/disable"`,
	} {
		if strings.HasPrefix(args, "audit") {
			await.True(t, args, func() bool { return strings.Contains(l.run(strings.Fields(args)...).out, want) })
		} else if got := l.run(strings.Fields(args)...); !strings.Contains(got.out, want) {
			t.Errorf("%s: %+v", args, got)
		}
	}
	for args, want := range map[string]string{
		"history purge --yes": "say which records", "history purge --before x --yes": "is not a time", "history purge --biz-type= --yes": "--biz-type is empty",
	} {
		l.wantError(78, want, strings.Fields(args)...)
	}
	l.want("BIZ TYPE  REMOVED\norder     0\n", "history", "purge", "--caller", "nobody", "--yes")
	l.want("BIZ TYPE  REMOVED\norder     1\n", "history", "purge", "--biz-type", "order", "--yes")
	l.want("AT  KEY  NUMBERS  COUNT  SHOWN AS  CALLER  ADDRESS  REQUEST ID\n", "history", "show", "order", "--id", "103")
	for args, want := range map[string]string{
		"history show order --id=": "--id is empty", "history show order --csv --json": "only one of", "audit --csv --json": "only one of",
		"history show order --from x": "is not a time", "audit --from 2026-01-01T00:00:00Z --to 2026-01-01T00:00:00Z": "is not before",
	} {
		l.wantError(78, want, strings.Fields(args)...)
	}
}

// Each node that --addr names removes what is in its own files, and the command says that there are
// others.
func TestPurgeFiles(t *testing.T) {
	const config = "store: {driver: memory}\nbizTypeFolder: FOLDER\nbizTypes: [{name: order, plugins: [{name: history, to: file, flushInterval: 1ms, file: {path: FOLDER/order.jsonl}}]}]\n"
	a, b := serving(t, strings.ReplaceAll(config, "FOLDER", t.TempDir())), serving(t, strings.ReplaceAll(config, "FOLDER", t.TempDir()))
	for _, l := range []line{a, b} {
		if got := l.until("next", "order"); got.code != 0 {
			t.Fatalf("%+v", got)
		}
		await.True(t, "the history shows the record", func() bool { return strings.Contains(l.run("history", "show", "order", "--id", "1").out, "127.0.0.1") })
	}
	addr := strings.TrimPrefix(a.env[0], "SEQD_CLIENT_ADDR=") + "," + strings.TrimPrefix(b.env[0], "SEQD_CLIENT_ADDR=")
	a.want("BIZ TYPE  REMOVED\norder     0\n", "history", "purge", "--before", "2020-01-01T00:00:00Z", "--yes", "--addr", addr)
	a.want("BIZ TYPE  REMOVED\norder     2\n", "history", "purge", "--biz-type", "order", "--yes", "--addr", addr)
}
