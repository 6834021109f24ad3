// Package traces tests the traces of a node that uses Redis and MongoDB.
package traces

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/node"
	"github.com/seqd/seqd/server/tracing/tracingtest"
)

func TestMain(m *testing.M) { node.Main(m) }

const (
	callersTrace = "0af7651916cd43dd8448eb211c80319c"
	callersSpan  = "b7ad6b7169203331"
)

// spansOf starts seqd, sends it one traced request, stops it and returns the spans, that of the
// request first.
func spansOf(t *testing.T, env []string) []tracingtest.Span {
	t.Helper()
	var collector tracingtest.Collector
	server := httptest.NewServer(&collector)
	t.Cleanup(server.Close)
	n := node.StartReady(t, t.TempDir(), append(env, "SEQD_TRACING_ENDPOINT="+server.URL, "SEQD_TRACING_SAMPLERATIO=0", `SEQD_BIZTYPES=[{"name":"order","start":7654321}]`)...)
	for _, headers := range [][]string{
		{"Idempotency-Key", "another"}, // not traced; loads the scripts into Redis
		{"Idempotency-Key", "secret", "Traceparent", "00-" + callersTrace + "-" + callersSpan + "-01"},
	} {
		answer, err := n.Do("POST", "/seq/order?count=2", "", headers...)
		if err != nil || answer.Status != http.StatusOK {
			t.Fatalf("got %d %s, %v", answer.Status, answer.Body, err)
		}
	}
	n.Stop()
	spans := collector.Spans()
	// SERVER, then CLIENT
	slices.SortStableFunc(spans, func(a, b tracingtest.Span) int { return strings.Compare(b.Kind, a.Kind) })
	if len(spans) < 2 || spans[0].Kind != "SPAN_KIND_SERVER" || spans[0].ParentID != callersSpan {
		t.Fatalf("got %+v; want the span of the request, below that of its caller, and its children", spans)
	}
	for _, s := range spans[1:] {
		if s.TraceID != callersTrace || s.ParentID != spans[0].ID || s.Kind != "SPAN_KIND_CLIENT" || s.Failed {
			t.Errorf("%+v is no part of the request", s)
		}
		for key, value := range s.Attributes {
			if strings.Contains(value, "7654") || strings.Contains(value, "secret") {
				t.Errorf("%s tells %s: %q", s.Name, key, value)
			}
		}
	}
	return spans
}

func inMongo(mongo *testenv.Mongo) []string {
	return []string{
		"SEQD_STORE_DRIVER=mongo", "SEQD_STORE_MONGO_URI=" + mongo.URI(), "SEQD_STORE_MONGO_DATABASE=" + mongo.Database(),
	}
}

func TestRedisInATrace(t *testing.T) {
	t.Parallel()
	mongo := testenv.StartMongo(t)
	env := append(inMongo(mongo), "SEQD_REDIS_ADDRS="+testenv.StartRedis(t).Addr())
	spans := spansOf(t, env)
	names := make([]string, len(spans))
	for i, s := range spans {
		names[i] = s.Name
		if i > 0 && s.Attributes["db.system.name"] != "redis" {
			t.Errorf("got %+v", s)
		}
	}
	// The key is claimed, numbers are taken, and the answer is stored for the key.
	if want := []string{"POST /seq/{bizType}", "pipeline", "evalsha", "pipeline"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
}

// The statements to an SQL server are in a trace by their names.
func TestStatementsInATrace(t *testing.T) {
	t.Parallel()
	for system, env := range map[string][]string{
		"postgresql": {"SEQD_STORE_DRIVER=postgres", "SEQD_STORE_POSTGRES_URL=" + testenv.StartPostgres(t).URL()},
		"mysql":      {"SEQD_STORE_DRIVER=mysql", "SEQD_STORE_MYSQL_DSN=" + testenv.StartMariaDB(t).DSN()},
	} {
		spans := spansOf(t, append(env, "SEQD_SEGMENT_ORDERING=per-node"))
		if len(spans) < 2 {
			t.Errorf("%s: there are %d spans", system, len(spans))
		}
		for _, s := range spans[1:] {
			if !strings.HasSuffix(s.Name, " document") || s.Attributes["db.system.name"] != system || s.Failed {
				t.Errorf("got %+v", s)
			}
		}
	}
}

func TestMongoInATrace(t *testing.T) {
	t.Parallel()
	mongo := testenv.StartMongo(t)
	env := append(inMongo(mongo), "SEQD_SEGMENT_ORDERING=per-node")
	spans := spansOf(t, env) // answers are kept in the store
	for _, s := range spans[1:] {
		if !strings.HasSuffix(s.Name, " documents") || s.Attributes["db.system.name"] != "mongodb" || s.Attributes["db.namespace"] != mongo.Database() {
			t.Errorf("got %+v", s)
		}
	}
}
