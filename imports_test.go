package seqd_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/seqd/seqd"

// A rule says which packages of this module a folder may import in its product code, and why no
// others. "." is the root package. Package net/http counts as one of this module: what does not
// speak HTTP does without its types.
type rule struct{ may, why string }

// everywhere are the folders that every other may import: what reads values as text, so that no
// other does, and what does nothing in the default build.
var everywhere = []string{"internal/literal", "internal/sabotage"}

// rules are the rules by folder: add one for each new package. Arrows go one way: cmd → command →
// server → issuer, plugins and strategies → persist, and all of them to the words in the root.
var rules = map[string]rule{
	// The domain.
	".": {
		why: "everything else is built on the domain, so it imports nothing of the module",
	},
	"issuer": {
		may: ". internal/fewlines",
		why: "the engine uses the words of the domain, and neither a strategy nor a store; it bounds the lines that callers cause",
	},

	// Storage.
	"persist": {
		may: "internal/bounded",
		why: "models and interfaces that drivers and strategies share depend on neither",
	},
	"persist/driver": {
		may: ". internal/registry persist",
		why: "the registry of stores names none of them",
	},
	"persist/memory": {
		may: "persist persist/driver",
		why: "a driver depends on the interface, not on a strategy",
	},
	"persist/bolt": {
		may: ". internal/folder persist persist/driver",
		why: "a driver depends on the interface, not on a strategy",
	},
	"persist/mongo": {
		may: ". internal/distrust persist persist/driver",
		why: "a driver depends on the interface, not on a strategy",
	},
	"persist/postgres": {
		may: ". internal/connlimit internal/distrust internal/secretfile persist persist/driver persist/sqlstore",
		why: "a driver depends on the interface and on what stores in SQL share, not on a strategy",
	},
	"persist/mysql": {
		may: ". internal/connlimit internal/distrust internal/secretfile persist persist/driver persist/sqlstore",
		why: "a driver depends on the interface and on what stores in SQL share, not on a strategy",
	},
	"persist/sqlstore": {
		may: ". persist persist/driver",
		why: "what stores in SQL share depends on the interface, not on a strategy",
	},
	"persist/timed": {
		may: "persist",
		why: "it wraps any store",
	},
	"persist/storeclock": {
		may: "persist",
		why: "the clock of a store depends on the store, not on who asks for the time",
	},
	"persist/persisttest": {
		may: "internal/testing/longtest persist persist/driver",
		why: "a suite for drivers uses the interface only, and a switch for tests that take long",
	},

	// Coordination.
	"coordination": {
		may: "persist",
		why: "documents are those of a store, whoever coordinates by them",
	},
	"coordination/consul": {
		may: "coordination net/http persist",
		why: "a driver depends on the interface; Consul speaks HTTP",
	},
	"coordination/zookeeper": {
		may: "coordination persist",
		why: "a driver depends on the interface",
	},
	"coordination/coordinationtest": {
		may: "coordination internal/testing/must persist persist/persisttest",
		why: "a suite for drivers uses the interface, and tests that stores pass too",
	},

	// Strategies. They do not depend on who runs them, nor on each other.
	"strategy": {
		may: ". coordination internal/redisbatch internal/registry persist persist/storeclock",
		why: "the registry of strategies names none of them",
	},
	"strategy/counters": {
		may: ". internal/lockorder persist strategy",
		why: "it knows which counters there are and when one is open, not what a counter is",
	},
	"strategy/segment": {
		may: ". internal/lockorder internal/sharedspan persist strategy strategy/counters strategy/segment/cursor " +
			"strategy/segment/rediscursor strategy/segment/storetake",
		why: "the machines of takes and the scripts in Redis are parts of this strategy",
	},
	"strategy/segment/storetake": {
		may: ". internal/ruleset persist strategy/segment/cursor",
		why: "the machine is pure: it decides, and the strategy acts; both machines give errors of the store the same form",
	},
	"strategy/segment/cursor": {
		may: ". internal/ruleset persist strategy/counters strategy/segment/rediscursor",
		why: "the machine is pure: it decides, and the strategy acts; it uses the types of what the scripts answer, and tells a period that was removed from other errors",
	},
	"strategy/segment/rediscursor": {
		may: "internal/redisbatch internal/redisonce persist",
		why: "the scripts and their client handle ranges, whoever asks for them",
	},
	"strategy/gapless": {
		may: ". internal/bounded internal/lockorder persist persist/storeclock strategy strategy/counters strategy/gapless/ledger",
		why: "the machine of a ledger is a part of this strategy; the counters of keys are kept as others keep them",
	},
	"strategy/gapless/gaplesstest": {
		may: ". internal/testing/await persist persist/storeclock strategy strategy/gapless",
		why: "a suite for stores uses the strategy as a node does, and waits for what happens in the background",
	},
	"strategy/gapless/ledger": {
		may: ". internal/ruleset persist",
		why: "the machine is pure: it decides, and the strategy acts",
	},
	"strategy/snowflake": {
		may: ". persist strategy strategy/snowflake/coordslots strategy/snowflake/machineid strategy/snowflake/redisslots strategy/snowflake/statefile",
		why: "the protocol of leases, the registries in Redis and in a coordinator, and the state file are parts of this strategy",
	},
	"strategy/snowflake/coordslots": {
		may: "coordination persist",
		why: "a driver depends on the interfaces, not on who uses it",
	},
	"strategy/snowflake/machineid": {
		may: "persist",
		why: "the protocol is pure: it decides, and whoever leases a machine ID acts",
	},
	"strategy/snowflake/redisslots": {
		may: "internal/redisonce persist",
		why: "a driver depends on the interface, not on who uses it",
	},
	"strategy/snowflake/statefile": {
		may: "internal/folder",
		why: "a file of values does not depend on their meaning",
	},

	// Plugins and rejection handlers. They do not depend on strategies, nor on each other.
	"plugin": {
		may: ". internal/registry persist",
		why: "the registry of plugins names none of them",
	},
	"plugin/format": {
		may: ". plugin",
		why: "a plugin uses the domain and its registry",
	},
	"plugin/history": {
		may: ". internal/bounded internal/folder internal/longlock internal/retry internal/sheet persist persist/storeclock plugin",
		why: "it writes to the store, or to files, searches for one request at a time, and removes what is old by the store's clock",
	},
	"plugin/obfuscate": {
		may: ". internal/folder plugin",
		why: "it keeps its keys in files",
	},
	"plugin/ratelimit": {
		may: ". internal/redisonce plugin",
		why: "it counts in Redis",
	},
	"plugin/stats": {
		may: ". plugin",
		why: "a plugin uses the domain and its registry",
	},
	"plugin/webhook": {
		may: ". internal/outbound internal/retry internal/version net/http plugin",
		why: "it repeats its requests, and says which version sends them",
	},
	"standard": {
		may: "persist/bolt persist/memory persist/mongo persist/mysql persist/postgres plugin/format " +
			"plugin/history plugin/obfuscate plugin/ratelimit plugin/stats plugin/webhook strategy/gapless strategy/segment strategy/snowflake",
		why: "it registers everything that comes with seqd, and does nothing else",
	},

	// The service. It uses strategies and plugins by their registered names only.
	"server": {
		may: ". coordination internal/bounded internal/longlock internal/outbound internal/resident internal/retry internal/seams internal/version issuer net/http persist persist/driver " +
			"persist/storeclock server/access server/admin server/answerquota server/audit server/backends server/brake server/certificate server/compat server/config server/console " +
			"server/definitions server/events server/feed server/figures server/forwarded server/gate server/httpapi server/idempotency server/jobs " +
			"server/logging server/metrics server/nodes server/openfiles server/rejection server/resp " +
			"server/snapshot server/standings server/storeerror server/subscriptions server/terms server/tracing server/workers strategy",
		why: "it connects the parts of the service, and contains no command besides the service",
	},
	"server/admin": {
		may: ".",
		why: "what administrators read and change has no protocol and no store: its services and " +
			"what asks for them import it, and not each other",
	},
	"server/access": {
		may: ". internal/glob persist persist/storeclock",
		why: "tokens are documents; routes and requests are elsewhere",
	},
	"server/answerquota": {
		may: ". persist server/logging server/nodes",
		why: "what is kept is counted in documents; answers are elsewhere",
	},
	"server/audit": {
		may: ". internal/longlock persist persist/storeclock server/admin server/logging",
		why: "lines are documents; where they come from is elsewhere",
	},
	"server/backends": {
		may: ". coordination coordination/consul coordination/zookeeper internal/bounded internal/connlimit internal/distrust internal/redisbatch internal/redisbound internal/retry internal/seams internal/secretfile persist persist/driver persist/timed server/config " +
			"strategy/segment/rediscursor",
		why: "the only package that opens stores and coordinators, whatever their drivers are; the scripts of the cursor show whether Redis " +
			"can be used",
	},
	"server/backends/backendstest": {
		why: "a fake for tests implements the protocol only",
	},
	"server/certificate": {
		may: "server/config",
		why: "it reads two files, whoever listens with them",
	},
	"server/certificate/certificatetest": {
		may: "server/config",
		why: "certificates for tests need to know the settings only",
	},
	"server/config": {
		may: ". client/admin internal/secretfile persist/driver plugin server/access server/forwarded strategy",
		why: "the configuration opens nothing but files of secrets; a driver brings its settings, package access " +
			"says what a token is, and the client how settings are described",
	},
	"server/definitions": {
		may: ". internal/bounded internal/glob internal/longlock internal/retry issuer persist plugin server/admin server/config server/feed " +
			"server/nodes server/rejection strategy strategy/gapless/ledger",
		why: "it uses documents, the feed and the issuer, and neither a back end nor a protocol; " +
			"which nodes follow changes is known to nodes; a ledger says how far a counter has come",
	},
	"server/doctor": {
		may: ". coordination net/http persist persist/driver server/config " +
			"strategy/gapless/ledger strategy/segment/rediscursor",
		why: "it examines the back ends of the service, and needs of strategies and plugins the " +
			"keys of their settings only; a driver examines its store",
	},
	"server/feed": {
		may: ". internal/instant internal/retry persist",
		why: "it reports which documents change, whatever they contain",
	},
	"server/figures": {
		may: ". issuer persist server/admin server/gate server/logging server/nodes",
		why: "it merges what nodes tell each other, and gets its own counts from an interface; the " +
			"gate knows which codes there are",
	},
	"server/compat": {
		may: ". issuer net/http server/access server/admin server/gate server/httpapi",
		why: "it issues through what every protocol asks, and adds routes to those of httpapi",
	},
	"server/gate": {
		may: ". internal/fewlines issuer persist server/access server/admin server/connections",
		why: "what every protocol asks depends on none of them; it bounds the lines that callers cause",
	},
	"server/connections": {
		why: "it knows connections, and neither what is said on them nor by whom",
	},
	"server/console": {
		may: ". net/http persist server/access server/admin server/forwarded server/httpapi",
		why: "it is a client of the API, beside which it is served; sessions are documents, and " +
			"hold tokens",
	},
	"server/errorpage": {
		may: ".",
		why: "what codes mean is data, whoever shows it",
	},
	"server/forwarded": {
		why: "it looks at a request, whatever is asked",
	},
	"server/httpapi": {
		may: ". internal/fewlines internal/lazydeadline internal/longlock internal/sheet issuer net/http server/access server/admin server/connections " +
			"server/errorpage server/forwarded server/gate server/openapi",
		why: "HTTP uses the issuer and tokens, and nothing behind them; it serves its own " +
			"description",
	},
	"server/idempotency": {
		may: ". internal/fewlines internal/redisonce internal/sharedspan persist persist/storeclock server/logging",
		why: "it keeps answers, and depends neither on HTTP nor on the issuer",
	},
	"server/idempotency/idempotencytest": {
		may: ". server/idempotency",
		why: "a suite for back ends uses the interface only",
	},
	"server/logging": {
		why: "it decides how lines are written, not which ones",
	},
	"server/metrics": {
		may: ". issuer",
		why: "it counts what the domain reports, and depends neither on HTTP nor on back ends",
	},
	"server/nodes": {
		may: ". internal/instant internal/longlock issuer persist persist/storeclock server/admin server/logging",
		why: "it keeps what nodes report of themselves, and gets it from functions",
	},
	"server/openapi": {
		why: "a description is data, which tests compare with the routes",
	},
	"server/openfiles": {
		why: "it uses the operating system only",
	},
	"server/brake": {
		why: "it knows no work, only how long it took",
	},
	"server/snapshot": {
		may: "internal/folder internal/version persist",
		why: "a snapshot is what a store has, whatever that means",
	},
	"server/ops": {
		may: ". coordination internal/folder internal/sabotage internal/sheet net/http persist persist/driver server/backends server/certificate " +
			"server/access server/admin server/config server/definitions server/doctor server/idempotency server/jobs server/nodes server/openfiles server/snapshot server/standings server/subscriptions server/workers strategy " +
			"strategy/counters strategy/gapless/ledger strategy/segment/rediscursor",
		why: "commands open the back ends themselves, and use nothing of a running service",
	},
	"server/standings": {
		may: ". internal/longlock persist server/admin server/config server/definitions strategy strategy/counters strategy/gapless/ledger",
		why: "it reads counters of a store; a definition names the strategy, and a ledger says how far a counter has come",
	},
	"server/rejection": {
		may: ". internal/bounded plugin",
		why: "it shares rejection handlers among biz types, and names none of them",
	},
	"server/resp": {
		may: ". issuer server/access server/connections server/forwarded server/gate",
		why: "the Redis protocol uses the issuer and what every protocol asks, and nothing else",
	},
	"server/tracing": {
		may: "net/http persist/driver",
		why: "it traces requests and commands of any kind",
	},
	"server/jobs": {
		may: ". internal/literal internal/sabotage persist server/admin server/brake server/storeerror server/terms",
		why: "it issues through an interface, and depends neither on HTTP nor on a strategy",
	},
	"server/subscriptions": {
		may: ". internal/outbound internal/version net/http persist server/admin server/events server/storeerror server/terms",
		why: "it sends what the streams have, by the terms, and knows nothing of who else reads them",
	},
	"server/events": {
		may: ". internal/ruleset internal/sabotage persist server/admin server/logging server/storeerror server/terms",
		why: "it moves events that are documents, whatever they tell of, and depends neither on HTTP nor on a strategy",
	},
	"server/storeerror": {
		may: ". persist",
		why: "it says what became of any question to the store, whoever asks it",
	},
	"server/terms": {
		may: "coordination internal/instant persist server/logging",
		why: "who does a piece of work is decided by documents of the store and of a coordinator, whatever the work is",
	},
	"server/workers": {
		may: ". internal/longlock persist server/admin server/storeerror strategy/snowflake/machineid",
		why: "it leases by the protocol of machine IDs, and depends neither on HTTP nor on a strategy that issues",
	},
	"server/tracing/tracingtest": {
		may: "net/http",
		why: "a collector for tests implements the protocol only",
	},

	// Programs and examples.
	"command": {
		may: "client client/admin command/clitool command/generate command/imports command/lease command/remote command/top " +
			"internal/gcpace internal/version server server/access server/config server/doctor server/ops",
		why: "flags, signals and sub-commands; the program imports its plugins and strategies",
	},
	"command/clitool": {
		may: "client client/admin",
		why: "commands share it, whatever they do",
	},
	"command/generate": {
		may: "client client/admin command/clitool internal/folder",
		why: "a client of the service knows the service by its API only",
	},
	"command/imports": {
		may: ". client client/admin command/clitool internal/folder",
		why: "a client of the service knows the service by its API only, and which names and numbers " +
			"the domain allows",
	},
	"command/lease": {
		may: "client command/clitool",
		why: "a client of the service knows the service by its API only",
	},
	"command/remote": {
		may: "client client/admin command/clitool internal/sheet",
		why: "a client of the service knows the service by its API only",
	},
	"command/top": {
		may: "client client/admin command/clitool",
		why: "a client of the service knows the service by its API only",
	},
	"cmd/seqd": {
		may: "command standard",
		why: "main calls the command line with everything that comes with seqd, as any other " +
			"program does",
	},
	"examples/customplugin": {
		may: "command examples/customplugin/own standard",
		why: "the main of a program of one's own lists its parts",
	},
	"examples/customplugin/own": {
		may: ". persist plugin strategy",
		why: "an example uses what plugins and strategies of one's own may use",
	},
	"examples/embedded": {
		may: ". issuer persist persist/bolt strategy strategy/segment",
		why: "a program that embeds the issuer needs a store and a strategy, and no server",
	},
	"examples/invoices": {
		may: "client net/http",
		why: "a program that takes numbers over HTTP needs the client only",
	},

	// What others share.
	"internal/bounded": {
		why: "it guards calls of any kind",
	},
	"internal/commanddoc": {
		may: "command",
		why: "it lists the commands, which every program has",
	},
	"internal/configdoc": {
		may: "plugin server/config standard strategy",
		why: "it lists the settings of everything that comes with seqd",
	},
	"internal/connlimit": {
		why: "it limits what any kind of client does at once",
	},
	"internal/distrust": {
		why: "it wraps a connection of any kind of client",
	},
	"internal/fewlines": {
		why: "it counts lines, whatever they say",
	},
	"internal/folder": {
		why: "it uses the file system only",
	},
	"internal/gcpace": {
		why: "it uses the memory of the process only",
	},
	"internal/glob": {
		why: "it compares texts of any kind",
	},
	"internal/lockorder": {
		why: "it is two kinds of locks",
	},
	"internal/instant": {
		why: "it reads clocks",
	},
	"internal/longlock": {
		why: "it is a lock",
	},
	"internal/lazydeadline": {
		why: "it wraps a connection of any kind of server",
	},
	"internal/secretfile": {
		why: "a file is all that it knows",
	},
	"internal/redisbound": {
		why: "it looks at what a server sends, whoever has asked",
	},
	"internal/redisbatch": {
		may: "internal/redisonce internal/sharedspan",
		why: "it sends commands of any kind, and traces their callers",
	},
	"internal/redisonce": {
		why: "it sends commands of any kind",
	},
	"internal/registry": {
		why: "it keeps names, whatever they name",
	},
	"internal/resident": {
		why: "it uses the memory of the process only",
	},
	"internal/outbound": {
		may: "net/http",
		why: "it posts what others have, whatever that is",
	},
	"internal/retry": {
		why: "it repeats operations of any kind",
	},
	"internal/literal": {
		why: "it reads text, wherever it stands",
	},
	"internal/sabotage": {
		why: "it takes rules out of builds for tests, by their names",
	},
	"internal/sheet": {
		why: "it writes cells, whatever they say",
	},
	"internal/ruleset": {
		why: "it keeps rules by number and name, whatever they say",
	},
	"internal/seams": {
		may: "coordination persist persist/driver",
		why: "it names what a simulation replaces, and does nothing",
	},
	"internal/sharedspan": {
		why: "it traces callers by their spans only",
	},
	"internal/version": {
		why: "it reads how the program was built",
	},

	// The test harness.
	"internal/testing/await": {
		why: "it waits and knows nothing of what is awaited",
	},
	"internal/testing/check": {
		may: "internal/testing/record",
		why: "a checker that shared code with seqd would share its mistakes",
	},
	"internal/testing/clockseqd": {
		may: "server server/config server/logging server/ops standard",
		why: "it is cmd/seqd with another clock",
	},
	"internal/testing/load": {
		may: "internal/testing/record internal/testing/respconn net/http",
		why: "it calls seqd from outside only",
	},
	"internal/testing/longtest": {
		why: "it reads an environment variable",
	},
	"internal/testing/must": {
		may: ".",
		why: "it fails a test and knows errors and their codes, nothing of what failed",
	},
	"internal/testing/node": {
		may: "internal/testing/await internal/testing/ordercheck net/http",
		why: "it uses seqd from outside only",
	},
	"internal/testing/ordercheck": {
		why: "a checker must not depend on what it checks",
	},
	"internal/testing/pipes": {
		why: "it knows connections only",
	},
	"internal/testing/racing": {
		why: "it knows how it was compiled",
	},
	"internal/testing/record": {
		why: "a record does not depend on what is recorded",
	},
	"internal/testing/respconn": {
		why: "it shares no code with what it talks to",
	},
	"internal/testing/sim": {
		may: ". coordination internal/instant internal/longlock internal/sabotage internal/seams internal/testing/check internal/testing/load internal/testing/record net/http " +
			"internal/testing/sim/boltsim internal/testing/sim/netsim internal/testing/sim/redissim internal/testing/sim/storesim internal/testing/worlds persist persist/driver server server/config server/ops server/terms strategy/gapless/ledger",
		why: "it runs services and commands as seqd does, and calls them from outside",
	},
	"internal/testing/sim/boltsim": {
		why: "it copies files, and needs of the store their names only",
	},
	"internal/testing/sim/storesim": {
		may: "persist persist/memory",
		why: "a simulated database depends on what a store is, not on who uses it",
	},
	"internal/testing/sim/netsim": {
		why: "it knows connections only",
	},
	"internal/testing/sim/redissim": {
		why: "it is a Redis, whoever uses it; the scripts that it runs come from its clients",
	},
	"internal/testing/scenario": {
		why: "it plays scenarios and knows no machine",
	},
	"internal/testing/tcppair": {
		why: "it knows connections only",
	},
	"internal/testing/testlog": {
		why: "it keeps text, whoever writes it",
	},
	"internal/testing/worlds": {
		why: "models share it, and it depends on none of them",
	},
}

func TestImports(t *testing.T) {
	seen := make(map[string]bool)
	eachProductFile(t, func(file string) error {
		folder := path.Dir(file)
		rule, known := rules[folder]
		if !known && !seen[folder] {
			t.Errorf("%s has no rule: add one to rules", folder)
		}
		seen[folder] = true
		if !known {
			return nil
		}
		imported, err := ownImports(file)
		for _, folder := range imported {
			if !slices.Contains(everywhere, folder) && !slices.Contains(strings.Fields(rule.may), folder) {
				t.Errorf("%s imports %s: %s", file, folder, rule.why)
			}
		}
		return err
	})
	for folder := range rules {
		if !seen[folder] {
			t.Errorf("%s has a rule and no package: delete the rule", folder)
		}
	}
}

// askers are the files that ask what a strategy, a plugin, a rejection handler or settings can do.
// Package issuer asks too, by its function ask. If others did, it would be hard to find what an
// ability is for, and a wrapper could hide it from some of them.
var askers = []string{"abilities.go", "strategy/claim.go"}

func TestAbilities(t *testing.T) {
	asked, askedInside := regexp.MustCompile(`\.\((?:seqd|strategy|plugin)\.([A-Z]\w*)\)`), regexp.MustCompile(`\.\(([A-Z]\w*)\)`)
	eachProductFile(t, func(file string) error {
		text, err := os.ReadFile(file)
		found := asked.FindAllSubmatch(text, -1)
		if slices.Contains([]string{".", "strategy", "plugin"}, path.Dir(file)) {
			found = append(found, askedInside.FindAllSubmatch(text, -1)...)
		}
		for _, ability := range found {
			// An observer is asked where it comes in.
			if name := string(ability[1]); !slices.Contains(askers, file) && !strings.HasSuffix(name, "Observer") {
				t.Errorf("%s asks for a %s: only %q ask", file, name, askers)
			}
		}
		return err
	})
}

// The client is a module that other programs depend on. It needs the standard library and itself,
// tests included, so that nothing else enters their builds.
func TestClientStandsAlone(t *testing.T) {
	files := 0
	err := filepath.WalkDir("client", func(file string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, ".go") {
			return err
		}
		files++
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range parsed.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			first, _, _ := strings.Cut(name, "/")
			if strings.Contains(first, ".") && name != module+"/client" && name != module+"/client/admin" {
				t.Errorf("%s imports %s: the client needs the standard library only", file, name)
			}
		}
		return nil
	})
	if err != nil || files == 0 {
		t.Fatalf("%d files of the client were read: %v", files, err)
	}
	text, err := os.ReadFile("client/go.mod")
	if err != nil || strings.Contains(string(text), "require") {
		t.Errorf("client/go.mod requires something: %v\n%s", err, text)
	}
}

// eachProductFile calls f with each Go file of this module that is no test.
func eachProductFile(t *testing.T, f func(file string) error) {
	t.Helper()
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && file != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || isModule(file)) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		return f(filepath.ToSlash(file))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// ownImports returns the folders of this module that a file imports.
func ownImports(file string) (folders []string, err error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	for _, spec := range parsed.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		if name == module {
			folders = append(folders, ".")
		} else if folder, ok := strings.CutPrefix(name, module+"/"); ok || name == "net/http" {
			folders = append(folders, folder)
		}
	}
	return folders, nil
}

// isModule reports whether a folder is a module of its own.
func isModule(folder string) bool {
	found, err := filepath.Glob(filepath.Join(folder, "go.mod"))
	return err == nil && len(found) > 0
}
