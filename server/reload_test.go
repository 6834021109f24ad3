package server_test

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/testlog"
	"github.com/seqd/seqd/server"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/certificate/certificatetest"
	"github.com/seqd/seqd/server/config"
)

// reloading is a node whose file a test changes.
type reloading struct {
	*service
	client http.Client
	path   string
	asked  chan struct{}
	log    testlog.Text
}

// startReloading starts a node with a file, in which text is what a test changes.
func startReloading(t *testing.T, text string, opts ...server.Option) *reloading {
	t.Helper()
	r := &reloading{path: filepath.Join(t.TempDir(), "seqd.yaml"), asked: make(chan struct{})}
	r.write(t, text)
	load := func() (*config.Config, error) {
		flags := map[string]string{"server.addr": "127.0.0.1:0", "store.driver": "memory"}
		return config.Load(config.Sources{File: r.path, Flags: flags})
	}
	opts = append([]server.Option{server.WithLogger(nil), server.WithLogOutput(&r.log), server.WithReload(r.asked, load)}, opts...)
	r.service = start(t, must.Get(load())(t), opts...)
	return r
}

func (r *reloading) write(t *testing.T, text string) {
	t.Helper()
	must.Do(t, os.WriteFile(r.path, []byte("bizTypes: [{name: order}]\n"+text), 0o600))
}

// ask sends a request with a token.
func (r *reloading) ask(t *testing.T, secret, method, path, body string) (status int, answer string) {
	t.Helper()
	req := must.Get(http.NewRequest(method, r.url+path, strings.NewReader(body)))(t)
	req.Header.Set("Authorization", "Bearer "+secret)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp := must.Get(r.client.Do(req))(t)
	defer resp.Body.Close()
	return resp.StatusCode, string(must.Get(io.ReadAll(resp.Body))(t))
}

// wants asks as ops, and fails unless the answer has the status and contains parts.
func (r *reloading) wants(t *testing.T, method, path, body string, status int, parts ...string) {
	t.Helper()
	got, answer := r.ask(t, "ops", method, path, body)
	if got != status || slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(answer, part) }) {
		t.Errorf("%s %s %s: %d %s, want %d with %q", method, path, body, got, answer, status, parts)
	}
}

// measures waits until metrics have these lines: they are kept for a moment.
func (r *reloading) measures(t *testing.T, lines ...string) {
	t.Helper()
	await.Eventually(t, "metrics have "+strings.Join(lines, ""), func() error {
		_, body := r.ask(t, "ops", "GET", "/metrics", "")
		if slices.ContainsFunc(lines, func(line string) bool { return !strings.Contains(body, line) }) {
			return errors.New("they have not")
		}
		return nil
	})
}

// tokens returns tokens with these names as their secrets, and that of ops with the scope admin.
func tokens(names ...string) string {
	var list strings.Builder
	list.WriteString("auth:\n  tokens:\n")
	for _, name := range append(names, "ops") {
		scopes := "read, 'issue:*'"
		if name == "ops" {
			scopes += ", admin"
		}
		fmt.Fprintf(&list, "  - {name: %s, sha256: '%s', scopes: [%s]}\n", name, access.DigestOf(name).Hex(), scopes)
	}
	return list.String()
}

// A reload applies what its answer says, and nothing if anything is wrong.
func TestReload(t *testing.T) {
	r := startReloading(t, tokens("shop", "till"))
	await.Eventually(t, "the node is ready", func() error {
		if status, body := r.ask(t, "ops", "GET", "/readyz", ""); status != http.StatusOK {
			return fmt.Errorf("%d %s", status, body)
		}
		return nil
	})
	for secret, want := range map[string]int{"nobody": 401, "shop": 403, "ops": 200} {
		status, body := r.ask(t, secret, "POST", "/reload", "")
		must.Equal(t, status, want, "reload as %s: %s", secret, body)
	}
	r.wants(t, "POST", "/reload", "", 200, `"applied":[],"restart":[]`)
	r.wants(t, "POST", "/reload?force=true", "", 400, "invalid_request")
	r.wants(t, "POST", "/reload", "{}", 400, "invalid_request")

	r.write(t, "server: {maxCount: 5, stopTimeout: 7s}\nlog: {level: debug}\n"+tokens("shop", "other"))
	r.wants(t, "POST", "/reload", "", 200, `"applied":["server.maxCount","log.level","auth.tokens"],"restart":["server.stopTimeout"]`)
	r.wants(t, "GET", "/seq/order?count=5", "", 200)
	r.wants(t, "GET", "/seq/order?count=6", "", 400, "from 1 to 5")
	for secret, want := range map[string]int{"shop": 200, "till": 401, "other": 200} {
		status, body := r.ask(t, secret, "GET", "/seq/order", "")
		must.Equal(t, status, want, "%s: %s", secret, body)
	}
	r.wants(t, "GET", "/log-level", "", 200, `"level":"debug","configured":"debug"`)
	r.measures(t, "seqd_config_restart_needed 1\n", "seqd_config_reload_failed 0\n", "seqd_reload_failures_total 0\n")
	_, answer := r.ask(t, "ops", "POST", "/reload", "")
	var done struct{ Version, Node string }
	must.Do(t, json.Unmarshal([]byte(answer), &done))
	r.wants(t, "GET", "/nodes", "", 200, `"id":"`+done.Node+`"`, `"config":{"version":"`+done.Version+`"`, `"restart":true,"failed":false}`)

	for text, part := range map[string]string{
		"}":                         "cannot be read, and nothing was changed",
		"server: {maxCount: 0}":     `"problems":[{"key":"server.maxCount","text":"0 is outside 1 to`,
		"server: {maxCounts: 9}":    `"key":"server.maxCounts"`,
		"log: {level: info}\nauth:": `"key":"auth"`,
	} {
		r.write(t, text)
		r.wants(t, "POST", "/reload", "", 409, `"code":"conflict"`, part)
	}
	must.Do(t, os.Remove(r.path))
	r.wants(t, "POST", "/reload", "", 409, "no such file")
	r.wants(t, "GET", "/seq/order?count=6", "", 400, "from 1 to 5")
	r.wants(t, "GET", "/log-level", "", 200, `"level":"debug"`)
	r.measures(t, "seqd_config_reload_failed 1\n", "seqd_reload_failures_total 5\n")
	r.wants(t, "GET", "/nodes", "", 200, done.Version, `"failed":true`)

	r.write(t, tokens("shop"))
	select {
	case r.asked <- struct{}{}: // the signal
	case <-time.After(await.Patience):
		t.Fatal("nobody heeds the signal")
	}
	await.Eventually(t, "the signal is heeded, and audited as requests are", func() error {
		_, body := r.ask(t, "ops", "GET", "/audit?limit=1000", "")
		for _, want := range []string{`"method":"SIGHUP","path":"/reload"`, `"caller":"ops"`, `"caller":"shop"`} {
			if !strings.Contains(body, want) {
				return fmt.Errorf("no %s: %s", want, body)
			}
		}
		return nil
	})
	r.wants(t, "GET", "/seq/order?count=6", "", 200)
	must.Report(t, r.stop())
}

// A node says of what all nodes need alike what it works with, not what it has only read.
func TestReloadOfWhatNodesNeedAlike(t *testing.T) {
	r := startReloading(t, tokens())
	config := func() (c struct{ Version, Alike string }) {
		t.Helper()
		var answer struct {
			Nodes []struct {
				Config *struct{ Version, Alike string }
			}
		}
		await.Eventually(t, "the node is listed", func() error {
			_, body := r.ask(t, "ops", "GET", "/nodes", "")
			if err := json.Unmarshal([]byte(body), &answer); err != nil || len(answer.Nodes) != 1 || answer.Nodes[0].Config == nil {
				return fmt.Errorf("%w: %s", err, body)
			}
			return nil
		})
		return *answer.Nodes[0].Config
	}
	before := config()
	r.write(t, "jobs: {most: 7}\n"+tokens())
	r.wants(t, "POST", "/reload", "", 200, `"restart":["jobs.most"]`)
	after := config()
	must.Equal(t, after.Version != before.Version, true, "it has read another configuration")
	must.Equal(t, after.Alike, before.Alike, "it works with the former jobs.most")
}

// A level that was set by hand stays until the next reload.
func TestLogLevel(t *testing.T) {
	r := startReloading(t, tokens())
	r.wants(t, "PUT", "/log-level", `{"level":"debug"}`, 200, `"level":"debug","configured":"info"`)
	for _, body := range []string{`{}`, `{"level":"DEBUG"}`, `{"level":"trace"}`, `{"level":5}`, `{"level":null}`, `{"level":"debug","for":"1h"}`, `[]`, `{"level":"` + strings.Repeat("x", 1000) + `"}`} {
		r.wants(t, "PUT", "/log-level", body, 400, "invalid_request")
	}
	r.wants(t, "PUT", "/log-level?level=debug", `{"level":"debug"}`, 400, "invalid_request")
	r.wants(t, "GET", "/log-level", "", 200, `"level":"debug"`)
	r.wants(t, "POST", "/reload", "", 200, `"applied":["log.level"]`)
	r.wants(t, "GET", "/log-level", "", 200, `"level":"info"`)
	r.wants(t, "POST", "/reload", "", 200, `"applied":[]`)
	must.Equal(t, strings.Contains(r.log.String(), `"target":"debug"`), true, "the audit line has the level")
}

// What a program made itself a reload leaves alone.
func TestReloadOfAProgram(t *testing.T) {
	s := start(t, load(t, "store: {driver: memory}\nbizTypes: [{name: order}]"))
	for _, req := range []struct{ method, path, body string }{{"POST", "/reload", ""}, {"PUT", "/log-level", `{"level":"debug"}`}, {"GET", "/log-level", ""}} {
		r := &reloading{service: s}
		r.wants(t, req.method, req.path, req.body, 409, `"code":"conflict"`)
	}
}

// A connection of the Redis protocol loses its right with its token.
func TestReloadOfTokens(t *testing.T) {
	var mu sync.Mutex
	names := []string{"shop"}
	asked := make(chan struct{})
	cfg := func() *config.Config {
		mu.Lock()
		defer mu.Unlock()
		return load(t, "resp: {addr: '127.0.0.1:0'}\nstore: {driver: memory}\nbizTypes: [{name: order}]\n"+tokens(names...))
	}
	s, rdb := startResp(t, "bizTypes: [{name: order}]\n"+tokens("shop"), func(o *redis.Options) { o.Password = "shop" },
		server.WithReload(asked, func() (*config.Config, error) { return cfg(), nil }))
	conn := rdb.Conn()
	defer conn.Close()
	must.Do(t, conn.Incr(t.Context(), "order").Err())
	mu.Lock()
	names = nil
	mu.Unlock()
	(&reloading{service: s}).wants(t, "POST", "/reload", "", 200, `"applied":["auth.tokens"]`)
	if err := conn.Incr(t.Context(), "order").Err(); err == nil || !strings.HasPrefix(err.Error(), "NOAUTH") {
		t.Errorf("a token that was removed: %v", err)
	}
}

// A token of the store that the configuration has hidden is valid once it is removed there.
func TestReloadShowsTokensOfTheStore(t *testing.T) {
	r := startReloading(t, tokens())
	var made struct{ Secret string }
	await.Eventually(t, "a token is made", func() error {
		status, body := r.ask(t, "ops", "POST", "/tokens", `{"name":"shop","scopes":["issue:*"]}`)
		if status != http.StatusCreated {
			return fmt.Errorf("%d %s", status, body)
		}
		return json.Unmarshal([]byte(body), &made)
	})
	r.write(t, tokens("shop"))
	r.wants(t, "POST", "/reload", "", 200)
	status, body := r.ask(t, made.Secret, "GET", "/seq/order", "")
	must.Equal(t, status, http.StatusUnauthorized, "the hidden token: %s", body)
	await.True(t, "the log warns: the caller with the new token owns nothing of the hidden one", func() bool {
		return r.log.Count("the store has a token with the name of one of the configuration") == 1
	})
	r.write(t, tokens())
	r.wants(t, "POST", "/reload", "", 200)
	await.Eventually(t, "the token of the store is valid", func() error {
		if status, body := r.ask(t, made.Secret, "GET", "/seq/order", ""); status != http.StatusOK {
			return fmt.Errorf("%d %s", status, body)
		}
		return nil
	})
}

// Who may ask without a token follows the configuration, and no Host is remembered.
func TestReloadOfHosts(t *testing.T) {
	r := startReloading(t, "server: {hosts: [a.example]}")
	from := func(host string) int {
		req := must.Get(http.NewRequest("GET", r.url+"/healthz", nil))(t)
		req.Host = host
		resp := must.Get(r.client.Do(req))(t)
		resp.Body.Close()
		return resp.StatusCode
	}
	must.Equal(t, fmt.Sprint(from("a.example"), from("b.example")), "200 403")
	r.write(t, "server: {hosts: [b.example], trustedProxies: [127.0.0.1]}")
	r.wants(t, "POST", "/reload", "", 200, `"applied":["server.trustedProxies","server.hosts"],"restart":[]`)
	must.Equal(t, fmt.Sprint(from("a.example"), from("b.example")), "403 200")
	r.write(t, tokens())
	r.wants(t, "POST", "/reload", "", 200, `"restart":["auth.tokens"]`) // it is still open
	r.wants(t, "GET", "/log-level", "", 200)
}

// Many reloads at once, of files that change meanwhile: the last one counts.
func TestReloadsAtOnce(t *testing.T) {
	r := startReloading(t, tokens())
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 5 {
				next := r.path + fmt.Sprint(i)
				text := fmt.Sprintf("bizTypes: [{name: order}]\nserver: {maxCount: %d, maxInFlight: %d}\n%s", 10+i, 1000+j, tokens(fmt.Sprintf("t%d-%d", i, j)))
				must.Report(t, os.WriteFile(next, []byte(text), 0o600))
				must.Report(t, os.Rename(next, r.path)) // no reader sees half of it
				if status, body := r.ask(t, "ops", "POST", "/reload", ""); status != http.StatusOK {
					t.Error(status, body)
				}
			}
		})
	}
	wg.Wait()
	r.write(t, "server: {maxCount: 3}\n"+tokens("last"))
	r.wants(t, "POST", "/reload", "", 200)
	for secret, want := range map[string]int{"last": 200, "t0-0": 401, "t7-4": 401} {
		await.Eventually(t, secret+" is known or not", func() error {
			if status, body := r.ask(t, secret, "GET", "/seq/order?count=3", ""); status != want {
				return fmt.Errorf("%d %s", status, body)
			}
			return nil
		})
	}
	r.wants(t, "GET", "/seq/order?count=4", "", 400)
}

// Each key that applies live is applied. A new one needs a line here, and a place that applies it.
func TestReloadOfEveryLiveKey(t *testing.T) {
	r := startReloading(t, tokens())
	changed := map[string]string{
		"server.maxCount": "5", "server.accessLog": "on", "server.accessLogPerSecond": "1000", "server.trustedProxies": "[127.0.0.1]",
		"server.forwardedHeader": "X-Real-Ip", "server.hosts": "[a.example]", "server.maxBodyBytes": "100", "server.maxInFlight": "77",
		"server.maxInFlightBytes": "2000000", "server.maxConnections": "77", "log.level": "warn", "auth.publicMetrics": "true",
		"idempotency.maxBytes": "7000000", "idempotency.maxBytesPerCaller": "6000000",
	}
	want, lines := []string{}, map[string]string{}
	for _, k := range config.Keys() {
		if k.Applies() == "live" {
			value, known := changed[k.Path]
			must.Equal(t, known, true, "%s is in this test", k.Path)
			section, name, _ := strings.Cut(k.Path, ".")
			lines[section] += ", " + name + ": " + value
			want = append(want, k.Path)
		}
	}
	must.Equal(t, len(want), len(changed), "live keys")
	text := strings.Replace(tokens(), "auth:", "auth:\n  publicMetrics: true", 1)
	for _, section := range []string{"server", "log", "idempotency"} {
		text += fmt.Sprintf("%s: {%s}\n", section, strings.TrimPrefix(lines[section], ", "))
	}
	r.write(t, text)
	applied, err := json.Marshal(want)
	must.Do(t, err)
	r.wants(t, "POST", "/reload", "", 200, `"applied":`+string(applied)+`,"restart":[]`)
	r.wants(t, "PUT", "/log-level", `{"level":"info"`+strings.Repeat(" ", 100)+"}", 413)
	r.wants(t, "PUT", "/log-level", `{"level":"info"}`, 200) // which the access log is of
	await.Eventually(t, "metrics are open, and have the new bound", func() error {
		if status, body := r.ask(t, "", "GET", "/metrics", ""); status != http.StatusOK || !strings.Contains(body, "seqd_idempotency_max_bytes 7e+06\n") {
			return fmt.Errorf("%d", status)
		}
		return nil
	})
	req := must.Get(http.NewRequest("GET", r.url+"/seq/order?count=6", nil))(t)
	req.Header = http.Header{"Authorization": {"Bearer ops"}, "X-Real-Ip": {"192.0.2.7"}}
	resp := must.Get(r.client.Do(req))(t)
	resp.Body.Close()
	must.Equal(t, resp.StatusCode, http.StatusBadRequest)
	await.True(t, "the access log names the sender", func() bool { return r.log.Count(`"addr":"192.0.2.7"`) > 0 })
}

// While a certificate is half written, a reload changes nothing at all.
func TestReloadOfACertificate(t *testing.T) {
	files := certificatetest.Files(t)
	cert, key := certificatetest.Pair(t, "first", time.Now().Add(time.Hour))
	certificatetest.Put(t, files, cert, key)
	text := fmt.Sprintf("server: {tls: {certFile: %s, keyFile: %s}, maxCount: %%d}\n", files.CertFile, files.KeyFile)
	r := startReloading(t, fmt.Sprintf(text, 5))
	r.url = strings.Replace(r.url, "http:", "https:", 1)
	var shown string
	r.client.Transport = &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true, VerifyConnection: func(s tls.ConnectionState) error {
		shown = s.PeerCertificates[0].Subject.CommonName
		return nil
	}}}
	next, nextKey := certificatetest.Pair(t, "second", time.Now().Add(time.Hour))
	for _, half := range [][2][]byte{{next, nextKey[:40]}, {next[:100], nextKey}, {next, key}, {nil, nil}} {
		certificatetest.Put(t, files, half[0], half[1])
		r.write(t, fmt.Sprintf(text, 7))
		r.wants(t, "POST", "/reload", "", 409, "server.tls.", "nothing was changed")
		must.Equal(t, shown, "first")
	}
	must.Do(t, os.Remove(files.KeyFile))
	r.wants(t, "POST", "/reload", "", 409, "server.tls.keyFile", "no such file")
	await.Eventually(t, "the node is ready", func() error {
		if status, body := r.ask(t, "", "GET", "/readyz", ""); status != http.StatusOK {
			return fmt.Errorf("%d %s", status, body)
		}
		return nil
	})
	r.wants(t, "GET", "/seq/order?count=6", "", 400, string(seqd.CodeInvalidCount))
	certificatetest.Put(t, files, next, nextKey)
	r.wants(t, "POST", "/reload", "", 200, "server.maxCount")
	r.wants(t, "GET", "/seq/order?count=6", "", 200)
	must.Equal(t, shown, "second")
}
