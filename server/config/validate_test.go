package config_test

import (
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/config"
)

// envOf is the variable of a key.
func envOf(t *testing.T, path string) string {
	t.Helper()
	for _, k := range config.Keys() {
		if k.Path == path {
			return k.Env()
		}
	}
	t.Fatalf("there is no key %s", path)
	return ""
}

// Every value out of its range, from each of the three sources; the value is written alike in all
// of them.
func TestValuesOutOfRange(t *testing.T) {
	for key, values := range map[string][]string{
		"server.accessLogPerSecond": {"-1", "1000001"},
		"tracing.endpoint":          {"x:4318", "//x:4318", "ftp://x:4318", "http://", "http://:4318", "http://me@x:4318", "http://x:4318?a=b", "http://x:4318#a", "http://x:port"},
		"tracing.sampleRatio":       {"-0.1", "1.1"},

		"server.addr":                   {`nowhere`, `127.0.0.1`, `127.0.0.1:`, `127.0.0.1:http`, `127.0.0.1:65536`, `127.0.0.1:-1`, `::1:8080`, `192.0.2.1:8080`},
		"resp.addr":                     {`nowhere`, `127.0.0.1:`, `127.0.0.1:65536`, `192.0.2.1:6380`, `127.0.0.1:8080`, `127.0.0.1:08080`},
		"server.maxCount":               {"0", "-1", "1000001"},
		"server.drainDelay":             {"-1s", "1h1s"},
		"server.stopTimeout":            {"0s", "999ms", "1h1s"},
		"server.accessLog":              {"maybe", "ON", "true "},
		"server.consoleSession":         {"0s", "-1s", "4m59s", "24h1s"},
		"server.readHeaderTimeout":      {"0s", "-1s", "99ms", "1h1s"},
		"server.readTimeout":            {"0s", "-1s", "99ms", "1h1s"},
		"server.writeTimeout":           {"0s", "-1s", "2999ms", "1h1s"},
		"server.idleTimeout":            {"0s", "-1s", "99ms", "24h1s"},
		"server.pluginTimeout":          {"0s", "99ms", "1m1s"},
		"server.maxHeaderBytes":         {"0", "-1", "1023", "1048577"},
		"server.maxBodyBytes":           {"-1", "1073741825"},
		"server.maxInFlight":            {"-1", "1000001"},
		"server.maxInFlightBytes":       {"-1", "1", "1048575", "1099511627777"},
		"idempotency.maxBytes":          {"-1", "1", "1048575", "1099511627777"},
		"idempotency.maxBytesPerCaller": {"1048575", "1099511627777"},
		"jobs.atOnce":                   {"-1", "101"},
		"events.keep":                   {"59m", "8761h"},
		"jobs.most":                     {"0", "10001"},
		"subscriptions.keepDead":        {"59s", "721h"},
		"snapshots.every":               {"59s", "8761h"},
		"snapshots.keep":                {"0", "10001"},
		"jobs.resultTTL":                {"59s", "721h"},
		"server.maxConnections":         {"-1", "10000001"},
		"log.level":                     {"loud", "INFO", "Warn"},
		"log.format":                    {"xml", "JSON"},
		"store.driver":                  {"oracle", "Bolt"},
		"store.bolt.lockTimeout":        {"0s", "-1s", "1m1s"},
		"redis.db":                      {"-1", "16"},
		"redis.timeout":                 {"0s", "-1s", "49ms", "5001ms"},
		"bizTypesFrom":                  {"file", "Store"},
		"liveBizTypes":                  {"0", "10000001"},
		"bizTypeIdle":                   {"999ms", "-1s", "721h"},
		"auth.mode":                     {"off", "None", "tokens"},
		"idempotency.ttl":               {"0s", "-1m", "59s", "168h1s"},
		"metrics.maxBizTypes":           {"-1", "10001"},
		"segment.start":                 {"0", "-1", "9007199254740992", "9223372036854775807"},
		"segment.step":                  {"0", "-1", "100000001"},
		"segment.maxStep":               {"0", "-1", "1000000000001"},
		"segment.threshold":             {"0", "-0.1", "1.1"},
		"segment.targetDuration":        {"0s", "999ms", "-1h"},
		"segment.acquireTimeout":        {"-1s", "0", "9ms", "1m1s"},
	} {
		for _, value := range values {
			quoted := value
			if strings.ContainsAny(value, ": ") {
				quoted = `"` + value + `"`
			}
			fromEachSource(t, key, value, quoted, key+": ")
		}
	}
	fromEachSource(t, "store.bolt.path", "", `""`, "store.bolt.path: ")
	fromEachSource(t, "server.addr", "", `""`, "server.addr: ")
	// gin knows no zones
	for _, proxy := range []string{"10.0.0.1/8", "::ffff:10.0.0.1/104", "nobody", "10.0.0.0/33", "10.0.0", "::1%lo"} {
		fromEachSource(t, "server.trustedProxies", "10.0.0.1,"+proxy, `["10.0.0.1", "`+proxy+`"]`, "server.trustedProxies[1]: ")
	}
	for _, host := range []string{
		"seqd:8080", "http://seqd", "*.example.com", ".example.com", "example..com", "example.com.", "-a", "a-", "a b", "a/b", "é.example", "0.0.0.0", "::", "::ffff:10.0.0.1", "fe80::1%lo", "10.0.0.1:80", "1.2", "7", "[::1]", "@",
		strings.Repeat("a", 64), strings.Repeat("a.", 127) + "aa",
	} {
		fromEachSource(t, "server.hosts", "seqd-1,"+host, `["seqd-1", "`+host+`"]`, "server.hosts[1]: ")
	}
}

// fromEachSource checks that a wrong value of one key is refused with a message that contains want.
func fromEachSource(t *testing.T, key, text, yaml, want string) {
	t.Helper()
	t.Run(key+"="+text, func(t *testing.T) {
		t.Run("file", func(t *testing.T) {
			_, err := config.LoadYAML([]byte(someBizType+nested(key, yaml)), config.Sources{})
			wantError(t, err, want)
		})
		t.Run("environment", func(t *testing.T) {
			_, err := config.LoadYAML([]byte(someBizType), config.Sources{Env: []string{envOf(t, key) + "=" + text}})
			wantError(t, err, want)
		})
		t.Run("flag", func(t *testing.T) {
			_, err := config.LoadYAML([]byte(someBizType), config.Sources{Flags: map[string]string{key: text}})
			wantError(t, err, want)
		})
	})
}

// The ends of each range belong to it.
func TestValuesAtTheEnds(t *testing.T) {
	for key, values := range map[string][]string{
		"server.accessLogPerSecond": {"0", "1000000"},
		"tracing.endpoint":          {`""`, "http://x", `"http://[::1]:4318/a/b"`, "https://x:4318/"},
		"tracing.sampleRatio":       {"0", "1", "0.001"},

		"server.addr":              {`"127.0.0.1:0"`, `"127.0.0.1:65535"`},
		"resp.addr":                {`""`, `"127.0.0.1:0"`, `"[::1]:8080"`, `"127.0.0.2:8080"`},
		"server.maxCount":          {"1", "1000000"},
		"server.drainDelay":        {"0s", "0", "1h"},
		"server.stopTimeout":       {"1s", "1h"},
		"server.accessLog":         {"on", "off"},
		"server.trustedProxies":    {"[]", `[10.0.0.1, 10.0.0.0/8, "::1", "2001:db8::/32"]`},
		"server.hosts":             {"[]", `[a, seqd-1, my_seqd_1, SEQD.example, 1up.example, seqd.ns.svc.cluster.local, localhost, 10.0.0.1, "fd00::7", "` + strings.Repeat("a.", 126) + `a"]`},
		"server.consoleSession":    {"5m", "24h"},
		"server.readHeaderTimeout": {"100ms", "1h"},
		"server.readTimeout":       {"100ms", "1h"},
		"server.writeTimeout":      {"5s", "1h"}, // 3s without the acquireTimeout of 2s
		"server.idleTimeout":       {"100ms", "24h"},
		"server.pluginTimeout":     {"100ms", "1m"},
		"server.maxHeaderBytes":    {"1024", "1048576"},
		"server.maxBodyBytes":      {"0", "1073741824"},
		"server.maxInFlight":       {"0", "1000000"},
		"server.maxInFlightBytes":  {"0", "1048576", "1099511627776"},
		"server.maxConnections":    {"0", "10000000"},
		"log.level":                {"debug", "info", "warn", "error"},
		"log.format":               {"json", "text"},
		"store.driver":             {"bolt", "memory"},
		"store.mongo.database":     {"a", "seqd_2"},
		"store.mongo.timeout":      {"100ms", "10s"},
		"store.mongo.uri":          {`"mongodb://a:1,b:2/?tls=true&replicaSet=rs&w=majority&journal=true&readPreference=primary"`},
		"store.bolt.lockTimeout":   {"1ms", "1m"},
		"redis.db":                 {"0", "15"},
		"redis.keyPrefix":          {`""`, `"~!"`, `"` + strings.Repeat("a", 64) + `"`},
		"redis.timeout":            {"50ms", "5s"},
		"bizTypesFrom":             {"store", "config"},
		"liveBizTypes":             {"1", "10000000"},
		"bizTypeIdle":              {"0s", "1s", "720h"},
		"auth.mode":                {"auto", "none", "token"},
		"idempotency.ttl":          {"1m", "168h"},
		"metrics.maxBizTypes":      {"0", "10000"},
		"segment.ordering":         {"strict", "per-node"},
		"segment.sequencer":        {"auto", "redis", "store"}, // on a store of one node it does nothing
		"segment.start":            {"1", "9007199254740991"},
		"segment.step":             {"1", "100000000"},
		"segment.maxStep":          {"1000", "1000000000000"},
		"segment.threshold":        {"0.0001", "1", "1.0"},
		"segment.targetDuration":   {"1s", "1000h"},
		"segment.acquireTimeout":   {"10ms", "27s"}, // 1m without the writeTimeout of 30s
		"segment.periodRetention":  {"0s", "0", "48h"},
	} {
		for _, value := range values {
			t.Run(key+"="+value, func(t *testing.T) { mustLoad(t, someBizType+nested(key, value), config.Sources{}) })
		}
	}
}

func TestWrongTypes(t *testing.T) {
	tests := []struct{ name, yaml, want string }{
		{"text for a number", `server: {maxCount: "100"}`, `server.maxCount: "100" is not a whole number`},
		{"words for a number", `server: {maxCount: many}`, `server.maxCount: "many" is not a whole number`},
		{"a number for text", `log: {level: 1}`, "log.level: 1 is not text"},
		{"a number for an address", `server: {addr: 8080}`, "server.addr: 8080 is not text"},
		{"true for text", `store: {driver: true}`, "store.driver: true is not text"},
		{"a fraction for a whole number", `server: {maxCount: 1.5}`, "server.maxCount: 1.5 is not a whole number"},
		{"a fraction for a whole number of a strategy", `segment: {step: 1.5}`, "segment.step: 1.5 is not a whole number"},
		{"more than 64 bits", `segment: {step: 99999999999999999999}`, "segment.step: "},
		{"true for a number", `segment: {threshold: true}`, "segment.threshold: true is not a number"},
		{"not a number", `segment: {threshold: .nan}`, "segment.threshold: "},
		{"infinity", `segment: {threshold: .inf}`, "segment.threshold: "},
		{"a duration without unit", `server: {stopTimeout: 15}`, "server.stopTimeout: 15 is not a duration with a unit"},
		{"a duration without unit, as text", `server: {stopTimeout: "15"}`, `server.stopTimeout: "15" is not a duration with a unit`},
		{"a duration with an unknown unit", `server: {stopTimeout: 15d}`, `server.stopTimeout: "15d" is not a duration with a unit`},
		{"an empty duration", `server: {stopTimeout: ""}`, `server.stopTimeout: "" is not a duration with a unit`},
		{"a list for a value", `server: {addr: ["127.0.0.1:8080"]}`, "server.addr: "},
		{"a list for a number", `server: {maxCount: [1]}`, "server.maxCount: "},
		{"a list for a duration", `server: {stopTimeout: [1s]}`, "server.stopTimeout: "},
		{"a value for a list", `server: {trustedProxies: 10.0.0.1}`, `server.trustedProxies: "10.0.0.1" is not a list`},
		{"a number in a list", `server: {trustedProxies: [10.0.0.1, 7]}`, "server.trustedProxies: item 1: 7 is not text"},
		{"a list in a list", `server: {trustedProxies: [[]]}`, "server.trustedProxies: item 0"},
		{"null in a list", `server: {trustedProxies: [null]}`, "server.trustedProxies: item 0: it has no value"},
		{"a value for a section", `server: 127.0.0.1`, "server: it is a section"},
		{"a value for an inner section", `store: {bolt: data/seqd.db}`, "store.bolt: it is a section"},
		{"a list for a section", `segment: [{step: 5}]`, "segment: it is a section"},
		{"a section for a value", `log: {level: {app: info}}`, "log.level is a value, not a section"},
		{"an empty section for a value", `log: {level: {}}`, "log.level: "},
		{"a section for a list", `server: {trustedProxies: {a: b}}`, "server.trustedProxies is a value"},
		{"a duration, as the documentation prints it", `server: {consoleSession: 4m}`, "server.consoleSession: 4m is outside 5m to 24h"},
		{"null for text", `server: {addr: null}`, "server.addr: it has no value"},
		{"null for a number", `server: {maxCount: }`, "server.maxCount: it has no value"},
		{"null for a duration", `server: {stopTimeout: ~}`, "server.stopTimeout: it has no value"},
		{"null for a list", `server: {trustedProxies: null}`, "server.trustedProxies: it has no value"},
		{"null for a setting of a strategy", `segment: {step: null}`, "segment.step: it has no value"},
		{"null for a section", `server: null`, "server: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := config.LoadYAML([]byte(someBizType+tt.yaml+"\n"), config.Sources{})
			wantError(t, err, tt.want)
		})
	}
}

// A request that may wait longer than its answer may be written would take numbers and lose them.
func TestWaitFitsIntoTheAnswer(t *testing.T) {
	for _, text := range []string{
		"server: {writeTimeout: 4999ms}\n" + someBizType,
		"bizTypes: [{name: quick}, {name: patient, acquireTimeout: 28s}]\n",
	} {
		_, err := config.LoadYAML([]byte(text), config.Sources{})
		wantError(t, err, "server.writeTimeout: ", "too short")
	}
	mustLoad(t, "server: {writeTimeout: 63s}\nbizTypes: [{name: patient, acquireTimeout: 1m}]\n", config.Sources{})
}

// The message for a text that cannot be read names the variable or the flag it came from.
func TestWrongTextFromEnvironmentAndFlags(t *testing.T) {
	for key, values := range map[string][]string{
		"server.maxCount":        {"many", "", "1.5", "1e3", "99999999999999999999"},
		"server.maxBodyBytes":    {"64KiB"},
		"server.stopTimeout":     {"15", "", "soon"},
		"store.bolt.lockTimeout": {"1"},
		"segment.step":           {"1,000", "0x10"},
		"segment.threshold":      {"half", "", "NaN", "Inf", "1e999"},
		"segment.acquireTimeout": {"2 s"},
	} {
		for _, value := range values {
			t.Run(key+"="+value, func(t *testing.T) {
				_, err := config.LoadYAML([]byte(someBizType), config.Sources{Env: []string{envOf(t, key) + "=" + value}})
				wantError(t, err, "environment variable "+envOf(t, key)+": ")
				_, err = config.LoadYAML([]byte(someBizType), config.Sources{Flags: map[string]string{key: value}})
				wantError(t, err, "flag --"+key+": ")
			})
		}
	}
}

// viper lower-cases the keys it reports, so the messages about unknown ones do.
func TestUnknownKeys(t *testing.T) {
	tests := []struct{ name, yaml, want string }{
		{"top level", "colour: blue", "colour: there is no such key"},
		{"top level, a section", "statistics: {addr: x}", "statistics.addr: there is no such key"},
		{"top level, an empty section", "statistics: {}", "statistics: there is no such key"},
		{"top level, an empty list", "statistics: []", "statistics: there is no such key"},
		{"top level, no value", "statistics:", "statistics: there is no such key"},
		{"in a section", "server: {colour: blue}", "server.colour: there is no such key"},
		{"in a section, empty", "server: {colour: {}}", "server.colour: there is no such key"},
		{"in an inner section", "store: {bolt: {colour: blue}}", "store.bolt.colour: there is no such key"},
		{"in the section of a strategy", "segment: {steps: 5}", "segment.steps: there is no such key"},
		{"a key of another section", "log: {addr: x}", "log.addr: there is no such key"},
		{"a key at the top level", `addr: "127.0.0.1:1"`, "addr: there is no such key"},
		{"a near miss", "bizType: []", "bizType: there is no such key"},
		{"a number as key", "5: x", "5: there is no such key"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := config.LoadYAML([]byte(someBizType+tt.yaml+"\n"), config.Sources{})
			wantError(t, err, tt.want)
		})
	}
	t.Run("flag", func(t *testing.T) {
		_, err := config.LoadYAML([]byte(someBizType), config.Sources{Flags: map[string]string{"server.colour": "blue"}})
		wantError(t, err, "server.colour")
	})
}

// One key in two spellings has no one value; which of them wins must not be left to chance.
func TestOneKeyTwice(t *testing.T) {
	for name, text := range map[string]string{
		"section": someBizType + "server: {maxCount: 5}\nSERVER: {maxCount: 6}\n", "value": someBizType + "server: {maxCount: 5, maxcount: 6}\n",
		"exactly": someBizType + "server: {maxCount: 5, maxCount: 6}\n", "biz type": "bizTypes: [{name: order, start: 5, START: 6}]\n",
		"dotted": someBizType + "server.maxCount: 5\nserver: {maxCount: 6}\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := config.LoadYAML([]byte(text), config.Sources{})
			wantError(t, err)
		})
	}
}

// What stands behind the first document would be neither read nor refused.
func TestSecondDocument(t *testing.T) {
	_, err := config.LoadYAML([]byte(someBizType+"---\ncolour: blue\n"), config.Sources{})
	wantError(t, err)
}

func TestAllErrorsAtOnce(t *testing.T) {
	const unknown, wrongType = "colour: blue\n", "server: {stopTimeout: 15}\n"
	const outOfRange, outOfRangeToo = "log: {level: loud}\n", "store: {driver: oracle}\n"
	tests := []struct {
		name, yaml string
		src        config.Sources
		want       []string
	}{
		{"out of range, everywhere", someBizType + outOfRange + outOfRangeToo + "server: {maxCount: 0, addr: x, idleTimeout: 0s}\nauth: {mode: x}\n", config.Sources{},
			[]string{"log.level: ", "store.driver: ", "server.maxCount: ", "server.addr: ", "server.idleTimeout: ", "auth.mode: "}},
		{"unknown and of a wrong type", someBizType + unknown + wrongType, config.Sources{}, []string{"colour: ", "server.stopTimeout: "}},
		{"from all sources", someBizType + wrongType, config.Sources{Env: []string{"SEQD_NOPE=1", "SEQD_SERVER_MAXCOUNT=x"}, Flags: map[string]string{"segment.step": "x"}},
			[]string{"server.stopTimeout: ", "variable SEQD_NOPE: ", "variable SEQD_SERVER_MAXCOUNT: ", "flag --segment.step: "}},
		{"of a wrong type and out of range", someBizType + wrongType + outOfRange, config.Sources{}, []string{"server.stopTimeout: ", "log.level: "}},
		{"unknown and out of range", someBizType + unknown + outOfRange, config.Sources{}, []string{"colour: ", "log.level: "}},
		{"settings and the program", someBizType + "segment: {step: 0}\n" + outOfRange, config.Sources{}, []string{"segment.step: ", "log.level: "}},
		{"several settings", someBizType + "segment: {start: 0, threshold: 2, acquireTimeout: -1s}\n", config.Sources{},
			[]string{"segment.start: ", "segment.threshold: ", "segment.acquireTimeout: "}},
		{"several biz types", "bizTypes: [{name: 1a}, {name: b, start: 0}, {name: c, strategy: magic}, {name: d, colour: blue}]\n", config.Sources{},
			[]string{"bizTypes[0].name: ", "bizTypes[1].start: ", "bizTypes[2].strategy: ", "bizTypes[3].colour: "}},
		{"a biz type and the program", "bizTypes: [{name: 1a}]\n" + outOfRange, config.Sources{}, []string{"bizTypes[0].name: ", "log.level: "}},
		{"a biz type and an unknown key", "bizTypes: [{name: a, colour: blue}]\n" + unknown, config.Sources{}, []string{"bizTypes[0].colour: ", "\ncolour: "}},
		{"two biz types of one name and a wrong one", "bizTypes: [{name: a}, {name: a}, {name: b, start: 0}]\n", config.Sources{}, []string{"bizTypes[1].name: ", "bizTypes[2].start: "}},
		{"an open address and another", someBizType + "server: {addr: \"0.0.0.0:80\"}\n" + outOfRange, config.Sources{}, []string{"server.addr: ", "log.level: "}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := config.LoadYAML([]byte(tt.yaml), tt.src)
			if err != nil {
				err = &leading{err} // so that a key at the beginning of a line can be asked for
			}
			wantError(t, err, tt.want...)
		})
	}
}

type leading struct{ error }

func (l *leading) Error() string { return "\n" + l.error.Error() }

func TestLoopbackRule(t *testing.T) {
	for addr, loopback := range map[string]bool{
		"127.0.0.1:8080": true, "127.255.0.1:0": true, "[::1]:8080": true, "localhost:8080": true, "[::ffff:127.0.0.1]:80": true,
		":8080": false, "0.0.0.0:8080": false, "[::]:8080": false, "192.0.2.1:8080": false, "[2001:db8::1]:80": false, "seqd.example:80": false,
		"localhost.example:80": false, "127.0.0.1.example:80": false, "128.0.0.1:80": false, "[::ffff:192.0.2.1]:80": false,
	} {
		t.Run(addr, func(t *testing.T) {
			must.Equal(t, config.IsLoopback(addr), loopback, "IsLoopback")
			_, err := config.LoadYAML([]byte(someBizType), config.Sources{Flags: map[string]string{"server.addr": addr}})
			switch {
			case loopback && err != nil:
				t.Errorf("refused: %v", err)
			case !loopback:
				wantError(t, err, "server.addr: ", addr, "auth.mode")
			}
			mustLoad(t, someBizType, config.Sources{Flags: map[string]string{"server.addr": addr, "auth.mode": "none"}})
		})
	}
	for _, addr := range []string{"", "localhost", "127.0.0.1", "::1"} {
		if config.IsLoopback(addr) {
			t.Errorf("%q has no port and counts as loopback", addr)
		}
	}
}

// One wrong value is one message, although a request would have to wait for it too.
func TestWrongWaitIsOneMessage(t *testing.T) {
	for key, text := range map[string]string{
		"redis.timeout":              "redis: {addrs: [\"127.0.0.1:6379\"], timeout: 1m}\n" + someBizType,
		"segment.acquireTimeout":     "segment: {acquireTimeout: 2m}\n" + someBizType,
		"bizTypes[0].acquireTimeout": "bizTypes: [{name: order, acquireTimeout: 2m}]\n",
	} {
		_, err := config.LoadYAML([]byte(text), config.Sources{})
		wantError(t, err, key+": ")
		if strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("%s: more than one message:\n%v", key, err)
		}
	}
}

// The name or IP address in the address to listen on counts as well: a health check asks there.
func TestHostNames(t *testing.T) {
	for addr, want := range map[string]string{
		"0.0.0.0:8080": "a b", ":8080": "a b", "[::]:8080": "a b", "10.0.0.5:8080": "a b 10.0.0.5", "[FD00::7]:8080": "a b fd00::7", "[fe80::1%lo]:80": "a b fe80::1",
		"[::ffff:10.0.0.5]:80": "a b 10.0.0.5", "[::ffff:0.0.0.0]:80": "a b", "localhost:8080": "a b localhost", "seqd.example:8080": "a b seqd.example", "seqd.example.:8080": "a b seqd.example",
	} {
		s := config.Server{Addr: addr, Hosts: []string{"a", "b"}}
		must.Equal(t, strings.Join(s.HostNames(), " "), want, "%s", addr)
	}
}
