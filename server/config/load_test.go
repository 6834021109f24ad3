package config_test

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist/bolt"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/strategy/segment"
)

func TestDefaults(t *testing.T) {
	c := mustLoad(t, someBizType, config.Sources{})
	want := config.Default()
	want.BizTypes = c.BizTypes
	config.Forget(c)
	if !reflect.DeepEqual(*c, want) {
		t.Errorf("a file without keys gives\n%+v, want\n%+v", *c, want)
	}
	if got := settingsOf(t, c, 0); got != segment.DefaultSettings() || c.BizTypes[0].Strategy != "segment" || c.BizTypes[0].Name != "order" {
		t.Errorf("the biz type is %+v with %+v, want order with the defaults of segment", c.BizTypes[0], got)
	}
}

func TestNoBizTypes(t *testing.T) {
	onlyHere := []string{"SEQD_BIZTYPESFROM=config"}
	for _, text := range []string{"", "# nothing\n", "bizTypes: []\n", "server: {maxCount: 5}\n"} {
		_, err := config.LoadYAML([]byte(text), config.Sources{Env: onlyHere})
		wantError(t, err, "bizTypes: there is none")
		_, err = config.LoadYAML([]byte(text), config.Sources{})
		wantError(t, err, "bizTypes: there is none")
		mustLoad(t, text, config.Sources{Env: []string{"SEQD_BIZTYPESFROM=store"}})
	}
	_, err := config.Load(config.Sources{})
	wantError(t, err, "bizTypes: there is none")
}

func TestPrecedence(t *testing.T) {
	const key, env = "server.maxCount", "SEQD_SERVER_MAXCOUNT="
	file := someBizType + nested(key, "2")
	flags := map[string]string{key: "4"}
	tests := []struct {
		name, file string
		src        config.Sources
		want       int
	}{
		{"default", someBizType, config.Sources{}, 10_000},
		{"file", file, config.Sources{}, 2},
		{"environment", someBizType, config.Sources{Env: []string{env + "3"}}, 3},
		{"environment over file", file, config.Sources{Env: []string{env + "3"}}, 3},
		{"flag", someBizType, config.Sources{Flags: flags}, 4},
		{"flag over file", file, config.Sources{Flags: flags}, 4},
		{"flag over environment", someBizType, config.Sources{Env: []string{env + "3"}, Flags: flags}, 4},
		{"flag over both", file, config.Sources{Env: []string{env + "3"}, Flags: flags}, 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			must.Equal(t, mustLoad(t, tt.file, tt.src).Server.MaxCount, tt.want, "maxCount")
		})
	}
	t.Run("a key beside it stays", func(t *testing.T) {
		c := mustLoad(t, file+"  stopTimeout: 3s\n", config.Sources{Env: []string{env + "3"}, Flags: map[string]string{"server.idleTimeout": "4s"}})
		if c.Server.MaxCount != 3 || c.Server.StopTimeout != 3*time.Second || c.Server.IdleTimeout != 4*time.Second {
			t.Errorf("got %+v, want maxCount 3, stopTimeout 3s, idleTimeout 4s", c.Server)
		}
	})
	t.Run("the sources of settings of a strategy", func(t *testing.T) {
		src := config.Sources{Env: []string{"SEQD_SEGMENT_STEP=3", "SEQD_SEGMENT_START=3"}, Flags: map[string]string{"segment.start": "4"}}
		s := settingsOf(t, mustLoad(t, "segment: {step: 2, start: 2, maxStep: 2000}\n"+someBizType, src), 0)
		if s.Start != 4 || s.Step != 3 || s.MaxStep != 2000 {
			t.Errorf("got %+v, want start 4, step 3, maxStep 2000", s)
		}
	})
}

// beside is what a key needs to be set as well, by the beginning of its name; the longest counts.
var beside = map[string]map[string]string{
	"segment.offset":             {"segment.increment": "7"}, // which it is below
	"coordination.":              apart(nil),
	"coordination.tls.":          apart(map[string]string{"coordination.tls.enabled": "true", "coordination.tls.certFile": "x", "coordination.tls.keyFile": "x"}),
	"redis.addrs":                {},
	"redis.":                     {"redis.addrs": "x:1"},
	"redis.sentinelPasswordFile": {"redis.addrs": "x:1", "redis.masterName": "x"},
	"redis.username":             {"redis.addrs": "x:1", "redis.password": "x"},
	"redis.sentinel":             {"redis.addrs": "x:1", "redis.masterName": "x", "redis.sentinelPassword": "x"},
	"redis.tls.":                 {"redis.addrs": "x:1", "redis.tls.enabled": "true", "redis.tls.certFile": "x", "redis.tls.keyFile": "x"},
	"server.tls.":                {"server.tls.certFile": "x", "server.tls.keyFile": "x"},
	"snowflake.registry":         {"redis.addrs": "x:1"},
	"snowflake.bitsRack":         {"snowflake.rack": "1"},
	"snowflake.rack":             {"snowflake.bitsRack": "3"},
	"snapshots.every":            {"snapshots.folder": "x"},
	"snapshots.folder":           {"snapshots.every": "1h"},

	"compat.leafSnowflake": {"compat.leaf": "true"},
}

// apart returns the flags of a coordinator, and others.
func apart(more map[string]string) map[string]string {
	flags := map[string]string{"store.driver": "postgres", "store.postgres.url": "postgres://u@x/y", "coordination.driver": "consul", "coordination.addrs": "x:1"}
	maps.Copy(flags, more)
	return flags
}

// flagsBeside returns the flags that a key needs in addition to its own.
func flagsBeside(key string) map[string]string {
	longest := ""
	for prefix := range beside {
		if strings.HasPrefix(key, prefix) && len(prefix) > len(longest) {
			longest = prefix
		}
	}
	flags := make(map[string]string)
	maps.Copy(flags, beside[longest])
	delete(flags, key)
	return flags
}

// another is a good value other than the default, for each key, as a file and as a flag say it.
var another = map[string]struct{ yaml, text string }{
	"server.addr":                   {`"[::1]:1"`, "[::1]:1"},
	"resp.addr":                     {`"[::1]:2"`, "[::1]:2"},
	"resp.largeIntegers":            {"true", "true"},
	"server.maxCount":               {"7", "7"},
	"server.drainDelay":             {"7s", "7s"},
	"server.stopTimeout":            {"7s", "7s"},
	"server.accessLog":              {"on", "on"},
	"server.trustedProxies":         {`["::1", 10.0.0.0/8]`, "::1,10.0.0.0/8"},
	"server.forwardedHeader":        {"Forwarded", "Forwarded"},
	"server.hosts":                  {"[a, b.example]", "a, b.example"},
	"server.pprof":                  {"true", "true"},
	"server.console":                {"false", "false"},
	"server.consoleSession":         {"7m", "7m"},
	"server.readHeaderTimeout":      {"7s", "7s"},
	"server.readTimeout":            {"7s", "7s"},
	"server.writeTimeout":           {"7s", "7s"},
	"server.idleTimeout":            {"7s", "7s"},
	"server.pluginTimeout":          {"7s", "7s"},
	"server.maxHeaderBytes":         {"7000", "7000"},
	"server.maxBodyBytes":           {"7", "7"},
	"server.tls.certFile":           {"y", "y"},
	"server.tls.keyFile":            {"y", "y"},
	"server.maxInFlight":            {"7", "7"},
	"server.maxInFlightBytes":       {"7000000", "7000000"},
	"server.maxConnections":         {"7", "7"},
	"idempotency.maxBytes":          {"7000000", "7000000"},
	"idempotency.maxBytesPerCaller": {"7000000", "7000000"},
	"jobs.atOnce":                   {"7", "7"},
	"events.keep":                   {"7h", "7h0m0s"},
	"jobs.most":                     {"7", "7"},
	"subscriptions.keepDead":        {"7m", "7m0s"},
	"snapshots.every":               {"7m", "7m0s"},
	"snapshots.folder":              {"y", "y"},
	"snapshots.keep":                {"7", "7"},
	"jobs.resultTTL":                {"7m", "7m0s"},
	"log.level":                     {"warn", "warn"},
	"log.format":                    {"text", "text"},
	"store.driver":                  {"memory", "memory"},
	"store.mustExist":               {"true", "true"},
	"store.bolt.path":               {"x.db", "x.db"},
	"store.bolt.lockTimeout":        {"7s", "7s"},
	"store.mongo.uri":               {`"mongodb://x:1"`, "mongodb://x:1"},
	"store.mongo.database":          {"x", "x"},
	"store.mongo.timeout":           {"7s", "7s"},

	"store.mongo.uriFile":           {"testdata/uri", "testdata/uri"},
	"store.postgres.urlFile":        {"testdata/url", "testdata/url"},
	"store.mysql.dsnFile":           {"testdata/dsn", "testdata/dsn"},
	"coordination.tokenFile":        {"testdata/password", "testdata/password"},
	"redis.passwordFile":            {"testdata/password", "testdata/password"},
	"redis.sentinelPasswordFile":    {"testdata/password", "testdata/password"},
	"store.postgres.url":            {`"postgres://x:1/x"`, "postgres://x:1/x"},
	"store.postgres.timeout":        {"7s", "7s"},
	"store.postgres.maxConnections": {"7", "7"},
	"store.postgres.failover":       {"lossless", "lossless"},
	"store.mysql.dsn":               {`"x@tcp(x:1)/x"`, "x@tcp(x:1)/x"},
	"store.mysql.timeout":           {"7s", "7s"},
	"store.mysql.maxConnections":    {"7", "7"},
	"store.mysql.failover":          {"lossless", "lossless"},
	"coordination.driver":           {"zookeeper", "zookeeper"},
	"coordination.addrs":            {`["x:1", "[::1]:2"]`, "x:1, [::1]:2"},
	"coordination.token":            {"y", "y"},
	"coordination.tls.enabled":      {"true", "true"},
	"coordination.tls.caFile":       {"y", "y"},
	"coordination.tls.certFile":     {"y", "y"},
	"coordination.tls.keyFile":      {"y", "y"},
	"coordination.tls.serverName":   {"y", "y"},
	"coordination.prefix":           {"a/b", "a/b"},
	"coordination.timeout":          {"700ms", "700ms"},
	"redis.addrs":                   {`["x:1", "[::1]:2"]`, "x:1, [::1]:2"},
	"redis.masterName":              {"y", "y"},
	"redis.username":                {"y", "y"},
	"redis.password":                {"y", "y"},
	"redis.sentinelUsername":        {"y", "y"},
	"redis.sentinelPassword":        {"y", "y"},
	"redis.db":                      {"7", "7"},
	"redis.tls.enabled":             {"true", "true"},
	"redis.tls.caFile":              {"y", "y"},
	"redis.tls.certFile":            {"y", "y"},
	"redis.tls.keyFile":             {"y", "y"},
	"redis.tls.serverName":          {"y", "y"},
	"redis.keyPrefix":               {`"y:"`, "y:"},
	"redis.timeout":                 {"700ms", "700ms"},
	"idempotency.ttl":               {"7m", "7m"},
	"metrics.enabled":               {"false", "false"},
	"metrics.maxBizTypes":           {"7", "7"},
	"auth.mode":                     {"none", "none"},
	"bizTypesFrom":                  {"config", "config"},
	"bizTypeFolder":                 {"y", "y"},
	"bizTypeVariables":              {"Y_", "Y_"},
	"liveBizTypes":                  {"700", "700"},
	"bizTypeIdle":                   {"7m", "7m"},
	"auth.publicMetrics":            {"true", "true"},
	"segment.start":                 {"7", "7"},
	"segment.ordering":              {"per-node", "per-node"},
	"segment.sequencer":             {"store", "store"},
	"segment.increment":             {"7", "7"},
	"segment.offset":                {"3", "3"},
	"segment.step":                  {"7", "7"},
	"segment.maxStep":               {"7000", "7000"},
	"segment.threshold":             {"0.7", "0.7"},
	"segment.targetDuration":        {"7s", "7s"},
	"segment.acquireTimeout":        {"7s", "7s"},
	"segment.onRedisDown":           {"reject", "reject"},
	"segment.reserveSegments":       {"7", "7"},
	"segment.restoreGap":            {"7", "7"},
	"segment.reset":                 {"daily", "daily"},
	"segment.timeZone":              {"Asia/Shanghai", "Asia/Shanghai"},
	"segment.periodRetention":       {"70h", "70h"},
	"segment.keyed":                 {"true", "true"},
	"segment.newKeysPerCaller":      {"7", "7"},
	"segment.liveKeysPerCaller":     {"7", "7"},
	"segment.maxKeys":               {"7", "7"},
	"segment.liveKeys":              {"7", "7"},
	"snowflake.epoch":               {`"2024-07-07T07:07:07Z"`, "2024-07-07T07:07:07Z"},
	"snowflake.bitsMachine":         {"7", "7"},
	"snowflake.bitsSequence":        {"7", "7"},
	"snowflake.bitsRack":            {"3", "3"},
	"snowflake.registry":            {"redis", "redis"},
	"snowflake.machineId":           {"7", "7"},
	"snowflake.rack":                {"7", "7"},
	"snowflake.horizon":             {"7s", "7s"},
	"snowflake.renewInterval":       {"700ms", "700ms"},
	"snowflake.pollInterval":        {"7s", "7s"},
	"snowflake.maxWait":             {"7ms", "7ms"},
	"snowflake.maxSkew":             {"700ms", "700ms"},
	"snowflake.randomStart":         {"true", "true"},
	"snowflake.offlineStart":        {"7s", "7s"},
	"snowflake.stateDir":            {"y", "y"},
	"snowflake.appName":             {"y", "y"},
	"snowflake.advertiseIp":         {`"10.0.0.7"`, "10.0.0.7"},

	"gapless.start":                {"7", "7"},
	"gapless.reset":                {"daily", "daily"},
	"gapless.timeZone":             {"Asia/Shanghai", "Asia/Shanghai"},
	"gapless.reservationTTL":       {"7s", "7s"},
	"gapless.maxReserved":          {"7", "7"},
	"gapless.maxReservedPerCaller": {"7", "7"},
	"gapless.onRelease":            {"void", "void"},
	"gapless.keyed":                {"true", "true"},
	"gapless.newKeysPerCaller":     {"7", "7"},
	"gapless.liveKeysPerCaller":    {"7", "7"},
	"gapless.maxKeys":              {"7", "7"},
	"gapless.liveKeys":             {"7", "7"},
	"gapless.acquireTimeout":       {"7s", "7s"},

	"server.accessLogPerSecond": {"7", "7"},
	"tracing.endpoint":          {`"http://x:4318"`, "http://x:4318"},
	"tracing.sampleRatio":       {"0.7", "0.7"},

	"compat.leaf":          {"true", "true"},
	"compat.leafSnowflake": {"y", "y"},
	"compat.tinyid":        {"true", "true"},
	"compat.cosid":         {"create", "create"},
	"compat.maxBizTypes":   {"7", "7"},
	"compat.token":         {"y", "y"},
}

// Every key has the same effect from every source, and an effect. A new key needs a line above.
func TestEveryKeyFromEverySource(t *testing.T) {
	for _, k := range config.Keys() {
		t.Run(k.Path, func(t *testing.T) {
			value, ok := another[k.Path]
			if !ok {
				t.Fatal("the test knows no value for this key")
			}
			flags := flagsBeside(k.Path)
			someBizType := someBizType
			if strings.HasPrefix(k.Path, "snowflake.") {
				someBizType = "bizTypes: [{name: user, strategy: snowflake}]\n"
			}
			if k.Path == "segment.reset" { // which needs a plugin that shows the date
				someBizType = "bizTypes: [{name: order, plugins: [{name: stamp, text: date}]}]\n"
			}
			file := mustLoad(t, someBizType+nested(k.Path, value.yaml), config.Sources{Flags: flags})
			if env := mustLoad(t, someBizType, config.Sources{Env: []string{k.Env() + "=" + value.text}, Flags: flags}); !reflect.DeepEqual(env, file) {
				t.Errorf("the environment gives %+v, the file %+v", env, file)
			}
			own := maps.Clone(flags)
			own[k.Path] = value.text
			if flag := mustLoad(t, someBizType, config.Sources{Flags: own}); !reflect.DeepEqual(flag, file) {
				t.Errorf("the flag gives %+v, the file %+v", flag, file)
			}
			// The default as documented is what a file may say; where other keys need this one, it
			// stands alone.
			without, err := config.LoadYAML([]byte(someBizType), config.Sources{Flags: flags})
			if err != nil {
				flags = nil
				without = mustLoad(t, someBizType, config.Sources{})
			}
			if reflect.DeepEqual(file, without) {
				t.Errorf("%s has no effect", value.yaml)
			}
			if got := mustLoad(t, someBizType+nested(k.Path, k.Text()), config.Sources{Flags: flags}); !reflect.DeepEqual(got, without) {
				t.Errorf("the documented default %s gives %+v", k.Text(), got)
			}
		})
	}
}

func TestTextOfDefaults(t *testing.T) {
	got := make(map[string]string)
	for _, k := range config.Keys() {
		got[k.Path] = k.Text() + " " + k.Env()
	}
	for path, want := range map[string]string{
		"server.addr":            "127.0.0.1:8080 SEQD_SERVER_ADDR",
		"server.drainDelay":      "0s SEQD_SERVER_DRAINDELAY",
		"server.stopTimeout":     "15s SEQD_SERVER_STOPTIMEOUT",
		"server.idleTimeout":     "2m SEQD_SERVER_IDLETIMEOUT",
		"server.trustedProxies":  "[] SEQD_SERVER_TRUSTEDPROXIES",
		"store.bolt.path":        "data/seqd.db SEQD_STORE_BOLT_PATH",
		"redis.addrs":            "[] SEQD_REDIS_ADDRS",
		"redis.tls.caFile":       `"" SEQD_REDIS_TLS_CAFILE`,
		"redis.keyPrefix":        `"seqd:" SEQD_REDIS_KEYPREFIX`,
		"segment.maxStep":        "100000000 SEQD_SEGMENT_MAXSTEP",
		"segment.threshold":      "0.2 SEQD_SEGMENT_THRESHOLD",
		"segment.targetDuration": "30m SEQD_SEGMENT_TARGETDURATION",
	} {
		must.Equal(t, got[path], want, "%s", path)
	}
	for value, want := range map[any]string{
		time.Hour: "1h", 90 * time.Minute: "1h30m", 90 * time.Second: "1m30s", time.Millisecond: "1ms", "": `""`, int64(7): "7",
	} {
		must.Equal(t, (config.Key{Default: value}).Text(), want, "%v is written", value)
	}
	must.Equal(t, (config.Key{Default: []string{"a", "b"}}).Text(), "[a, b]", "a list is written")
}

func TestEnvironment(t *testing.T) {
	t.Run("other programs' variables", func(t *testing.T) {
		mustLoad(t, someBizType, config.Sources{Env: []string{"PATH=/bin", "SEQ_X=1", "XSEQD_X=1", "SEQD=1", "seqd_x=1", "=", "", "NOVALUE"}})
	})
	t.Run("variables of the tests", func(t *testing.T) {
		mustLoad(t, someBizType, config.Sources{Env: []string{"SEQD_TEST_MONGO=x", "SEQD_TEST_=", "SEQD_TEST_SERVER_ADDR", "SEQD_CLIENT_ADDR=http://a:8080", "SEQD_CLIENT_TOKEN=x"}})
	})
	for _, name := range []string{"SEQD_NOPE", "SEQD_", "SEQD_TEST", "SEQD_TESTING", "SEQD_CLIENT", "SEQD_CLIENTS", "SEQD_SERVER", "SEQD_SERVER_", "SEQD_SERVER_ADDR_", "SEQD_SERVER.ADDR", "SEQD_BIZTYPE"} {
		t.Run(name, func(t *testing.T) {
			_, err := config.LoadYAML([]byte(someBizType), config.Sources{Env: []string{name + "=127.0.0.1:80"}})
			wantError(t, err, "environment variable "+name+": no key has this name")
		})
	}
	for _, name := range []string{"seqd_server_addr", "Seqd_Server_Addr", "seqd_auth_tokens"} {
		_, err := config.LoadYAML([]byte(someBizType), config.Sources{Env: []string{name + "=127.0.0.1:80"}})
		wantError(t, err, "environment variable "+name+": it is called "+strings.ToUpper(name))
	}
	t.Run("a value with an equals sign", func(t *testing.T) {
		must.Equal(t, mustLoad(t, someBizType, config.Sources{Env: []string{"SEQD_STORE_BOLT_PATH=a=b"}}).Store.Settings["bolt"].(*bolt.Settings).Path, "a=b", "the path")
	})
	t.Run("a list", func(t *testing.T) {
		got := mustLoad(t, someBizType, config.Sources{Env: []string{"SEQD_SERVER_TRUSTEDPROXIES=10.0.0.1, ::1 ,10.0.0.0/8"}}).Server.TrustedProxies
		if want := []string{"10.0.0.1", "::1", "10.0.0.0/8"}; !slices.Equal(got, want) {
			t.Errorf("the list is %q, want %q", got, want)
		}
	})
	t.Run("the last of two wins", func(t *testing.T) {
		must.Equal(t, mustLoad(t, someBizType, config.Sources{Env: []string{"SEQD_SERVER_MAXCOUNT=1", "SEQD_SERVER_MAXCOUNT=2"}}).Server.MaxCount, 2, "maxCount")
	})
}

func TestFiles(t *testing.T) {
	files := map[string]string{
		"seqd.yaml": "server: {maxCount: 7, stopTimeout: 3s, trustedProxies: [10.0.0.1]}\nsegment: {threshold: 0.5, step: 10}\nbizTypes:\n  - {name: order, start: 100, acquireTimeout: 1s}\n",
		"seqd.yml":  "Server:\n  MaxCount: 7\n  stoptimeout: 3s\n  trustedProxies:\n    - 10.0.0.1\nSEGMENT: {threshold: 0.5, step: 10}\nbiztypes:\n  - {Name: order, START: 100, acquiretimeout: 1s}\n",
		"seqd.json": `{"server": {"maxCount": 7, "stopTimeout": "3s", "trustedProxies": ["10.0.0.1"]}, "segment": {"threshold": 0.5, "step": 10}, "bizTypes": [{"name": "order", "start": 100, "acquireTimeout": "1s"}]}`,
	}
	for name, text := range files {
		t.Run(name, func(t *testing.T) {
			c := must.Get(config.Load(config.Sources{File: write(t, name, text)}))(t)
			wantServer := config.Default().Server
			wantServer.MaxCount, wantServer.StopTimeout, wantServer.TrustedProxies = 7, 3*time.Second, []string{"10.0.0.1"}
			if !reflect.DeepEqual(c.Server, wantServer) {
				t.Errorf("server is %+v, want %+v", c.Server, wantServer)
			}
			want := segment.DefaultSettings()
			want.Threshold, want.Step, want.Start, want.AcquireTimeout = 0.5, 10, 100, time.Second
			if got := settingsOf(t, c, 0); got != want || c.BizTypes[0].Name != "order" {
				t.Errorf("%s has %+v, want order with %+v", c.BizTypes[0].Name, got, want)
			}
		})
	}
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestFilesThatCannotBeRead(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.yaml")
	_, err := config.Load(config.Sources{File: missing})
	wantError(t, err, missing)
	_, err = config.Load(config.Sources{File: t.TempDir()})
	wantError(t, err, "read configuration")
	for name, text := range map[string]string{
		"broken.yaml": "server: {", "tab.yaml": "server:\n\tmaxCount: 1\n", "list.yaml": "- server\n", "text.yaml": "server\n",
		"broken.json": `{"server": `, "rest.json": `{"bizTypes": [{"name": "order"}]} {}`, "seqd.toml": "", "seqd.txt": someBizType, "seqd": someBizType,
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, name, text)
			_, err := config.Load(config.Sources{File: path})
			wantError(t, err, path)
		})
	}
}

// A node reads its configuration again while it issues, so a wrong file must not take its memory.
func TestFileThatIsTooLarge(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seqd.yaml")
	file := must.Get(os.Create(path))(t)
	must.Do(t, file.Truncate(1<<40)) // it takes no room on disk
	must.Do(t, file.Close())
	_, err := config.Load(config.Sources{File: path})
	wantError(t, err, "it is not a configuration of seqd")
}

func TestShippedFiles(t *testing.T) {
	files, err := filepath.Glob("../../configs/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in configs: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			c := must.Get(config.Load(config.Sources{File: file}))(t)
			if err := c.Validate(); err != nil {
				t.Errorf("loaded, yet not valid: %v", err)
			}
		})
	}
}

// The nodes of a cluster share a file and differ in what the environment or a flag says.
func TestShippedCluster(t *testing.T) {
	const file, addr = "../../configs/cluster.yaml", "127.0.0.1:8081"
	for _, src := range []config.Sources{
		{File: file, Env: []string{"SEQD_SERVER_ADDR=" + addr, "SEQD_REDIS_PASSWORD=x"}},
		{File: file, Flags: map[string]string{"server.addr": addr, "redis.password": "x"}},
	} {
		c := must.Get(config.Load(src))(t)
		if c.Server.Addr != addr || c.Redis.Password != "x" || c.Store.Driver != "mongo" || !c.Redis.Configured() || settingsOf(t, c, 0).Ordering != segment.Strict {
			t.Errorf("loaded %+v", c)
		}
	}
}

// A cluster can also do with its database alone: the file differs from the defaults only in the
// driver and the sequencer.
func TestShippedClusterOnSQL(t *testing.T) {
	for driver, secret := range map[string]string{"postgres": "SEQD_STORE_POSTGRES_URL=postgres://seqd:x@db:5432/seqd", "mysql": "SEQD_STORE_MYSQL_DSN=seqd:x@tcp(db:3306)/seqd"} {
		file, addr := "../../configs/cluster-"+driver+".yaml", "127.0.0.1:8081"
		c := must.Get(config.Load(config.Sources{File: file, Env: []string{secret}, Flags: map[string]string{"server.addr": addr}}))(t)
		if c.Server.Addr != addr || c.Store.Driver != driver || !c.Store.Shared() || c.Redis.Configured() {
			t.Errorf("loaded %+v", c)
		}
		if s := settingsOf(t, c, 0); s.Ordering != segment.Strict || s.Sequencer != segment.SequencerStore {
			t.Errorf("%s: the settings are %+v", driver, s)
		}
		without := must.Get(config.Load(config.Sources{File: file}))(t)
		def := config.Default()
		if def.Store.Driver = driver; !reflect.DeepEqual(without.Store, def.Store) {
			t.Errorf("%s: the store is %+v, want the defaults %+v", driver, without.Store, def.Store)
		}
	}
}
