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
	"plugin/history":   {[]string{".", "persist", "plugin", "internal/folder", "internal/retry"}, "plugins know neither each other nor who runs them"},
	"plugin/ratelimit": {[]string{".", "plugin", "internal/redisonce"}, "plugins know neither each other nor who runs them"},
	"plugin/stats":     {[]string{".", "plugin"}, "plugins know neither each other nor who runs them"},
	"plugin/webhook":   {[]string{".", "plugin", "internal/retry", "internal/version"}, "rejection handlers know neither each other nor who runs them"},
	"strategy/segment": {[]string{".", "persist", "strategy", "strategy/segment/cursor", "strategy/segment/rediscursor", "internal/sharedspan"},
		"strategies do not know each other nor who runs them; the cursor in Redis is a part of this one"},
	"strategy/segment/cursor":      {[]string{".", "persist", "strategy/segment/rediscursor"}, "the machine decides, and does nothing: of the cursor in Redis it knows the messages"},
	"strategy/segment/rediscursor": {[]string{"persist", "internal/redisonce"}, "the cursor knows ranges of numbers, and not who asks for them"},
	"strategy/snowflake": {[]string{".", "persist", "strategy", "strategy/snowflake/redisslots", "strategy/snowflake/statefile"},
		"strategies do not know each other nor who runs them; the registry in Redis and the file beside it are parts of this one"},
	"strategy/snowflake/redisslots": {[]string{"persist", "internal/redisonce"}, "a driver knows its interface, and not who asks"},
	"strategy/snowflake/statefile":  {[]string{"internal/folder"}, "a file with some values knows nothing of what they mean"},
	"standard": {[]string{"strategy/segment", "strategy/snowflake", "plugin/obfuscate", "plugin/format", "plugin/history", "plugin/ratelimit", "plugin/stats",
		"plugin/webhook"}, "it only registers what comes with seqd"},
	"server": {[]string{".", "persist", "plugin", "strategy", "server/access", "server/backends", "server/certificate", "server/config", "server/definitions", "server/feed",
		"server/httpapi", "server/idempotency", "server/logging", "server/metrics", "server/nodes", "server/rejection", "server/tracing", "internal/bounded", "internal/openfiles", "internal/retry", "internal/version"},
		"it connects the parts of the service; it knows drivers, strategies and plugins by their registered or configured names only, and no command beside the service"},
	"server/backends": {[]string{".", "persist", "persist/bolt", "persist/memory", "persist/mongo", "server/config", "strategy/segment/rediscursor", "internal/bounded", "internal/retry"},
		"the one place that knows every driver; what is kept in the back ends it does not know; the cursor's scripts tell whether Redis can be used"},
	"server/backends/backendstest":       {nil, "a stand-in for tests knows only the protocol"},
	"server/certificate":                 {[]string{"server/config"}, "it knows two files, and not who listens"},
	"server/certificate/certificatetest": {[]string{"server/config"}, "certificates for tests know only where the files are"},
	"server/definitions": {[]string{".", "persist", "plugin", "strategy", "server/config", "server/feed", "server/httpapi", "server/rejection", "internal/retry"},
		"it knows documents, the feed and the issuer, and no back end; httpapi declares the interface of administrators that it implements"},
	"server/feed":    {[]string{".", "persist", "internal/retry"}, "it tells which documents change, and not what they say"},
	"server/logging": {[]string{"server/config"}, "it knows how lines are written, and not which there are"},
	"server/nodes":   {[]string{".", "persist", "server/httpapi", "server/logging"}, "it keeps what nodes say of themselves, and asks for it by functions"},
	"server/ops": {[]string{".", "persist", "persist/bolt", "strategy", "strategy/segment/rediscursor", "server/backends", "server/certificate", "server/config", "server/definitions", "server/doctor",
		"internal/openfiles"},
		"what an operator runs beside the service opens the back ends itself, and uses nothing of a service that runs"},
	"server/rejection": {[]string{".", "plugin", "internal/bounded"}, "it shares handlers among biz types, and knows none by name"},
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
	"command":                            {[]string{"internal/gcpace", "internal/version", "server", "server/access", "server/config", "server/ops"}, "flags, signals and sub-commands; a program says which plugins and strategies it comes with"},
	"cmd/seqd":                           {[]string{"command", "standard"}, "main calls the command line with all that comes with seqd, as a program of anybody's own does"},
	"examples/customplugin":              {[]string{"command", "standard", "examples/customplugin/own"}, "the main of a user's program only says what it consists of"},
	"examples/customplugin/own":          {[]string{".", "persist", "plugin", "strategy"}, "an example uses what a user's plugins and strategies may"},
	"internal/testing/clockseqd":         {[]string{"server", "server/config", "server/logging", "server/ops", "standard"}, "it is cmd/seqd with another clock"},
	"persist/persisttest":                {[]string{"persist"}, "a suite for drivers knows only the interface"},
	"internal/bounded":                   {nil, "it knows calls, and not what they do"},
	"internal/openfiles":                 {nil, "it knows only the operating system"},
	"internal/configdoc":                 {[]string{"server/config", "standard"}, "it lists the settings of all that comes with seqd"},
	"internal/version":                   {nil, "it knows only how the program was built"},
	"internal/gcpace":                    {nil, "it knows only the memory of the process"},
	"internal/folder":                    {nil, "it knows only the file system"},
	"internal/redisonce":                 {nil, "it knows commands, and not what they are for"},
	"internal/sharedspan":                {nil, "it knows callers by their spans only"},
	"internal/sabotage":                  {nil, "it knows rules by their names only"},
	"internal/retry":                     {nil, "it knows errors and pauses, and not what is tried"},
	"internal/testing/worlds":            {nil, "what models share knows none of them"},
	"internal/registry":                  {nil, "it keeps names and knows nothing of what they stand for"},
	"internal/testing/node":              {[]string{"internal/testing/ordercheck"}, "it knows seqd from outside only"},
	"internal/testing/longtest":          {nil, "it knows an environment variable"},
	"internal/testing/ordercheck":        {nil, "the checker must not depend on what it checks"},
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
