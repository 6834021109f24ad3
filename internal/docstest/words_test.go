package docstest

import (
	"cmp"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/metrics"
	"github.com/seqd/seqd/server/openapi"
)

// words are the names that seqd gives to what it answers, logs and counts: keys of JSON and of log
// lines, fields of RESP replies, attributes of spans, and labels of metrics, which have low lines.
// A thing has one name everywhere:
//
//	addr     the address of a caller, or one that is listened on     caller   the name of the token that asks
//	node     the address of a node (nodeId: its ID)                  token    a token that is spoken of
//	key      a caller's key, or the name of a setting                refused  what was not issued
//	at       when it happened; other times are named too: …At, from, until, since, expires
//	…Ms      a time span in milliseconds, …PerSecond a rate          rejected the handlers in a definition
//	code     of an error; in metrics of HTTP the status, and there reason is the code of an error
var words = strings.Fields(`
15m 1m 5m above addr after ahead alike alsoRefused applied arch at attempts backend backends bitsMachine bitsSequence bizType bizTypes bizTypesFrom build busiest bytes caller
catalogue change channel clockOffsetMs cluster code command commands common complete config configured confirmed connections coordination coordinator count counter counters
createdAt createdBy current data dead default definition definitions degraded deleted deliveries detail details disabled documents done drainDelayMs driver
dropped dryRun enabled encrypted endedAt epoch error event events every exactlyOneOf example expires expiresAt failed failedAt failedOver figures file files findings first
format found free from fromId gap gapless gapMs gaps go goversion handler held help highest history holders host id ids inAll inFlight inHand instance
intervalMs issued job jobs key keyFile keys kind last lastAt lastsMs latency layout leader lease left leftMs leftOut level lines machineId machineIds max
maxConnections messages method metrics min missed movedMs name next nextAt node nodeId nodes notAfter notBefore number numbers numbersPerSecond once onOverflow
openFiles operation os outcome output overflowAt ownsOpen p50Ms p99Ms panic path pending period perSecond place places plugin plugins points pool pools position
positions problems promise proto query queue range rate rates readAt ready reason reasons records refusals refused refusedPerSecond registrationKey registries registry
rejected requestId requests requestsPerSecond required reservation resets restart resumed revision route runs runsOut schedule scopes secondsLeft secret secrets
sections seen seenAt self seq sequence sequencer settings settingWarnings sha256 share signedIn since skipped source stack standingBy startedAt state status
step store storeMax strategies strategy stride subject subscription subscriptions target text times timeZone title tls to toId token tokens tokensAskedFor
tookMs total traceId trouble ttl type types unit unready until updatedAt upMs url used valid values verdict version warnings what withinMs workerId zero
`)

// headers are those of seqd and those that it reads although no standard has them.
var headers = strings.Fields(`Seqd-Console Seqd-Error X-Content-Type-Options X-Forwarded-For X-Forwarded-Proto X-Frame-Options X-Idempotency-Key X-Moz X-Purpose X-Real-Ip X-Request-Id X-Seqd-Signature`)

// better says how a thing is called here that other software calls something else.
var better = map[string]string{
	"user": "caller", "by": "caller", "client": "addr", "ip": "addr", "address": "addr", "time": "at", "timestamp": "at", "err": "error",
	"seconds": "…Ms", "interval": "…Ms", "duration": "…Ms", "took": "…Ms", "p50": "p50Ms", "p99": "p99Ms", "clockOffset": "clockOffsetMs",
}

// TestWords checks that each name is a word, and that each word is a name.
func TestWords(t *testing.T) {
	found := names{}
	for file, text := range must.Get(newChecker(os.DirFS("../..")))(t).files {
		if source.MatchString(file) && !others.MatchString(file) {
			ast.Inspect(must.Get(parser.ParseFile(token.NewFileSet(), file, text, 0))(t), func(n ast.Node) bool { return found.collect(file, n) })
		}
	}
	for _, f := range metrics.Families() {
		for _, label := range f.Labels {
			found.add(camel(label), f.Name)
		}
	}
	var api struct {
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	must.Do(t, json.Unmarshal(must.Get(openapi.Load())(t).JSON, &api))
	for schema, s := range api.Components.Schemas {
		for name := range s.Properties {
			if schema != "Definition" { // its names are those of settings
				found.add(name, "openapi.yaml, "+schema)
			}
		}
	}
	known := slices.Concat(words, headers)
	for name, where := range found {
		if !slices.Contains(known, name) {
			t.Errorf("%s: %s is no word; %s", where, name, cmp.Or(better[name], "take one, or add it"))
		}
	}
	for _, name := range known {
		if found[name] == "" {
			t.Errorf("nothing is called %s any more", name)
		}
	}
}

var (
	source   = regexp.MustCompile(`^((client|command|persist|plugin|server|strategy)/.*|[a-z]+)\.go$`)
	others   = regexp.MustCompile(`_test\.go$|test/|^server/compat/|^command/imports/`)                              // these have names of other software
	answers  = regexp.MustCompile(`^(client|command|plugin/(stats|webhook)|server/(audit|console|doctor|httpapi))/`) // the rest is kept only
	isHeader = regexp.MustCompile(`^(X|Seqd)(-[A-Z][a-z]+)+$`)
	isOfSpan = regexp.MustCompile(`^seqd\.([a-z_]{3,})$`)
	logging  = map[string]int{"With": 0, "Debug": 1, "Info": 1, "Warn": 1, "Error": 1, "log": 2, "DebugContext": 2, "InfoContext": 2, "WarnContext": 2, "ErrorContext": 2, "Log": 3}
)

// names says for each name where one is that has it.
type names map[string]string

func (found names) add(name, where string) {
	if name != "" && name != "-" {
		found[name] = where
	}
}

func (found names) collect(file string, n ast.Node) bool {
	switch n := n.(type) {
	case *ast.Field:
		if n.Tag != nil && answers.MatchString(file) {
			tag, _ := strconv.Unquote(n.Tag.Value)
			name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
			found.add(name, file)
		}
	case *ast.BasicLit:
		if s := text(n); isHeader.MatchString(s) {
			found.add(s, file)
		} else if m := isOfSpan.FindStringSubmatch(s); m != nil && strings.HasSuffix(file, "trace.go") {
			found.add(camel(m[1]), file)
		}
	case *ast.CallExpr:
		called, receiver := n.Fun, ast.Expr(nil)
		if f, ok := called.(*ast.SelectorExpr); ok {
			called, receiver = f.Sel, f.X
		}
		first, logs := logging[nameOf(called)]
		switch {
		case nameOf(called) == "appendBulk" && len(n.Args) == 2:
			found.add(text(n.Args[1]), file)
		case nameOf(receiver) == "slog" && len(n.Args) == 2:
			found.add(text(n.Args[0]), file)
		case logs && len(n.Args) > first:
			for i := first; i < len(n.Args)-1; i += 2 {
				found.add(text(n.Args[i]), file)
			}
		}
	}
	return true
}

func nameOf(e ast.Expr) string {
	if id, ok := e.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

// text returns a text that stands in the source, "" for anything else.
func text(e ast.Expr) string {
	if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
		s, _ := strconv.Unquote(lit.Value)
		return s
	}
	return ""
}

// camel returns a name with low lines as JSON has it.
func camel(name string) string {
	parts := strings.Split(name, "_")
	for i := range parts[1:] {
		parts[i+1] = strings.ToUpper(parts[i+1][:1]) + parts[i+1][1:]
	}
	return strings.Join(parts, "")
}
