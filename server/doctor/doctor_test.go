package doctor

import (
	"context"
	"errors"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/bolt"
	"github.com/seqd/seqd/server/config"
	_ "github.com/seqd/seqd/standard"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// wellHost is a machine that has everything.
func wellHost() Host {
	return Host{
		Listen:       func(string) error { return nil },
		Addrs:        func() ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("10.0.0.7")}, nil },
		OpenFiles:    func() (uint64, bool) { return 1 << 20, true },
		Disk:         func(string) (Disk, error) { return Disk{Kind: "ext4", Free: 50 << 30, Size: 100 << 30}, nil },
		Writable:     writable,
		Synchronised: func() (bool, bool) { return true, true },
		Connect:      func(context.Context, *url.URL) (string, error) { return "", nil },
	}
}

// examined is a doctor for the text of a configuration.
func examined(t *testing.T, text string) *Doctor {
	t.Helper()
	file := filepath.Join(t.TempDir(), "seqd.yaml")
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	cfg := must.Get(config.Load(config.Sources{File: file}))(t)
	return &Doctor{
		Config: cfg, Host: wellHost(), Now: func() time.Time { return noon },
		Redis:       func(config.Redis) (redis.UniversalClient, error) { return nil, errors.New("no client") },
		Shape:       func(seqd.BizType, string) (string, error) { return "shape", nil },
		Definitions: func(context.Context, persist.Store) ([]Definition, error) { return nil, nil },
		CounterOf:   func(b seqd.BizType, _ time.Time) (string, bool) { return b.Name, b.Strategy != "snowflake" },
		Ask:         func(context.Context) (string, error) { return "", errors.New("nobody there") },
	}
}

// run is what a check finds.
func run(t *testing.T, c func(context.Context, *findings)) []Finding {
	t.Helper()
	f := &findings{}
	c(t.Context(), f)
	return f.all()
}

// want checks that there is a finding of the level about the subject, whose text holds part.
func want(t *testing.T, list []Finding, level Level, subject, part string) {
	t.Helper()
	for _, f := range list {
		if f.Level == level && f.Subject == subject && strings.Contains(f.line(), part) {
			return
		}
	}
	t.Errorf("no %s of %s with %q in %+v", level, subject, part, list)
}

// quiet checks that nothing is worse than info.
func quiet(t *testing.T, list []Finding) {
	t.Helper()
	for _, f := range list {
		if f.Level > Info {
			t.Errorf("%s %s", f.Level, f.line())
		}
	}
}

const mongoRedis = "store: {driver: mongo}\nredis: {addrs: [\"127.0.0.1:1\"]}\n"

func TestConfigurationWell(t *testing.T) {
	quiet(t, run(t, configCheck{examined(t, mongoRedis+"bizTypes: [{name: order}, {name: user, strategy: snowflake}]")}.run))
}

// Each of these is legal, and worth a line.
func TestConfigurationDangers(t *testing.T) {
	const one = "bizTypes: [{name: order}]\n"
	const digest = "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8"
	token := func(more string) string {
		return `auth: {tokens: [{name: shop, sha256: "` + digest + `", scopes: [admin], ` + more + `}]}` + "\n" + one
	}
	for name, test := range map[string]struct {
		text, subject, part string
		level               Level
	}{
		"writeTimeout":                  {"server: {writeTimeout: 5100ms}\n" + one, "server.writeTimeout", "longer", Warn},
		"drainDelay":                    {"server: {addr: \"0.0.0.0:80\"}\nauth: {mode: none}\n" + one, "server.drainDelay", "balancer", Warn},
		"auth none":                     {"server: {addr: \"0.0.0.0:80\"}\nauth: {mode: none}\n" + one, "auth.mode", "tokens", Warn},
		"plain tokens of Redis clients": {"resp: {addr: \"0.0.0.0:6380\"}\n" + token("enabled: true"), "resp.addr", "unencrypted", Info},
		"plain tokens":                  {"server: {addr: \"0.0.0.0:80\"}\n" + token("enabled: true"), "server.tls", "unencrypted", Info},
		"memory":                        {"store: {driver: memory}\n" + one, "store.driver", "numbers restart", Warn},
		"from config":                   {mongoRedis + "bizTypesFrom: config\n" + one, "bizTypesFrom", "every node", Info},
		"expired":                       {token("expires: 2026-11-21T11:00:00Z"), "auth.tokens", "expired", Warn},
		"expires soon":                  {token("expires: 2026-12-01T12:00:00Z"), "auth.tokens", "in 10 days", Warn},
		"expires late":                  {token("expires: 2027-12-01T12:00:00Z"), "auth.tokens", "count", OK},
		"switched off":                  {token("enabled: false"), "auth.tokens", "off", Info},
		"threshold":                     {"bizTypes: [{name: order, threshold: 1}]", "order.threshold", "callers wait", Warn},
		"targetDuration":                {"bizTypes: [{name: order, targetDuration: 24h}]", "order.targetDuration", "48h", Warn},
		"step":                          {"bizTypes: [{name: order, step: 1000000, plugins: [{name: obfuscate, digits: 8, keyFile: data/x}]}]", "order.step", "100000000", Warn},
		"per node":                      {"store: {driver: mongo}\nbizTypes: [{name: order, ordering: per-node}]", "order.ordering", "each node", Info},
		"no reserve":                    {mongoRedis + "bizTypes: [{name: order, reserveSegments: 0}]", "order.reserveSegments", "1 or more", Warn},
		"horizon by renewals":           {"bizTypes: [{name: order, strategy: snowflake, horizon: 3s, renewInterval: 1s, maxSkew: 1s}]", "order.horizon", "3 renewals", Warn},
		"horizon by time-out":           {"store: {driver: mongo}\nbizTypes: [{name: order, strategy: snowflake, horizon: 4s, renewInterval: 200ms}]", "order.horizon", "time-out", Warn},
		"per node, SQL":                 {"store: {driver: postgres}\nbizTypes: [{name: order, ordering: per-node}]", "order.ordering", "each node", Info},
		"horizon of SQL":                {"store: {driver: mysql}\nbizTypes: [{name: order, strategy: snowflake, horizon: 4s, renewInterval: 200ms}]", "order.horizon", "store.mysql.timeout", Warn},
		"log without bound":             {"server: {accessLog: \"on\", accessLogPerSecond: 0}\n" + one, "server.accessLog", "every request", Warn},
	} {
		t.Run(name, func(t *testing.T) {
			want(t, run(t, configCheck{examined(t, test.text)}.run), test.level, test.subject, test.part)
		})
	}
}

func TestAddress(t *testing.T) {
	d := examined(t, "bizTypes: [{name: user, strategy: snowflake, advertiseIp: 10.0.0.8}]")
	d.Host.Listen = func(string) error { return syscall.EACCES }
	d.Host.OpenFiles = func() (uint64, bool) { return 1024, true }
	list := run(t, addressCheck{d}.run)
	want(t, list, Fail, "server.addr", "1024 on")
	want(t, list, Warn, "user.advertiseIp", "10.0.0.8 is not")
	want(t, list, Warn, "server.maxConnections", "raise the limit (ulimit -n, LimitNOFILE) to 16640")
	d.Host.Listen = func(string) error { return syscall.EADDRNOTAVAIL }
	want(t, run(t, addressCheck{d}.run), Fail, "server.addr", "an address of this machine")
	d.Host.Listen = func(string) error { return syscall.EADDRINUSE }
	want(t, run(t, addressCheck{d}.run), Fail, "server.addr", "not by a seqd that is alive: nobody there")
	d.Ask = func(context.Context) (string, error) { return "it is well", nil }
	want(t, run(t, addressCheck{d}.run), Info, "server.addr", "by a running seqd: it is well")
	d.Config.Resp.Addr = "127.0.0.1:6380"
	want(t, run(t, addressCheck{d}.run), Info, "resp.addr", "127.0.0.1:6380 is in use")
	d.Host = wellHost()
	d.Config.Server.MaxConnections = 0
	want(t, run(t, addressCheck{d}.run), Warn, "server.maxConnections", "bound it")
}

func TestPermissions(t *testing.T) {
	dir := t.TempDir()
	open := filepath.Join(dir, "open.key")
	must.Do(t, os.WriteFile(open, []byte("x"), 0o644))
	text := "bizTypeFolder: " + dir + "\nbizTypes: [{name: a, plugins: [{name: obfuscate, digits: 8, keyFile: " + open + "}]}, " +
		"{name: b, plugins: [{name: obfuscate, digits: 8, keyFile: " + filepath.Join(dir, "none.key") + "}]}, " +
		"{name: c, plugins: [{name: history, to: file, file: {path: " + filepath.Join(open, "x.jsonl") + "}}]}, " +
		"{name: d, strategy: snowflake, offlineStart: 1m, stateDir: " + filepath.Join(dir, "new") + "}]"
	list := run(t, filesCheck{examined(t, text)}.run)
	want(t, list, Fail, "a.obfuscate.keyFile", "chmod 600")
	want(t, list, Warn, "b.obfuscate.keyFile", "seqd makes one")
	want(t, list, Fail, "c.history.file.path", "not a directory")
	want(t, list, Info, "d.stateDir", "seqd makes it")
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 1 {
		t.Errorf("files were made: %q", left)
	}
}

// A history needs its file, the lock beside it, and a folder to put older files into.
func TestHistoryFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "history.jsonl")
	d := examined(t, "bizTypeFolder: "+dir+"\nbizTypes: [{name: a, plugins: [{name: history, to: file, file: {path: "+path+"}}]}]")
	const key = "a.history.file.path"
	list := run(t, filesCheck{d}.run)
	quiet(t, list)
	want(t, list, Info, key, "there is no "+path)
	must.Do(t, os.WriteFile(path, nil, 0o600))
	list = run(t, filesCheck{d}.run)
	quiet(t, list)
	want(t, list, OK, key, path+" can be written")
	must.Do(t, os.Mkdir(path+".lock", 0o700))
	want(t, run(t, filesCheck{d}.run), Fail, key, path+".lock")
	d.Host.Writable = func(string) bool { return false }
	want(t, run(t, filesCheck{d}.run), Fail, key, "the folder "+dir+" cannot be written")
}

// What the store defines is looked at like what the configuration does.
func TestStoredHistoryAndWebhook(t *testing.T) {
	dir := t.TempDir()
	d := examined(t, boltText(boltWith(t, persist.Counter{BizTag: "order", Max: 5, Step: 1000, Timestamp: 1}, "shape"), "{name: order}"))
	stored := examined(t, "bizTypeFolder: "+dir+"\nbizTypes: [{name: b, plugins: [{name: history, to: file, file: {path: "+filepath.Join(dir, "none.jsonl")+"}}], "+
		"rejected: [{name: webhook, url: \"https://hooks.example.com/\"}]}]").Config.BizTypes[0]
	d.Definitions = func(context.Context, persist.Store) ([]Definition, error) {
		return []Definition{{BizType: stored}}, nil
	}
	list := run(t, storeCheck{d}.run)
	want(t, list, Info, "b.history.file.path", "none.jsonl")
	want(t, list, OK, "b.webhook.url", "hooks.example.com:443 answers")
}

// A store that must exist and does not is a failure; another one that is new is worth a line.
func TestStoreThatIsNew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seqd.db")
	text := func(more string) string {
		return "store: {" + more + "bolt: {path: " + path + "}}\nbizTypes: [{name: order}]"
	}
	look := func(more string) []Finding { return run(t, storeCheck{examined(t, text(more))}.run) }
	want(t, look("mustExist: true, "), Fail, "store.mustExist", "there is no "+path)
	want(t, look(""), Info, "store.bolt.path", "begin at their start")
	store := must.Get(bolt.Open(bolt.Options{Path: path, LockTimeout: time.Second, Now: time.Now}))(t)
	must.Do(t, store.Close())
	want(t, look("mustExist: true, "), Fail, "store.mustExist", path)
	want(t, look(""), Info, "store", path)
}

// boltWith creates a store from which numbers were issued.
func boltWith(t *testing.T, counter persist.Counter, shape string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "seqd.db")
	store, err := bolt.Open(bolt.Options{Path: path, LockTimeout: time.Second, Now: time.Now})
	must.Do(t, err)
	_, err = persist.ClusterID(t.Context(), store, time.Now)
	err = errors.Join(err, store.Counters().Create(t.Context(), counter),
		persist.ShapesIn(store.Documents()).Create(t.Context(), counter.BizTag, shape, time.UnixMilli(1)), store.Close())
	must.Do(t, err)
	return path
}

func boltText(path, bizTypes string) string {
	return "store: {bolt: {path: " + path + "}}\nbizTypes: [" + bizTypes + "]"
}

func TestBoltWell(t *testing.T) {
	path := boltWith(t, persist.Counter{BizTag: "order", Max: 5, Step: 1000, Timestamp: 1}, "shape")
	before := must.Get(os.ReadFile(path))(t)
	list := run(t, storeCheck{examined(t, boltText(path, "{name: order}"))}.run)
	quiet(t, list)
	want(t, list, OK, "shapes", "1 biz types")
	want(t, list, OK, "counters", "1 can be read")
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("the file was changed: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Dir(path) + "/*"); len(left) != 1 {
		t.Errorf("files were made: %q", left)
	}
}

// Answers are counted, and one of their files that is missing or damaged is named.
func TestBoltAnswers(t *testing.T) {
	path := boltWith(t, persist.Counter{BizTag: "order", Max: 5, Step: 1000, Timestamp: 1}, "shape")
	store := must.Get(bolt.Open(bolt.Options{Path: path, LockTimeout: time.Second, Now: time.Now}))(t)
	must.Get(store.Answers().Claim(t.Context(), "id", "claim", time.Hour))(t)
	held, err := store.Answers().Swap(t.Context(), "id", "claim", "answer", time.Hour)
	if err := errors.Join(err, store.Close()); held != "" || err != nil {
		t.Fatal(held, err)
	}
	d := examined(t, boltText(path, "{name: order}"))
	want(t, run(t, storeCheck{d}.run), OK, "store.bolt.path", "1 answers to requests with an Idempotency-Key are in 1 files")
	file := filepath.Join(path+"-answers", "00000001.db")
	must.Do(t, os.WriteFile(file, nil, 0o600))
	want(t, run(t, storeCheck{d}.run), Fail, "store.bolt.path", file)
}

func TestBoltDangers(t *testing.T) {
	busy := persist.Counter{BizTag: "order", Max: 99_000_000, Step: 100, Timestamp: noon.Add(-time.Second).UnixMilli()}
	path := boltWith(t, busy, "another shape")
	d := examined(t, boltText(path, "{name: order, step: 10, maxStep: 100, threshold: 1, plugins: [{name: obfuscate, digits: 8, key: \"12345678\"}]}"))
	d.Host.Disk = func(string) (Disk, error) { return Disk{Kind: "tmpfs", Free: 1 << 20, Size: 100 << 30}, nil }
	d.Definitions = func(context.Context, persist.Store) ([]Definition, error) {
		gone, torn := seqd.BizType{Name: "gone"}, seqd.BizType{Name: "torn"}
		return []Definition{{BizType: d.Config.BizTypes[0], Differs: true}, {BizType: gone, Deleted: true}, {BizType: torn, Err: errors.New("it is torn")}}, nil
	}
	list := run(t, storeCheck{d}.run)
	want(t, list, Warn, "store.bolt.path", "it is memory")
	want(t, list, Warn, "store.bolt.path", "make room")
	want(t, list, Fail, "order", "another shape")
	want(t, list, Warn, "order", "1000000 of 100000000 numbers are left")
	want(t, list, Warn, "order.maxStep", "set it to 400 or more")
	want(t, list, Warn, "definitions", "order")
	want(t, list, Warn, "order.threshold", "callers wait") // of the store's definition
	want(t, list, Info, "definitions", "gone")
	want(t, list, Fail, "torn", "it is torn")
}

func TestBoltInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seqd.db")
	store := must.Get(bolt.Open(bolt.Options{Path: path, LockTimeout: time.Second, Now: time.Now}))(t)
	defer store.Close()
	d := examined(t, boltText(path, "{name: order}"))
	want(t, run(t, storeCheck{d}.run), Warn, "store.bolt.path", "no seqd answers: nobody there")
	d.Ask = func(context.Context) (string, error) { return "it is well", nil }
	want(t, run(t, storeCheck{d}.run), Info, "store.bolt.path", "by a running seqd: it is well")
}

// A file that is damaged, or none of seqd's, is a finding and not a crash.
func TestBoltDamaged(t *testing.T) {
	path := boltWith(t, persist.Counter{BizTag: "order", Max: 5, Step: 1000, Timestamp: 1}, "shape")
	whole := must.Get(os.ReadFile(path))(t)
	pages := append([]byte(nil), whole...)
	for i := 8192; i < len(pages); i++ {
		pages[i] ^= 0xa5
	}
	for name, damage := range map[string][]byte{"empty": {}, "short": whole[:5000], "text": []byte(strings.Repeat("no store ", 2000)), "pages": pages} {
		t.Run(name, func(t *testing.T) {
			must.Do(t, os.WriteFile(path, damage, 0o600))
			d := examined(t, boltText(path, "{name: order}"))
			failed := false
			for _, f := range within(t.Context(), patience, check{"store", storeCheck{d}.run}) {
				failed = failed || f.Level == Fail
			}
			if !failed {
				t.Error("nothing failed")
			}
		})
	}
}

func TestMissingBolt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none", "seqd.db")
	list := run(t, storeCheck{examined(t, boltText(path, "{name: order}"))}.run)
	quiet(t, list)
	want(t, list, Info, "store.bolt.path", "all numbers begin")
	if _, err := os.Stat(filepath.Dir(path)); err == nil {
		t.Error("the folder was made")
	}
}

func TestJudgeRights(t *testing.T) {
	f := &findings{}
	judgeRights(f, rediscursor.Rights{Known: true, Denied: []string{"hset", "publish"}})
	want(t, f.all(), Fail, "redis.username", "+hset")
	want(t, f.all(), Warn, "redis.username", "5 s")
	f = &findings{}
	judgeRights(f, rediscursor.Rights{})
	want(t, f.all(), Info, "redis.username", "Redis 7")
}

func TestClocks(t *testing.T) {
	d := examined(t, "bizTypes: [{name: user, strategy: snowflake}, {name: old, strategy: snowflake, epoch: \"1990-01-01T00:00:00Z\", bitsMachine: 12}]")
	d.Host.Synchronised = func() (bool, bool) { return false, true }
	d.clocks.heardStore("the store", 3*time.Second, 10*time.Millisecond)
	d.clocks.heard("redis a", -1500*time.Millisecond, 10*time.Millisecond)
	d.clocks.heard("redis b", 0, 10*time.Millisecond)
	list := run(t, clocksCheck{d}.run)
	want(t, list, Warn, "this machine", "chrony")
	want(t, list, Fail, "the store", "gets no machine ID")
	want(t, list, Warn, "redis a", "more than half")
	want(t, list, Warn, "redis a", "more than snowflake.maxSkew")
	want(t, list, OK, "redis b", "this machine's")
	want(t, list, OK, "user.epoch", "2094-09-07")
	d.Now = func() time.Time { return time.Date(2005, 1, 1, 0, 0, 0, 0, time.UTC) }
	want(t, run(t, clocksCheck{d}.run), Warn, "old.epoch", "run out at 2007-06-03")
}

// Whatever hangs, panics or fails, the others are run and the end comes.
func TestEveryCheckIsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		sections := runAll(t.Context(), patience, []check{
			{"hangs", func(ctx context.Context, f *findings) { f.ok("first", "found"); time.Sleep(time.Hour) }},
			{"panics", func(context.Context, *findings) { panic("oh") }},
			{"works", func(_ context.Context, f *findings) { f.ok("it", "is") }},
		})
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("it took %s", took)
		}
		want(t, sections[0].Findings, OK, "first", "found")
		want(t, sections[0].Findings, Fail, "hangs", "no end")
		want(t, sections[1].Findings, Fail, "panics", "oh")
		want(t, sections[2].Findings, OK, "it", "is")
		time.Sleep(2 * time.Hour) // until the one that hangs has ended
	})
}

func TestPrint(t *testing.T) {
	var out strings.Builder
	sections := []Section{{"a", []Finding{{Warn, "x", "is", "do"}, {OK, "y", "is", ""}}}, {"b", nil}}
	Print(&out, sections)
	if wanted := "a\n  warn  x: is → do\n  ok    y: is\n0 FAIL, 1 warn, 0 info, 1 ok; nothing was changed\n"; out.String() != wanted || Failed(sections) {
		t.Errorf("%t, %q", Failed(sections), out.String())
	}
	if !Failed([]Section{{"a", []Finding{{OK, "y", "is", ""}, {Fail, "x", "is", ""}}}}) {
		t.Error("a failure is none")
	}
}

// The doctor knows settings by their keys: each must be one of those that come with seqd.
func TestKeysExist(t *testing.T) {
	d := examined(t, "bizTypes: [{name: a, plugins: [{name: obfuscate, digits: 8, key: \"12345678\"}, {name: history}], rejected: [{name: webhook, url: \"http://x\"}]}, {name: b, strategy: snowflake}]")
	a, b := d.Config.BizTypes[0], d.Config.BizTypes[1]
	has := func(key string, ok bool) {
		if !ok {
			t.Errorf("there is no %s", key)
		}
	}
	for _, key := range []string{"step", "maxStep", "maxKeys"} {
		_, ok := config.Setting[int64](a.Settings, key)
		has(key, ok)
	}
	_, ok := config.Setting[string](a.Settings, "ordering")
	has("ordering", ok)
	_, ok = config.Setting[float64](a.Settings, "threshold")
	has("threshold", ok)
	_, ok = config.Setting[int](a.Settings, "reserveSegments")
	has("reserveSegments", ok)
	_, ok = config.Setting[time.Duration](a.Settings, "targetDuration")
	has("targetDuration", ok)
	for _, key := range []string{"horizon", "renewInterval", "maxSkew", "offlineStart"} {
		_, ok := config.Setting[time.Duration](b.Settings, key)
		has(key, ok)
	}
	for _, key := range []string{"epoch", "stateDir", "advertiseIp"} {
		_, ok := config.Setting[string](b.Settings, key)
		has(key, ok)
	}
	for _, key := range []string{"bitsMachine", "bitsSequence"} {
		_, ok := config.Setting[int](b.Settings, key)
		has(key, ok)
	}
	for _, key := range []string{"digits", "bits"} {
		_, ok := config.Setting[int](a.Plugins[0].Settings, key)
		has(key, ok)
	}
	_, ok = config.Setting[string](a.Plugins[0].Settings, "keyFile")
	has("keyFile", ok)
	_, ok = config.Setting[string](a.Rejected[0].Settings, "url")
	has("url", ok)
	for _, key := range []string{"to", "file.path"} {
		_, ok = config.Setting[string](a.Plugins[1].Settings, key)
		has(key, ok)
	}
}
