package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/seqd/seqd/client"
	"github.com/seqd/seqd/command/clitool"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/bolt"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/config"
	_ "github.com/seqd/seqd/standard"
)

// outcome is the output and the exit code of a run.
type outcome struct {
	code      int
	out, errs string
}

func runWith(t *testing.T, env []string, args ...string) outcome {
	t.Helper()
	var out, errs strings.Builder
	code := Run(t.Context(), args, &out, &errs, WithEnv(env))
	return outcome{code, out.String(), errs.String()}
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "seqd.yaml")
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

const good = "store: {driver: memory}\nbizTypes: [{name: order, start: 100}, {name: invite}]\n"

// A usage mistake exits with ExitConfig, and writes a message to the error output and nothing to
// the other.
func TestUsageMistakes(t *testing.T) {
	file, missing := write(t, good), filepath.Join(t.TempDir(), "missing.yaml")
	tests := []struct {
		name string
		env  []string
		args []string
		want string
	}{
		{"unknown command", nil, []string{"srve", "--config", file}, `no command "srve"; see seqd help; did you mean serve?`},
		{"unknown command after a flag", nil, []string{"--config", file, "doctr"}, `no command "doctr"; see seqd help; did you mean doctor?`},
		{"raise to less than nothing", nil, []string{"raise", "order", "-5", "--config", file}, "there is no flag -5, and numbers are not negative"},
		{"unknown command in capitals", nil, []string{"Serve"}, `no command "Serve"`},
		{"a file instead of a command", nil, []string{file}, "no command"},
		{"bad flag", nil, []string{"--colour", "blue"}, "-colour; see seqd help"},
		{"bad flag of a command", nil, []string{"check-config", "--colour=blue"}, "-colour"},
		{"bad flag of version", nil, []string{"version", "--colour=blue"}, "-colour"},
		{"bad flag of help", nil, []string{"help", "--colour=blue"}, "-colour"},
		{"a section as flag", nil, []string{"--server", "x"}, "-server"},
		{"a key in lower case as flag", nil, []string{"--server.maxcount", "5"}, "-server.maxcount"},
		{"flag without value", nil, []string{"--config"}, "needs an argument: --config; see seqd help"},
		{"key without value", nil, []string{"check-config", "--config", file, "--server.addr"}, "needs an argument: --server.addr; see seqd help check-config"},
		{"stray argument", nil, []string{"check-config", "--config", file, "order"}, `unexpected argument "order"`},
		{"stray argument of version", nil, []string{"version", "1"}, `unexpected argument "1"`},
		{"operand after flags", nil, []string{"--config", file, "--", "check-config"}, `unexpected argument "check-config"`},
		{"empty argument", nil, []string{""}, `unexpected argument ""`},
		{"missing file", nil, []string{"check-config", "--config", missing}, missing},
		{"missing file to serve", nil, []string{"--config", missing}, missing},
		{"a folder as file", nil, []string{"check-config", "--config", t.TempDir()}, "read configuration"},
		{"no file", nil, []string{"check-config"}, "bizTypes: there is none"},
		{"no file to serve", nil, []string{"serve"}, "bizTypes: there is none"},
		{"nothing at all", nil, nil, "bizTypes: there is none"},
		{"wrong file", nil, []string{"check-config", "--config", write(t, good+"log: {level: loud}\n")}, "log.level: "},
		{"wrong file to serve", nil, []string{"serve", "--config", write(t, good+"colour: blue\n")}, "colour: there is no such key"},
		{"wrong variable", []string{"SEQD_SERVER_MAXCOUNT=0"}, []string{"check-config", "--config", file}, "server.maxCount: 0"},
		{"unknown variable", []string{"SEQD_NOPE=1"}, []string{"check-config", "--config", file}, "environment variable SEQD_NOPE: "},
		{"unreadable variable", []string{"SEQD_SERVER_MAXCOUNT=x"}, []string{"check-config", "--config", file}, "environment variable SEQD_SERVER_MAXCOUNT: "},
		{"wrong flag", nil, []string{"check-config", "--config", file, "--segment.step=0"}, "segment.step: 0"},
		{"unreadable flag", nil, []string{"check-config", "--config", file, "--segment.step", "x"}, "flag --segment.step: "},
		{"empty flag", nil, []string{"check-config", "--config", file, "--server.addr="}, "server.addr: "},
		{"raise nothing", nil, []string{"raise", "--config", file}, "raise needs BIZTYPE and NUMBER"},
		{"counters of both", nil, []string{"counters", "--config", file, "--addr", "http://x"}, "--addr asks a service, and --config the store"},
		{"counters in two forms", nil, []string{"counters", "--csv", "--marks"}, "use only one of --csv, --marks and --json"},
		{"counters of nothing kept", nil, []string{"counters", "--config", file}, "keeps nothing"},
		{"raise all to nothing", nil, []string{"raise", "--all", "--config", file}, "--all needs --by"},
		{"raise all and one", nil, []string{"raise", "--all", "--by", "1", "order", "--config", file}, `unexpected argument "order"`},
		{"raise all of a file", nil, []string{"raise", "--all", "--file", "-", "--config", file}, "leave --by, --all and --stopped out"},
		{"raise to nothing", nil, []string{"raise", "order", "--config", file}, "raise needs BIZTYPE and NUMBER"},
		{"raise too much", nil, []string{"raise", "order", "5", "6", "--config", file}, `unexpected argument "6"`},
		{"raise to no number", nil, []string{"raise", "order", "1e6", "--config", file}, `"1e6" is not a whole number`},
		{"raise to 0", nil, []string{"raise", "order", "0", "--config", file}, "0 is outside 1 to 9007199254740991"},
		{"raise to 2^53", nil, []string{"raise", "--config", file, "order", "9007199254740992"}, "9007199254740992 is outside 1 to 9007199254740991"},
		{"raise below", nil, []string{"raise", "order", "-5", "--config", file}, "-5"},
		{"raise an unknown biz type", nil, []string{"raise", "ordre", "5", "--config", file}, `no biz type "ordre"`},
		{"raise in memory", nil, []string{"raise", "order", "5", "--config", file}, "store.driver: memory keeps nothing"},
		{"raise in no file", nil, []string{"raise", "order", "5", "--config", file, "--store.driver=bolt", "--store.bolt.path", missing}, missing},
		{"raise with a wrong file", nil, []string{"raise", "order", "5", "--config", missing}, missing},
		{"raise by nothing", nil, []string{"raise", "--by", "5", "--config", file}, "raise needs BIZTYPE"},
		{"raise by a gap, and to a number", nil, []string{"raise", "order", "7", "--by", "5", "--config", file}, `unexpected argument "7"`},
		{"raise by less than nothing", nil, []string{"raise", "order", "--by", "-5", "--config", file}, "--by -5 is below 0"},
		{"raise by text", nil, []string{"raise", "order", "--by", "x", "--config", file}, "--by"},
		{"raise what stands still, to nothing", nil, []string{"raise", "order", "5", "--stopped", "--config", file}, "--stopped needs --by"},
		{"raise by a gap and from a file", nil, []string{"raise", "--by", "5", "--file", file, "--config", file}, "leave --by, --all and --stopped out"},
		{"raise from a file, and to a number", nil, []string{"raise", "order", "5", "--file", file, "--config", file}, `unexpected argument "order"`},
		{"raise from no file", nil, []string{"raise", "--file", missing, "--config", file}, missing},
		{"raise from a file of something else", nil, []string{"raise", "--file", file, "--config", file}, file + ": nothing to raise: line 1 is not a counter and a number"},
		{"ask at any port", nil, []string{"healthcheck", "--config", file, "--server.addr", "127.0.0.1:0"}, "server.addr: port 0"},
		{"ask with a wrong file", nil, []string{"healthcheck", "--config", missing}, missing},
		{"ask somebody", nil, []string{"healthcheck", "order", "--config", file}, `unexpected argument "order"`},
		{"open address", nil, []string{"serve", "--config", file, "--server.addr", "0.0.0.0:0"}, "auth.mode"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := runWith(t, tt.env, tt.args...)
			must.Equal(t, got.code, ExitConfig, "the exit code")
			if !strings.HasPrefix(got.errs, "seqd: ") || !strings.Contains(got.errs, tt.want) || !strings.HasSuffix(got.errs, "\n") {
				t.Errorf("the message is %q; want one that begins with seqd: and contains %q", got.errs, tt.want)
			}
			must.Equal(t, got.out, "", "the output")
		})
	}
}

// Every command with --json prints JSON if it fails, also if its command line is not understood.
func TestFailureIsJSON(t *testing.T) {
	env := clitool.New(strings.NewReader(""), io.Discard, io.Discard, nil)
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		if cmd.Flags().Lookup("json") == nil && cmd.InheritedFlags().Lookup("json") == nil {
			return
		}
		for _, wrong := range [][]string{{"--json", "--colour"}, {"--colour", "--json"}} {
			args := append(strings.Fields(cmd.CommandPath())[1:], wrong...)
			var f failure
			got := runWith(t, nil, args...)
			if err := json.Unmarshal([]byte(got.out), &f); err != nil || got.code != ExitConfig || got.errs != "seqd: "+f.Error+"\n" {
				t.Errorf("%q: %+v", args, got)
			}
		}
	}
	walk(newLine(&program{}, env).root)
	wrong := write(t, good+"log: {level: loud}\nserver: {maxCount: 0}\n")
	var f failure
	got := runWith(t, nil, "check-config", "--json", "--config", wrong)
	if err := json.Unmarshal([]byte(got.out), &f); err != nil || len(f.Problems) != 2 || !slices.ContainsFunc(f.Problems, func(p client.Problem) bool { return p.Key == "log.level" && p.Text != "" }) {
		t.Errorf("%v: %+v", err, got)
	}
}

func TestVersion(t *testing.T) {
	want := "seqd v1.2.3 (" + runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH + ")\n"
	var out, errs strings.Builder
	code := Run(t.Context(), []string{"version"}, &out, &errs, WithEnv([]string{"SEQD_NOPE=1"}), WithVersion("v1.2.3", ""))
	must.Equal(t, outcome{code, out.String(), errs.String()}, outcome{ExitOK, want, ""}, "the outcome")
	must.Equal(t, runWith(t, nil, "--version"), runWith(t, nil, "version"), "seqd --version")
	// A test binary has no version.
	if got := runWith(t, nil, "version"); got.code != ExitOK || strings.HasPrefix(got.out, "seqd  (") || !strings.HasPrefix(got.out, "seqd ") {
		t.Errorf("got %+v, want a line with a placeholder for the version", got)
	}
}

// The output of seqd token contains a configuration, and its token is the hash of the secret.
func TestToken(t *testing.T) {
	got := runWith(t, []string{"SEQD_NOPE=1"}, "token")
	if got.code != ExitOK || got.errs != "" {
		t.Fatalf("got %+v", got)
	}
	at := strings.Index(got.out, "auth:")
	if at < 0 {
		t.Fatalf("there is no configuration in %q", got.out)
	}
	cfg := must.Get(config.LoadYAML([]byte(good+got.out[at:]), config.Sources{}))(t)
	secret := regexp.MustCompile(`seqd_[A-Za-z0-9_-]{43}`).FindString(got.out)
	if len(cfg.Auth.Tokens) != 1 || cfg.Auth.Tokens[0].Secrets[0].Sha256 != access.DigestOf(secret) || strings.Contains(got.out[at:], secret) {
		t.Errorf("printed %s", got.out)
	}
	if again := runWith(t, nil, "token"); again.out == got.out {
		t.Error("the second secret is the same")
	}
}

func TestCheckConfig(t *testing.T) {
	file := write(t, good)
	tests := []struct {
		name string
		env  []string
		args []string
		want []string
	}{
		{"file", nil, []string{"--config", file}, []string{"good", "2 biz types", "store memory", "address 127.0.0.1:8080"}},
		{"one dash", nil, []string{"-config=" + file, "-store.driver=bolt"}, []string{"store bolt"}},
		{"variables", []string{"SEQD_STORE_DRIVER=bolt", "SEQD_SERVER_ADDR=[::1]:9", "SEQD_TEST_X=1"}, []string{"--config", file}, []string{"store bolt", "address [::1]:9"}},
		{"flags over variables", []string{"SEQD_STORE_DRIVER=bolt", "SEQD_SERVER_ADDR=[::1]:9"}, []string{"--config", file, "--server.addr", "localhost:7"}, []string{"store bolt", "address localhost:7"}},
		{"the last of two flags", nil, []string{"--config", file, "--server.addr", "localhost:7", "--server.addr=localhost:8"}, []string{"address localhost:8"}},
		{"no file, all in variables", []string{`SEQD_BIZTYPES=[{"name": "a"}]`}, nil, []string{"1 biz types", "store bolt"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			got := runWith(t, tt.env, append([]string{"check-config"}, tt.args...)...)
			if got.code != ExitOK || got.errs != "" {
				t.Errorf("exit code %d, errors %q; want 0 and none", got.code, got.errs)
			}
			for _, part := range tt.want {
				if !strings.Contains(got.out, part) {
					t.Errorf("the output is %q and does not contain %q", got.out, part)
				}
			}
			// Checking must not create the data file.
			if made, err := os.ReadDir("."); err != nil || len(made) > 0 {
				t.Errorf("checking left %v behind (%v)", made, err)
			}
		})
	}
}

func TestRaise(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seqd.db")
	file := write(t, "store: {bolt: {path: "+path+", lockTimeout: 50ms}}\nbizTypes: [{name: order}, {name: invite}]\n")
	store := must.Get(bolt.Open(bolt.Options{Path: path, LockTimeout: time.Second, Now: time.Now}))(t)
	must.Do(t, store.Counters().Create(t.Context(), persist.Counter{BizTag: "order", Max: 5000, Step: 10}))
	got := runWith(t, nil, "raise", "order", "1000000", "--config", file)
	if got.code != ExitFailed || !strings.Contains(got.errs, "another process") || !strings.Contains(got.errs, path) {
		t.Errorf("while the file is in use: %+v", got)
	}
	must.Do(t, store.Close())
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"raise", "order", "1000000", "--config", file}, "order: 5000 → 1000000\n"},
		{[]string{"raise", "--config", file, "order", "1000000"}, "order: nothing changed, it is at 1000000 already\n"},
		{[]string{"raise", "order", "--config", file, "7"}, "order: nothing changed, it is at 1000000 already\n"},
		{[]string{"raise", "invite", "30", "--config", file}, "invite: no counter → 30: the store had none, and has one now\n"},
	} {
		must.Equal(t, runWith(t, nil, test.args...), outcome{ExitOK, test.want, ""}, "%q", test.args)
	}
}

// Many counters are raised by one command, from a file or by a gap.
func TestRaiseMany(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seqd.db")
	file := write(t, "store: {bolt: {path: "+path+"}}\nbizTypes: [{name: order}, {name: tenant, keyed: true}]\n")
	store, err := bolt.Open(bolt.Options{Path: path, LockTimeout: time.Second, Now: time.Now})
	must.Do(t, errors.Join(err, store.Counters().Create(t.Context(), persist.Counter{BizTag: "tenant/b", Max: 50, Step: 10}), store.Close()))
	marks := write(t, "# highest numbers\ntenant/a,10\ntenant/b,20\ntenant/b@2026,5\n")
	at := []string{"--config", file}
	if got := runWith(t, nil, append([]string{"raise", "--file", marks}, at...)...); got.code != ExitConfig || got.out != "" || !strings.Contains(got.errs, "the numbers of tenant never reset") {
		t.Errorf("a file with a wrong line: %+v", got)
	}
	marks = write(t, "# highest numbers\ntenant/a,10\ntenant/b,20\n")
	for _, test := range []struct {
		args []string
		want []string // the lines, in any order but the last
	}{
		{[]string{"--file", marks}, []string{"tenant/a: no counter → 10: the store had none, and has one now", "tenant/b: nothing changed, it is at 50 already", "1 counters were raised, 1 were high enough"}},
		{[]string{"--file", marks}, []string{"tenant/a: nothing changed, it is at 10 already", "tenant/b: nothing changed, it is at 50 already", "0 counters were raised, 2 were high enough"}},
		{[]string{"tenant", "--by", "1000"}, []string{"tenant/a: 10 → 1010", "tenant/b: 50 → 1050", "2 counters were raised, 0 were high enough"}},
		{[]string{"tenant", "--by=0"}, []string{"tenant/a: nothing changed, it is at 1010 already", "tenant/b: nothing changed, it is at 1050 already", "0 counters were raised, 2 were high enough"}},
	} {
		got := runWith(t, nil, append(append([]string{"raise"}, test.args...), at...)...)
		lines := strings.Split(strings.TrimSuffix(got.out, "\n"), "\n")
		last := len(lines) - 1
		slices.Sort(lines[:last])
		if got.code != ExitOK || got.errs != "" || !slices.Equal(lines, test.want) {
			t.Errorf("%q: %+v, want %q", test.args, got, test.want)
		}
	}
}

func TestRestored(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seqd.db")
	file := write(t, "store: {bolt: {path: "+path+", lockTimeout: 50ms}}\nbizTypes: [{name: order}, {name: user, strategy: snowflake}]\n")
	if got := runWith(t, nil, "restored", "--config", file); got.code != ExitConfig || !strings.Contains(got.errs, path) {
		t.Errorf("without a store: %+v", got)
	}
	store := must.Get(bolt.Open(bolt.Options{Path: path, LockTimeout: time.Second, Now: time.Now}))(t)
	must.Do(t, store.Close())
	for range 2 { // it is safe to repeat
		const want = "user: leases that are granted from now on begin at 20"
		if got := runWith(t, nil, "restored", "--config", file); got.code != ExitOK || !strings.HasPrefix(got.out, want) || got.errs != "" {
			t.Errorf("%+v, want %q", got, want)
		}
	}
	if got := runWith(t, nil, "raise", "user", "5", "--config", file); got.code != ExitConfig || !strings.Contains(got.errs, "seqd restored") {
		t.Errorf("raise without a counter: %+v", got)
	}
	none := write(t, "store: {bolt: {path: "+path+"}}\n"+`bizTypes: [{name: order}]`)
	if got := runWith(t, nil, "restored", "--shut-tokens", "--fail-jobs", "--config", none); !strings.Contains(got.out, "no biz type leases") || !strings.Contains(got.out, "no token of the store is enabled") ||
		!strings.Contains(got.out, "all jobs of the store have ended") {
		t.Errorf("without leases, tokens and jobs: %+v", got)
	}
	lines := `{"time":"2026-11-20T10:00:00Z","msg":"audit","method":"DELETE","path":"/biz-types/old","target":"old","status":204,"version":3}` + "\n"
	if got := runWith(t, nil, "doctor", "--log", write(t, lines), "--config", none); !strings.Contains(got.out, "old: the log has DELETE /biz-types/old at 2026-11-20T10:00:00Z") {
		t.Errorf("%+v", got)
	}
	if got := runWith(t, nil, "doctor", "--log", path+"-none", "--config", none); got.code != ExitConfig {
		t.Errorf("without the log: %+v", got)
	}
}

// An operator whose Redis is lost, or is not used any more, can repair the store nevertheless.
func TestRepairWithoutTheRedisOfDefinitions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seqd.db")
	file := write(t, "store: {bolt: {path: "+path+", lockTimeout: 50ms}}\nbizTypesFrom: store\n")
	store := must.Get(bolt.Open(bolt.Options{Path: path, LockTimeout: time.Second, Now: time.Now}))(t)
	for name, body := range map[string]string{
		"gone":  `{"definition":{"strategy":"snowflake","registry":"redis"},"enabled":true,"deleted":true}`,
		"user":  `{"definition":{"strategy":"snowflake"},"enabled":true}`,
		"order": `{"definition":{"plugins":[{"name":"rate-limit","scope":"cluster","rate":5}]},"enabled":true}`,
	} {
		must.Do(t, store.Documents().Create(t.Context(), persist.Document{Kind: "definition", Key: name, Revision: 1, Body: body}))
	}
	must.Do(t, store.Counters().Create(t.Context(), persist.Counter{BizTag: "order", Max: 5, Step: 10}))
	must.Do(t, store.Close())
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"raise", "--dry-run"}, "order: at 5, would stay there"},
		{[]string{"raise", "order", "7"}, "order: 5 → 7"},
		{[]string{"restored"}, "gone: it was deleted, and this did nothing for it"},
		{[]string{"restored"}, "user: leases that are granted from now on begin at 20"},
	} {
		if got := runWith(t, nil, append(test.args, "--config", file)...); got.code != ExitOK || !strings.Contains(got.out, test.want) {
			t.Errorf("%q: %+v, want %q", test.args, got, test.want)
		}
	}
}

func TestServeOnAPortInUse(t *testing.T) {
	taken := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer taken.Close()
	got := runWith(t, nil, "serve", "--config", write(t, good), "--server.addr", taken.Addr().String(), "--log.level=error")
	if got.code != ExitFailed || !strings.HasPrefix(got.errs, "seqd: server.addr: ") {
		t.Errorf("exit code %d, errors %q; want %d and a message that names server.addr", got.code, got.errs, ExitFailed)
	}
}

// A service ends, with the code of a failure, even if nobody reads its error output.
func TestErrorOutputIsNotRead(t *testing.T) {
	taken := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer taken.Close()
	r, w := io.Pipe() // blocks writers until it is read
	defer r.Close()
	args := []string{"serve", "--config", write(t, good), "--server.addr", taken.Addr().String()}
	must.Equal(t, Run(t.Context(), args, io.Discard, w, WithEnv(nil)), ExitFailed, "the exit code")
}

func TestServeWithABrokenDataFile(t *testing.T) {
	path := write(t, strings.Repeat("this is no data file ", 1000))
	got := runWith(t, nil, "serve", "--config", write(t, good), "--server.addr=127.0.0.1:0", "--store.driver=bolt", "--store.bolt.path", path, "--log.level=error")
	if got.code != ExitFailed || !strings.Contains(got.errs, path) {
		t.Errorf("exit code %d, errors %q; want %d and a message that names %s", got.code, got.errs, ExitFailed, path)
	}
}

// serve works by name and by default: the port opens, numbers are issued, and the end of the
// context, as after a signal, ends it with 0.
func TestServe(t *testing.T) {
	for name, command := range map[string][]string{"by name": {"serve"}, "by default": nil} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			errs := logPipe(t)
			ended := make(chan int, 1)
			args := append(command, "--config", write(t, good), "--server.addr", "127.0.0.1:0")
			go func() {
				ended <- Run(ctx, args, io.Discard, errs.w, WithEnv(nil))
				errs.w.Close()
			}()
			addr := errs.address(t)
			url := "http://" + addr + "/seq/order"
			must.Equal(t, get(t, url), `{"bizType":"order","id":"100"}`, "the first number is")
			asked := outcome{ExitOK, "http://" + addr + " is alive, ready\n", ""}
			await.Eventually(t, "the other biz type is open", func() error {
				got := runWith(t, []string{"SEQD_SERVER_ADDR=" + addr}, "healthcheck", "--config", args[len(command)+1])
				if got != asked {
					return fmt.Errorf("asked, it says %+v, want %+v", got, asked)
				}
				return nil
			})
			cancel()
			must.Equal(t, <-ended, ExitOK, "the exit code")
		})
	}
}

// Without a node the exit code is 1, and neither the store nor its folder is created.
func TestHealthcheckWithoutANode(t *testing.T) {
	taken := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	taken.Close()
	folder := filepath.Join(t.TempDir(), "data")
	got := runWith(t, nil, "healthcheck", "--config", write(t, good), "--server.addr", taken.Addr().String(), "--store.driver=bolt", "--store.bolt.path", filepath.Join(folder, "seqd.db"))
	if got.code != ExitFailed || got.out != "" || !strings.HasPrefix(got.errs, "seqd: not alive: http://"+taken.Addr().String()+": ") {
		t.Errorf("got %+v, want %d and a message that names the address", got, ExitFailed)
	}
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("the folder of the store was created: %v", err)
	}
}

// A signal before the port is open is an ordinary stop.
func TestStopBeforeStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var errs strings.Builder
	args := []string{"serve", "--config", write(t, good), "--server.addr=127.0.0.1:0", "--log.level=error"}
	must.Equal(t, Run(ctx, args, io.Discard, &errs, WithEnv(nil)), ExitOK, "the exit code after %q", errs.String())
}

// get repeats a request until the answer is not "starting": the port opens before the store does.
func get(t *testing.T, url string) string {
	t.Helper()
	var body []byte
	await.Eventually(t, "the service has started", func() error {
		answer, err := http.Get(url)
		must.Do(t, err)
		defer answer.Body.Close()
		if body, err = io.ReadAll(answer.Body); err != nil {
			t.Fatal(err)
		}
		if answer.StatusCode == http.StatusServiceUnavailable {
			return fmt.Errorf("it answers %s", body)
		}
		return nil
	})
	return strings.TrimSuffix(string(body), "\n")
}

// logs reads the log of a running program.
type logs struct {
	r, w *os.File
}

// logPipe redirects the error output of this process, which gets the log.
func logPipe(t *testing.T) logs {
	t.Helper()
	r, w, err := os.Pipe()
	must.Do(t, err)
	before := os.Stderr
	os.Stderr = w
	t.Cleanup(func() {
		os.Stderr = before
		r.Close()
	})
	return logs{r, w}
}

// address reads the log up to the line with the address, and discards the rest.
func (l logs) address(t *testing.T) string {
	t.Helper()
	lines := bufio.NewScanner(l.r)
	for lines.Scan() {
		var line struct{ Msg, Addr string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "listening" {
			go func() { _, _ = io.Copy(io.Discard, l.r) }()
			return line.Addr
		}
	}
	t.Fatalf("the log ended without the address: %v", lines.Err())
	return ""
}

// The doctor exits with 1 only if something keeps seqd from working.
func TestDoctor(t *testing.T) {
	got := runWith(t, nil, "doctor", "--config", write(t, good), "--server.addr", "127.0.0.1:0")
	if got.code != ExitOK || got.errs != "" || !strings.Contains(got.out, "warn  store.driver: memory") || !strings.HasSuffix(got.out, "nothing was changed\n") {
		t.Errorf("%+v", got)
	}
	got = runWith(t, nil, "doctor", "--config", write(t, good), "--server.addr", "127.0.0.1:0", "--redis.addrs", "127.0.0.1:1")
	if got.code != ExitFailed || !strings.Contains(got.out, "FAIL  redis 127.0.0.1:1: ") {
		t.Errorf("%+v", got)
	}
	got = runWith(t, nil, "doctor", "--config", write(t, good), "--server.addr", "127.0.0.1:0", "--json")
	var report struct {
		Failed   bool
		Sections []struct {
			Name     string
			Findings []struct{ Level, Subject, Found, Change string }
		}
	}
	if err := json.Unmarshal([]byte(got.out), &report); err != nil || got.code != ExitOK || report.Failed {
		t.Fatalf("%v: %+v", err, got)
	}
	if len(report.Sections) < 3 || !strings.Contains(got.out, `"level": "warn"`) {
		t.Errorf("%s", got.out)
	}
}

// Flags stand before, between and after commands and operands, with one dash or two. Commands that
// read no configuration take its flags all the same.
func TestPlacesOfFlags(t *testing.T) {
	file := write(t, good)
	want := runWith(t, nil, "check-config", "--config", file)
	if want.code != ExitOK {
		t.Fatalf("%+v", want)
	}
	for _, args := range [][]string{
		{"--config", file, "check-config"}, {"-config=" + file, "check-config"}, {"check-config", "-config", file},
		{"-store.driver", "memory", "check-config", "--config", file}, {"check-config", "--config=" + file, "--"},
	} {
		must.Equal(t, runWith(t, nil, args...), want, "%q", args)
	}
	for _, command := range []string{"version", "token"} {
		if got := runWith(t, nil, command, "--config", "missing.yaml", "--server.addr", "x"); got.code != ExitOK || got.errs != "" {
			t.Errorf("%s: %+v", command, got)
		}
		if got := runWith(t, nil, "help", command); strings.Contains(got.out, "--config") {
			t.Errorf("the help of %s names --config", command)
		}
	}
	// After -- everything is an operand.
	if got := runWith(t, nil, "raise", "--config", file, "--", "order", "-5"); got.code != ExitConfig || !strings.Contains(got.errs, "-5 is outside 1 to") {
		t.Errorf("%+v", got)
	}
}
