package seqd_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/seqd/seqd"

// rules say which packages of this module a folder may import in its product code, and why no
// others. The longest folder that matches counts. Data walks one way: cmd → command → server →
// Issuer → plugins → strategy → persist.
var rules = map[string]struct {
	may []string
	why string
}{
	".":                {nil, "the domain imports nothing of ours: everything else is built on it"},
	"persist":          {nil, "models and interfaces that drivers and strategies share know neither"},
	"persist/memory":   {[]string{"persist"}, "a driver knows its interface, and no strategy"},
	"persist/mongo":    {[]string{"persist"}, "a driver knows its interface, and no strategy"},
	"persist/bolt":     {[]string{"persist", "internal/folder"}, "a driver knows its interface, and no strategy"},
	"strategy":         {[]string{".", "persist", "internal/registry"}, "strategies do not know who runs them"},
	"plugin":           {[]string{".", "persist", "internal/registry"}, "plugins know neither strategies nor who runs them"},
	"plugin/obfuscate": {[]string{".", "plugin", "internal/folder"}, "plugins know neither each other nor who runs them"},
	"plugin/format":    {[]string{".", "plugin"}, "plugins know neither each other nor who runs them"},
	"plugin/history":   {[]string{".", "persist", "plugin", "internal/folder"}, "plugins know neither each other nor who runs them"},
	"plugin/ratelimit": {[]string{".", "plugin", "internal/redisonce"}, "plugins know neither each other nor who runs them"},
	"plugin/stats":     {[]string{".", "plugin"}, "plugins know neither each other nor who runs them"},
	"plugin/webhook":   {[]string{".", "plugin"}, "rejection handlers know neither each other nor who runs them"},
	"strategy/segment": {[]string{".", "persist", "strategy", "strategy/segment/rediscursor", "internal/sharedspan"},
		"strategies do not know each other nor who runs them; the cursor in Redis is a part of this one"},
	"strategy/segment/rediscursor": {[]string{"persist", "internal/redisonce"}, "the cursor knows ranges of numbers, and not who asks for them"},
	"strategy/snowflake": {[]string{".", "persist", "strategy", "strategy/snowflake/redisslots", "strategy/snowflake/statefile"},
		"strategies do not know each other nor who runs them; the registry in Redis and the file beside it are parts of this one"},
	"strategy/snowflake/redisslots": {[]string{"persist", "internal/redisonce"}, "a driver knows its interface, and not who asks"},
	"strategy/snowflake/statefile":  {[]string{"internal/folder"}, "a file with some values knows nothing of what they mean"},
	"standard": {[]string{"strategy/segment", "strategy/snowflake", "plugin/obfuscate", "plugin/format", "plugin/history", "plugin/ratelimit", "plugin/stats",
		"plugin/webhook"}, "it only registers what comes with seqd"},
	"server": {[]string{".", "persist", "persist/memory", "persist/bolt", "persist/mongo", "plugin", "strategy", "server/access", "server/config", "server/httpapi",
		"server/doctor", "server/idempotency", "server/metrics", "server/tracing", "strategy/segment/rediscursor"},
		"the runtime knows strategies and plugins by their registered names only; it asks the cursor's scripts whether Redis can be used, before it starts"},
	"server/config": {[]string{".", "persist/mongo", "plugin", "server/access", "strategy"},
		"the configuration opens nothing; it lets the driver check its URI, and knows what a token is"},
	"server/doctor": {[]string{".", "persist", "persist/bolt", "persist/mongo", "server/config", "strategy/segment/rediscursor"},
		"it looks at what the runtime uses; strategies and plugins it knows by the keys of their settings only"},
	"server/access":                      {[]string{".", "persist"}, "tokens are kept in documents; who asks, and how, they do not know"},
	"server/httpapi":                     {[]string{".", "server/access", "server/openapi"}, "HTTP knows the issuer and tokens, and nothing behind them; it serves its own description"},
	"server/tracing":                     {nil, "it knows requests and commands, and not what they are for"},
	"server/tracing/tracingtest":         {nil, "a collector for tests knows only the protocol"},
	"server/openapi":                     {nil, "a description is data: what answers requests is elsewhere, and tests compare the two"},
	"server/metrics":                     {[]string{"."}, "it counts what the domain tells; who serves it, and what is behind biz types, it does not know"},
	"server/idempotency":                 {[]string{".", "persist", "internal/redisonce", "internal/sharedspan"}, "it keeps answers, and knows neither HTTP nor who issues"},
	"server/idempotency/idempotencytest": {[]string{".", "server/idempotency"}, "a suite for backends knows only the interface and who uses it"},
	"command":                            {[]string{"internal/gcpace", "server", "server/access", "server/config"}, "flags, signals and sub-commands; a program says which plugins and strategies it comes with"},
	"cmd/seqd":                           {[]string{"command", "standard"}, "main calls the command line with all that comes with seqd, as a program of anybody's own does"},
	"examples/customplugin":              {[]string{"command", "standard", "examples/customplugin/own"}, "the main of a user's program only says what it consists of"},
	"examples/customplugin/own":          {[]string{".", "persist", "plugin", "strategy"}, "an example uses what a user's plugins and strategies may"},
	"internal/clockseqd":                 {[]string{"server", "server/config", "standard"}, "it is cmd/seqd with another clock"},
	"persist/persisttest":                {[]string{"persist"}, "a suite for drivers knows only the interface"},
	"internal/gcpace":                    {nil, "it knows only the memory of the process"},
	"internal/folder":                    {nil, "it knows only the file system"},
	"internal/redisonce":                 {nil, "it knows commands, and not what they are for"},
	"internal/sharedspan":                {nil, "it knows callers by their spans only"},
	"internal/sabotage":                  {nil, "it knows rules by their names only"},
	"internal/worlds":                    {nil, "what models share knows none of them"},
	"internal/registry":                  {nil, "it keeps names and knows nothing of what they stand for"},
	"internal/node":                      {[]string{"internal/history"}, "it knows seqd from outside only"},
	"internal/history":                   {nil, "the checker must not depend on what it checks"},
}

func TestImports(t *testing.T) {
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
		folder := path.Dir(filepath.ToSlash(file))
		rule, known := rules[folder]
		if !known {
			t.Errorf("%s: there is no rule for the folder %s", file, folder)
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range parsed.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if name != module && !strings.HasPrefix(name, module+"/") {
				continue
			}
			target := strings.TrimPrefix(strings.TrimPrefix(name, module), "/")
			if target == "" {
				target = "."
			}
			allowed := target == "internal/sabotage" // whose default build is nothing
			for _, may := range rule.may {
				allowed = allowed || may == target
			}
			if !allowed {
				t.Errorf("%s imports %s: %s", file, target, rule.why)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// isModule reports whether a folder is a module of its own.
func isModule(folder string) bool {
	found, err := filepath.Glob(filepath.Join(folder, "go.mod"))
	return err == nil && len(found) > 0
}
