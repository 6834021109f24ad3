package clitool

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seqd/seqd/internal/literal"
)

// The environment variables of commands that talk to a running service. package config ignores
// every variable that begins with envPrefix.
const (
	envPrefix = "SEQD_CLIENT_"
	envAddr   = envPrefix + "ADDR"
	envToken  = envPrefix + "TOKEN"
	// EnvDSN is the DSN of seqd import. Other users of the machine can see arguments.
	EnvDSN = envPrefix + "DSN"
)

// defaultAddr is the address of the service if none is given: the default of server.addr.
const defaultAddr = "http://127.0.0.1:8080"

// defaultTimeout bounds one request to the service.
const defaultTimeout = 10 * time.Second

// Connection says how to reach a running service.
type Connection struct {
	// Addrs are the URLs of its nodes: at least one. A path is a prefix of every route.
	Addrs []string
	// Token is the bearer token, "" for none.
	Token string
	// Timeout bounds one request. It is positive.
	Timeout time.Duration
}

// OfConnection is the annotation of the flags that say how to reach the service. The help lists them
// apart, because many commands have them.
const OfConnection = "seqd_connection"

// connectionFlags are the flags as they were typed.
type connectionFlags struct {
	addrs   []string
	token   string
	timeout time.Duration
}

// AddConnection adds --addr, --token, --timeout and --json to a command and its sub-commands.
func (e *Env) AddConnection(cmd *cobra.Command) {
	f, c := cmd.PersistentFlags(), &e.connection
	f.StringSliceVar(&c.addrs, "addr", nil, "`URL` of a node; several: repeat it, or put commas between (environment: "+envAddr+"; default "+defaultAddr+")")
	f.StringVar(&c.token, "token", "", "`SECRET` of the caller. Better set "+envToken+": other users of this machine can see arguments")
	f.DurationVar(&c.timeout, "timeout", defaultTimeout, "how long to wait for one answer")
	for _, name := range []string{"addr", "token", "timeout"} {
		f.Lookup(name).Annotations = map[string][]string{OfConnection: {"true"}}
	}
	e.AddJSON(cmd)
}

// Connection returns what the flags of [Env.AddConnection] and the environment say. An error wraps
// [ErrUsage].
func (e *Env) Connection() (Connection, error) {
	for _, pair := range e.Environ {
		name, _, _ := strings.Cut(pair, "=")
		if known := []string{envAddr, envToken, EnvDSN}; strings.HasPrefix(name, envPrefix) && !slices.Contains(known, name) {
			return Connection{}, Usage("environment variable %s: there is none of this name; there are %s", name, strings.Join(known, ", "))
		}
	}
	c := Connection{Addrs: e.connection.addrs, Token: e.connection.token, Timeout: e.connection.timeout}
	source := "--addr"
	if len(c.Addrs) == 0 {
		source = envAddr
		if text := e.Getenv(envAddr); text != "" {
			c.Addrs = strings.Split(text, ",")
		} else {
			c.Addrs = []string{defaultAddr}
		}
	}
	for i, text := range c.Addrs {
		addr, err := parseAddr(source, strings.TrimSpace(text))
		if err != nil {
			return Connection{}, err
		}
		c.Addrs[i] = addr
	}
	if c.Token == "" {
		c.Token = e.Getenv(envToken)
	}
	if strings.ContainsFunc(c.Token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return Connection{}, Usage("the token has spaces or other characters that no token has; see seqd token")
	}
	if c.Timeout <= 0 {
		return Connection{}, Usage("--timeout %s: it must be more than 0s", c.Timeout)
	}
	return c, nil
}

// parseAddr returns the URL of a node, without a slash at the end.
func parseAddr(source, text string) (string, error) {
	const want = "; want a URL such as " + defaultAddr
	u, err := url.Parse(text)
	switch {
	case text == "":
		return "", Usage("%s: an address is empty%s", source, want)
	case !strings.Contains(text, "://"):
		return "", Usage("%s %s: it has no scheme; did you mean http://%s or https://%s?", source, text, text, text)
	case err != nil && strings.Contains(err.Error(), "port"):
		return "", Usage("%s %s: its port is not a number%s", source, text, want)
	case err != nil:
		return "", Usage("%s %q: it is not a URL%s", source, text, want)
	case u.Scheme != "http" && u.Scheme != "https":
		return "", Usage("%s %s: the scheme is %q%s", source, text, u.Scheme, want)
	case u.User != nil:
		return "", Usage("%s: the URL has a user name; a token goes into %s", source, envToken)
	case route(u.Path) || u.RawQuery != "" || u.Fragment != "":
		return "", Usage("%s %s: it has more than the address of a node; did you mean %s://%s?", source, text, u.Scheme, u.Host)
	case u.Hostname() == "":
		return "", Usage("%s %s: it has no host%s", source, text, want)
	}
	if port := u.Port(); port != "" || strings.HasSuffix(u.Host, ":") {
		if n, ok := literal.Port(port); !ok || n == 0 {
			return "", Usage("%s %s: the port is %q, and not one of 1 to 65535", source, text, port)
		}
	}
	return strings.TrimRight(text, "/"), nil
}

// route reports whether a path is one of seqd, and not a prefix that a proxy takes away.
func route(path string) bool {
	first, _, _ := strings.Cut(strings.Trim(path, "/"), "/")
	return slices.Contains([]string{"seq", "biz-types", "tokens", "nodes", "workers", "worker-pools", "subscriptions", "metrics", "healthz", "readyz", "docs", "openapi.json"}, first)
}
