// Package console serves the console: a page for people, at /console, that uses the HTTP API as
// everybody else does. The page is in the folder web: plain HTML, CSS and JavaScript modules,
// without a build step.
//
//   - files.go: the page and its files, with the headers that keep it safe
//   - door.go: requests of the page to the API, below /console/api
//   - signin.go: /console/session, where people sign in and out
//   - sessions.go, seal.go: sessions, which are kept in the store
//   - limits.go, clients.go: who may try how often
//
// [Console.Routes] are served inside the middleware of the API; [Console.Handler] stands before it.
package console

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/forwarded"
	"github.com/seqd/seqd/server/httpapi"
)

const (
	// rootPath is the path of the page.
	rootPath = "/console"
	// sessionPath is the path where people sign in and out.
	sessionPath = rootPath + "/session"
	// apiPath begins the paths of the API as the page sees it.
	apiPath = rootPath + "/api"
)

// Options are the options of [New].
type Options struct {
	// TokensAskedFor is true if the API asks for tokens. Otherwise there is no sign-in.
	TokensAskedFor bool
	// Tokens finds the tokens that people sign in with.
	Tokens Tokens
	// TLS is true if connections to this node are encrypted.
	TLS bool
	// Proxies are those that are believed who sent a request, and whether by HTTPS.
	Proxies forwarded.Proxies
	// Store returns the documents of the store, which keeps sessions, and the ID of this node; nil
	// and "" until the service is ready. Until then nobody can sign in.
	Store func() (documents persist.Documents, node string)
	// Build is the version of the program.
	Build string
	// Session is how long people stay signed in.
	Session time.Duration
	Now     func() time.Time
	// Clock is the time that all nodes have in common: sessions begin and end by it. Tries are
	// counted by Now.
	Clock func() time.Time
	Log   *slog.Logger
}

// Tokens finds tokens by their secrets. It is safe for concurrent use.
type Tokens interface {
	// Find returns the token whose secret has this digest, if it is valid.
	Find(digest *access.Digest) (access.Token, error)
}

var _ Tokens = (*access.Tokens)(nil)

// Console is the console of a node. It is safe for concurrent use.
type Console struct {
	opts     Options
	sessions *sessions
	failures *limiter // of sign-ins that fail, by caller
	signIns  *limiter // of others, by token
}

// New returns the console.
func New(opts Options) *Console {
	c := &Console{
		opts: opts, sessions: newSessions(opts),
		failures: newLimiter(opts.Now, 5, 60), signIns: newLimiter(opts.Now, 20, 600),
	}
	c.failures.first = true
	return c
}

// Tidy removes sessions that have ended from the store, now and then until ctx ends.
func (c *Console) Tidy(ctx context.Context) { c.sessions.tidy(ctx) }

// Routes returns the routes of the console. Those of the API begin behind them; see
// [Console.Handler].
func (c *Console) Routes() []httpapi.Extra {
	read := []string{http.MethodGet, http.MethodHead}
	any := append(read, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace)
	return []httpapi.Extra{
		{Methods: read, Path: rootPath, Linked: true, Serve: servePage},
		{Methods: read, Path: rootPath + "/", Linked: true, Serve: redirectToPage},
		{Methods: read, Path: rootPath + "/:" + buildParam + "/:" + fileParam, Linked: true, Serve: serveFile},
		{
			Methods: []string{http.MethodGet, http.MethodPost, http.MethodDelete}, Path: sessionPath,
			Changes: true, Object: longestSignIn, Serve: c.session,
		},
		{Methods: any, Path: apiPath + "/*path", Changes: true, Serve: refused},
	}
}

// Handler returns a handler that gives requests to api: those below /console/api without that
// prefix, and those of browsers for / as if they were for /console/. Answers of the API are not
// cached unless it says so: a cache in front that knows to keep answers to an Authorization apart
// would not see one.
func (c *Console) Handler(api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case strings.HasPrefix(path, apiPath+"/"):
			w.Header()["Cache-Control"] = noStore
			r = c.inside(r)
		case path == "/" && reads(r) && httpapi.Prefers(r.Header["Accept"], "text/html"):
			r = toPage(r)
		}
		api.ServeHTTP(w, r)
	})
}
