package console

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/seqd/seqd/integration/console/browser"
	"github.com/seqd/seqd/integration/fleet"
	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/must"
)

// The secrets of the tokens in withTokens.
const (
	adminSecret  = "seqd_console0admin000000000000000"
	readSecret   = "seqd_console0read0000000000000000"
	callerSecret = "seqd_console0caller00000000000000"
)

// bizTypes has one biz type of each sort, except snowflake: its first machine ID on a shared store is
// valid only after 9 seconds.
const bizTypes = `SEQD_BIZTYPES=[
	{"name":"order","start":100,"plugins":[{"name":"stats"},{"name":"history"}]},
	{"name":"invoice","strategy":"gapless","reset":"yearly","timeZone":"Europe/Berlin","plugins":[{"name":"format","template":"INV-{date:2006}-{seq:04}"}]},
	{"name":"ticket","keyed":true}]`

// withTokens makes nodes ask for tokens.
func withTokens() []string {
	tokens := []map[string]any{
		{"name": "ops", "sha256": hash(adminSecret), "scopes": []string{"admin", "issue:*"}},
		{"name": "viewer", "sha256": hash(readSecret), "scopes": []string{"read"}},
		{"name": "shop", "sha256": hash(callerSecret), "scopes": []string{"issue:order"}},
	}
	text, _ := json.Marshal(tokens) // it can be encoded
	return []string{"SEQD_AUTH_MODE=token", "SEQD_AUTH_TOKENS=" + string(text)}
}

func hash(secret string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(secret))) }

// world is some nodes, and where a browser finds them.
type world struct {
	*testing.T
	nodes []*fleet.Member
	url   string
	// store is what several nodes share.
	store interface {
		Kill()
		Restart()
	}
	// balancer is in front of several nodes.
	balancer *balancer
	tokens   bool
}

// alone starts a node with the embedded store.
func alone(t *testing.T, settings ...string) *world {
	t.Helper()
	w := &world{T: t, nodes: fleet.Start(t, 1, append([]string{bizTypes}, settings...)...)}
	w.url = "http://" + w.nodes[0].HTTP
	w.started(settings)
	return w
}

// three starts three nodes that share a store, behind a balancer. The stand-in for MongoDB starts
// fastest.
func three(t *testing.T, settings ...string) *world {
	t.Helper()
	m := testenv.StartMongo(t)
	w := &world{T: t, store: m}
	w.share(append([]string{"SEQD_STORE_DRIVER=mongo", "SEQD_STORE_MONGO_URI=" + m.URI(), "SEQD_STORE_MONGO_DATABASE=" + m.Database()}, settings...))
	return w
}

// threeOnPostgres is like three, with a store whose absence is noticed at once.
func threeOnPostgres(t *testing.T, settings ...string) *world {
	t.Helper()
	p := testenv.StartPostgres(t)
	w := &world{T: t, store: p}
	w.share(append([]string{"SEQD_STORE_DRIVER=postgres", "SEQD_STORE_POSTGRES_URL=" + p.URL()}, settings...))
	return w
}

// share starts the three nodes.
func (w *world) share(settings []string) {
	w.Helper()
	w.nodes = fleet.Start(w.T, 3, append([]string{bizTypes}, settings...)...)
	w.balancer = newBalancer(w.T, w.nodes)
	w.url = w.balancer.url
	w.started(settings)
}

func (w *world) started(settings []string) {
	w.tokens = slices.Contains(settings, "SEQD_AUTH_MODE=token")
	w.Cleanup(func() {
		if w.Failed() {
			for _, n := range w.nodes {
				log := n.Node.Log()
				w.Logf("node %s:\n%s", n.HTTP, log[max(0, len(log)-3000):])
			}
		}
	})
}

// visit opens the console at a hash such as #/access, and signs in as an administrator if the nodes
// ask for tokens.
func (w *world) visit(hash string) *browser.Page {
	w.Helper()
	p := browser.Open(w.T, w.url)
	p.Go("/console" + hash)
	if w.tokens {
		w.signIn(p, adminSecret)
	}
	return p
}

// signIn fills in the form that the page shows.
func (w *world) signIn(p *browser.Page, secret string) {
	w.Helper()
	p.Type("Token", secret)
	p.Click("button", "Sign in")
	p.AwaitNone("button", "Sign in")
}

// answer is what curl got.
type answer struct {
	status int
	header http.Header
	body   string
}

// curl sends a request to the first node that runs, as an administrator who does not use the
// console, and fails unless the answer has this status. Headers are pairs of name and value.
func (w *world) curl(want int, method, path, body string, headers ...string) answer {
	w.Helper()
	if w.tokens && !slices.Contains(headers, "Authorization") {
		headers = append(headers, "Authorization", "Bearer "+adminSecret)
	}
	for _, n := range w.nodes {
		if n.Node.Ended() {
			continue
		}
		a, err := n.Node.Do(method, path, body, headers...)
		if err != nil || a.Status != want {
			w.Fatalf("%s %s %s: %d, %v, want %d: %s", method, path, body, a.Status, err, want, a.Body)
		}
		return answer{a.Status, a.Header, a.Body}
	}
	w.Fatal("no node runs")
	return answer{}
}

// get is what curl gets from a path, decoded.
func (w *world) get(path string) map[string]any {
	w.Helper()
	return decode(w, w.curl(http.StatusOK, "GET", path, "").body)
}

// decode decodes a JSON document.
func decode(w *world, body string) map[string]any {
	w.Helper()
	var value map[string]any
	must.Do(w, json.Unmarshal([]byte(body), &value))
	return value
}

// field returns the field of a JSON document, by a path such as definition.step, as text.
func field(document map[string]any, path string) string {
	var value any = document
	for key := range strings.SplitSeq(path, ".") {
		inner, _ := value.(map[string]any)
		value = inner[key]
	}
	return fmt.Sprint(value)
}
