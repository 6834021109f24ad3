package compat_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/testlog"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/audit"
	"github.com/seqd/seqd/server/compat"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/definitions"
	"github.com/seqd/seqd/server/feed"
	"github.com/seqd/seqd/server/gate"
	"github.com/seqd/seqd/server/httpapi"
	"github.com/seqd/seqd/server/rejection"
	"github.com/seqd/seqd/server/workers"
	_ "github.com/seqd/seqd/standard"
	"github.com/seqd/seqd/strategy"
)

// sharedStore is a store in memory that several nodes use.
type sharedStore struct{ persist.Store }

func (sharedStore) Shared() bool { return true }

func newSharedStore() persist.Store { return sharedStore{memory.New(time.Now)} }

// The secrets of the tokens. Tinyid's clients have short ones.
const (
	shopSecret  = "0f673adf80504e2eaa552f5d791b644c"
	otherSecret = "another-secret"
)

// setup is how a node is made.
type setup struct {
	store persist.Store // a new one if nil
	// yaml are further keys of the configuration.
	yaml string
	// starting leaves the node without an issuer.
	starting bool
	// now is the clock of the store, that of the machine if nil.
	now func() time.Time
	// change changes the options of the API.
	change func(*httpapi.Options, *gate.Options)
}

// node is a node with HTTP and everything below it.
type node struct {
	t      testing.TB
	url    string
	api    *httpapi.API
	gate   *gate.Gate
	issuer *issuer.Issuer
	tokens *access.Tokens
	log    *testlog.Text
}

const everything = "compat: {leaf: true, leafSnowflake: user, tinyid: true, cosid: create, token: shop}\n"

// bizTypes has one biz type of each kind.
const bizTypes = `
bizTypes:
  - {name: order, step: 100}
  - {name: next, start: 9007199254740990}
  - {name: user, strategy: snowflake, epoch: "2010-11-04T01:42:54.657Z", machineId: "39"}
  - {name: invoice, plugins: [{name: format, template: "INV-{seq}"}]}
  - {name: limited, plugins: [{name: rate-limit, rate: 0.001, burst: 1}]}
  - {name: recorded, plugins: [{name: history}]}
  - {name: counted, plugins: [{name: stats}]}
  - {name: yearly, reset: yearly, plugins: [{name: format, template: "{date:2006}{seq:010}"}]}
`

// tokensOn makes callers need tokens.
var tokensOn = `
auth:
  tokens:
    - {name: shop, sha256: "` + access.DigestOf(shopSecret).Hex() + `", scopes: ["issue:*"]}
    - {name: other, sha256: "` + access.DigestOf(otherSecret).Hex() + `", scopes: ["issue:other"]}
`

func loadConfig(t testing.TB, yaml string) *config.Config {
	t.Helper()
	if !strings.Contains(yaml, "bizTypes:") {
		yaml += bizTypes
	}
	if !strings.Contains(yaml, "compat:") {
		yaml += everything
	}
	return must.Get(config.LoadYAML([]byte(yaml), config.Sources{Flags: map[string]string{"segment.acquireTimeout": "1m", "server.writeTimeout": "1h"}}))(t)
}

// newNode starts a node.
func newNode(t testing.TB, s setup) *node {
	t.Helper()
	cfg := loadConfig(t, s.yaml)
	n := &node{t: t, log: new(testlog.Text)}
	log := slog.New(slog.NewJSONHandler(n.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	n.tokens = access.New(access.Options{Config: cfg.Auth.Tokens, Now: time.Now, Log: log})
	gateOpts := gate.Options{
		MaxCount: cfg.Server.MaxCount, MaxInFlight: cfg.Server.MaxInFlight, MaxInFlightBytes: cfg.Server.MaxInFlightBytes,
		AccessLog: "on", Log: log,
	}
	if cfg.Auth.Enforced() {
		gateOpts.Guard = n.tokens
	}
	opts := httpapi.Options{MaxBodyBytes: 1024, Hosts: []string{"seqd"}, Audit: audit.New(log, time.Now)}
	if s.change != nil {
		s.change(&opts, &gateOpts)
	}
	n.gate = gate.New(gateOpts)
	opts.Extra = compat.Routes(compat.Options{
		Leaf: cfg.Compat.Leaf, Tinyid: cfg.Compat.Tinyid, CosID: cfg.Compat.CosID != config.CosIDOff,
		Create: cfg.Compat.CosID == config.CosIDCreate, MaxBizTypes: cfg.Compat.MaxBizTypes, LeafSnowflake: cfg.Compat.LeafSnowflake, Token: cfg.Compat.Token,
		Named: n.tokens, Gate: n.gate, Now: func() time.Time { return time.UnixMilli(1_800_000_000_123) }, Log: log,
	})
	var err error
	if n.api, err = httpapi.New(n.gate, opts); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(n.api)
	server.Config.ConnContext = httpapi.ConnContext
	server.Start()
	t.Cleanup(server.Close)
	n.url = server.URL
	if !s.starting {
		n.open(cfg, s, log)
	}
	return n
}

// open builds the biz types and lets requests in.
func (n *node) open(cfg *config.Config, s setup, log *slog.Logger) {
	n.t.Helper()
	store, now := s.store, s.now
	if now == nil {
		now = time.Now
	}
	if store == nil {
		store = memory.New(now)
	}
	ctx := context.Background()
	changes := feed.New(feed.Options{Documents: store.Documents(), Shared: store.Shared(), Now: time.Now, Log: log})
	n.must(changes.Begin(ctx))
	n.tokens.Use(access.Backing{Documents: store.Documents()})
	n.must(n.tokens.Reload(ctx))
	env := strategy.Env{
		Store: store, Now: time.Now, Log: log, Observer: seqd.NopObserver{}, RedisPrefix: "x:", Addr: strings.TrimPrefix(n.url, "http://"),
		Cluster: strings.Repeat("f", 32),
	}
	handlers := rejection.New(rejection.Options{Env: definitions.PluginEnv(env), CloseTimeout: time.Second, Log: log})
	catalogue := definitions.New(definitions.Options{Config: cfg, Env: env, Handlers: handlers, Feed: changes})
	var err error
	n.issuer, err = catalogue.Open(ctx, issuer.Options{Log: log})
	n.must(err)
	n.t.Cleanup(func() { _ = n.issuer.Close(context.Background()) })
	n.issuer.Init(ctx)
	catalogue.Seed(ctx)
	n.gate.Ready(&gate.Running{Issuer: n.issuer, Catalogue: catalogue.Editor(), Workers: workers.New(workers.Options{
		Documents: store.Documents(), Slots: store.Slots(), Cluster: env.Cluster, Now: now, Stopping: n.gate.Draining, Log: log,
	})})
}

func (n *node) must(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

// answer is the answer to a request.
type answer struct {
	status      int
	contentType string
	body        string
	header      http.Header
}

// do sends a request; form is its body if it is not empty.
func (n *node) do(method, target, form string, header ...string) answer {
	n.t.Helper()
	a, err := n.try(method, target, form, header...)
	n.must(err)
	return a
}

func (n *node) try(method, target, form string, header ...string) (a answer, err error) {
	r, err := http.NewRequest(method, n.url+target, strings.NewReader(form))
	if err != nil {
		return a, err
	}
	if form != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		} else {
			r.Header.Set(header[i], header[i+1])
		}
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return a, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header.Get("Content-Type"), string(text), response.Header}, err
}

func (n *node) get(target string) answer { n.t.Helper(); return n.do(http.MethodGet, target, "") }

// want checks an answer.
func (a answer) want(t testing.TB, status int, contentType, body string) {
	t.Helper()
	if a.status != status || a.contentType != contentType || a.body != body {
		t.Errorf("%d %q %q (%s); want %d %q %q", a.status, a.contentType, a.body, a.header.Get("Seqd-Error"), status, contentType, body)
	}
}

// failed checks the code of an answer.
func (a answer) failed(t testing.TB, code seqd.Code) answer {
	t.Helper()
	if got := a.header.Get("Seqd-Error"); got != string(code) {
		t.Errorf("Seqd-Error is %q, want %q: %d %s", got, code, a.status, a.body)
	}
	return a
}

// failing is an issuer of one biz type, broken, that always returns the same error.
type failing struct{ err error }

func (f failing) Init(context.Context, bool) error                           { return nil }
func (f failing) Generate(context.Context, int, *seqd.Sequence) error        { return f.err }
func (f failing) GenerateRange(context.Context, int64, *seqd.Sequence) error { return f.err }
func (f failing) Close(context.Context) error                                { return nil }

// breaks makes a node fail every request for numbers of broken and a.broken.
func (n *node) breaks(err error) {
	n.t.Helper()
	issuer, e := issuer.New([]issuer.Definition{
		{Strategy: failing{err}, BizType: seqd.BizType{Name: "broken", Strategy: "failing"}},
		{Strategy: failing{err}, BizType: seqd.BizType{Name: "a.broken", Strategy: "failing"}},
	}, issuer.Options{Log: slog.New(slog.DiscardHandler)})
	n.must(e)
	issuer.Init(context.Background())
	n.gate.Ready(&gate.Running{Issuer: issuer})
}

var (
	errFault   = errors.New("a fault that callers are not told of")
	errTimeout = context.DeadlineExceeded
)
