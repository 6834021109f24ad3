package clitool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/seqd/seqd/client"
	"github.com/seqd/seqd/internal/testing/must"
)

// parse returns the Env of a command line of a command with the flags of a connection.
func parse(t *testing.T, environ []string, args ...string) *Env {
	t.Helper()
	env := New(strings.NewReader(""), io.Discard, io.Discard, environ)
	cmd := &cobra.Command{Use: "x", RunE: func(*cobra.Command, []string) error { return nil }}
	env.AddConnection(cmd)
	cmd.SetArgs(args)
	must.Do(t, cmd.Execute())
	return env
}

// Flags are stronger than the environment, which is stronger than the defaults.
func TestConnection(t *testing.T) {
	environ := []string{"SEQD_CLIENT_ADDR=http://old:1", "SEQD_CLIENT_ADDR=http://a:1, https://b/", "SEQD_CLIENT_TOKEN=seqd_x"}
	for _, test := range []struct {
		name    string
		environ []string
		args    []string
		want    Connection
	}{
		{"default", nil, nil, Connection{[]string{"http://127.0.0.1:8080"}, "", 10 * time.Second}},
		{"environment", environ, nil, Connection{[]string{"http://a:1", "https://b"}, "seqd_x", 10 * time.Second}},
		{"flags", environ, []string{"--addr", "http://c:2,http://d:3", "--addr=http://[::1]:4/", "--token", "y", "--timeout", "1s"}, Connection{[]string{"http://c:2", "http://d:3", "http://[::1]:4"}, "y", time.Second}},
		{"a prefix", nil, []string{"--addr", "https://proxy/ids/"}, Connection{[]string{"https://proxy/ids"}, "", 10 * time.Second}},
	} {
		t.Run(test.name, func(t *testing.T) {
			must.Equal(t, fmt.Sprint(must.Get(parse(t, test.environ, test.args...).Connection())(t)), fmt.Sprint(test.want))
		})
	}
}

// A wrong address is a mistake whose message says what to write.
func TestWrongConnection(t *testing.T) {
	for _, test := range []struct{ addr, want string }{
		{"localhost:8080", "it has no scheme; did you mean http://localhost:8080 or https://localhost:8080?"},
		{"a", "did you mean http://a or"},
		{"ftp://a", `the scheme is "ftp"`},
		{"http://", "it has no host"},
		{"http://:8080", "it has no host"},
		{"http://a:8080/seq/order", "did you mean http://a:8080?"},
		{"http://a:8080/readyz", "did you mean http://a:8080?"},
		{"http://a:8080?x=1", "did you mean http://a:8080?"},
		{"http://a:80a", "its port is not a number"},
		{"http://a:99999", `the port is "99999"`},
		{"http://a:0", `the port is "0"`},
		{"http://a:", `the port is ""`},
		{"http://a b", "it is not a URL"},
		{"http://user:secret@a", "SEQD_CLIENT_TOKEN"},
		{"http://a,", "an address is empty"},
	} {
		t.Run(test.addr, func(t *testing.T) {
			for source, env := range map[string]*Env{
				"--addr":           parse(t, nil, "--addr", test.addr),
				"SEQD_CLIENT_ADDR": parse(t, []string{"SEQD_CLIENT_ADDR=" + test.addr}),
			} {
				_, err := env.Connection()
				if !errors.Is(err, ErrUsage) || !strings.HasPrefix(err.Error(), source) || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
					t.Errorf("%s: %v; want %q", source, err, test.want)
				}
			}
		})
	}
	for _, args := range [][]string{{"--timeout", "0s"}, {"--timeout", "-1s"}, {"--token", "a b"}, {"--addr", "http://a", "--addr", "http://a"}} {
		if c, err := parse(t, nil, args...).Client(); !errors.Is(err, ErrUsage) {
			t.Errorf("%v: %v, %v", args, c, err)
		}
	}
}

func TestExplain(t *testing.T) {
	env, secret := parse(t, nil), parse(t, []string{"SEQD_CLIENT_TOKEN=x"})
	refused := &client.Error{Code: client.ErrUnknownBizType, Detail: `no biz type is called "x"`, Status: 404, Addr: "http://a"}
	for _, test := range []struct {
		name string
		env  *Env
		err  error
		want string
	}{
		{"nothing", env, nil, "<nil>"},
		{"another error", env, io.ErrUnexpectedEOF, "unexpected EOF"},
		{"unknown", env, refused, `unknown_biz_type: no biz type is called "x"; seqd biz-types list shows what there is`},
		{"wrapped", env, fmt.Errorf("after 5 of 9 numbers: %w", refused), `after 5 of 9 numbers: unknown_biz_type: no biz type is called "x"; seqd biz-types list shows what there is`},
		{"nobody listens", env, &client.Error{Code: client.ErrUnreachable, Addr: "http://a", Err: syscall.ECONNREFUSED}, "http://a cannot be reached: connection refused; is seqd running? --addr or SEQD_CLIENT_ADDR names another address"},
		{"no answer", env, &client.Error{Code: client.ErrUnreachable, Addr: "http://a", Detail: "no whole answer within 1s"}, "http://a cannot be reached: no whole answer within 1s; is seqd running? --addr or SEQD_CLIENT_ADDR names another address"},
		{"no token", env, &client.Error{Code: client.ErrUnauthorized, Status: 401, Detail: "a token is needed"}, "unauthorized: a token is needed; set SEQD_CLIENT_TOKEN to a token of the service"},
		{"wrong token", secret, &client.Error{Code: client.ErrUnauthorized, Status: 401}, "unauthorized; the token of --token or SEQD_CLIENT_TOKEN is wrong, expired or disabled"},
		{"problems", env, &client.Error{Code: client.ErrInvalidDefinition, Status: 400, Detail: "a: b", Problems: []client.Problem{{Key: "a", Text: "b"}, {Text: "c"}}}, "invalid_definition:\n  a: b\n  c"},
		{"unknown outcome", env, &client.Error{Code: client.ErrBadAnswer, Status: 200, Addr: "http://a", Detail: "what", Unknown: true}, "bad_answer: what; is http://a the address of seqd? --addr or SEQD_CLIENT_ADDR names another; it may have been done all the same"},
		{"interrupted", env, &client.Error{Code: client.ErrUnreachable, Err: context.Canceled}, "seqd: unreachable"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := test.env.Explain(test.err)
			if fmt.Sprint(got) != test.want || !errors.Is(got, test.err) {
				t.Errorf("%v\nwant %s", got, test.want)
			}
		})
	}
}

func TestOperands(t *testing.T) {
	root := &cobra.Command{Use: "seqd"}
	cmd := &cobra.Command{Use: "raise"}
	root.AddCommand(cmd)
	for _, test := range []struct {
		names string
		args  []string
		want  string
	}{
		{"", nil, "<nil>"},
		{"", []string{""}, `unexpected argument ""`},
		{"A B", nil, "raise needs A and B"},
		{"A B", []string{"1"}, "raise needs A and B"},
		{"A B", []string{"1", "2"}, "<nil>"},
		{"A B", []string{"1", "2", "3"}, `unexpected argument "3"`},
		{"A [B]", []string{"1"}, "<nil>"},
		{"A [B]", []string{"1", "2"}, "<nil>"},
		{"A [B]", []string{"1", "2", "3"}, `unexpected argument "3"`},
		{"A...", nil, "raise needs A..."},
		{"A...", []string{"1", "2", "3"}, "<nil>"},
	} {
		if err := Operands(strings.Fields(test.names)...)(cmd, test.args); fmt.Sprint(err) != test.want || err != nil && !errors.Is(err, ErrUsage) {
			t.Errorf("%s %q: %v, want %s", test.names, test.args, err, test.want)
		}
	}
}

func TestConfirm(t *testing.T) {
	for answer, want := range map[string]error{"y\n": nil, "YES\n": nil, "yes": nil, " y \n": nil, "\n": errNothingChanged, "": errNothingChanged, "n\n": errNothingChanged, "yesterday\n": errNothingChanged} {
		var errs strings.Builder
		env := New(strings.NewReader(answer), io.Discard, &errs, nil)
		env.terminal = func(any) (int, bool) { return 0, true }
		if err := env.Confirm("Delete it?", "--yes"); err != want || !strings.HasPrefix(errs.String(), "Delete it? [y/N] ") {
			t.Errorf("%q: %v, %q", answer, err, errs.String())
		}
	}
	env := New(strings.NewReader("y\n"), io.Discard, io.Discard, nil)
	if err := env.Confirm("Delete it?", "--yes"); !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), "--yes") {
		t.Errorf("without a terminal: %v", err)
	}
}

func TestShow(t *testing.T) {
	var out strings.Builder
	env := New(nil, &out, io.Discard, nil)
	text := func(w io.Writer) error { _, err := io.WriteString(w, "text\n"); return err }
	if err := env.Show(map[string]string{"a": "<b>"}, text); err != nil || out.String() != "text\n" {
		t.Errorf("%v, %q", err, out.String())
	}
	out.Reset()
	env.JSON = true
	if err := env.Show(map[string]string{"a": "<b>"}, text); err != nil || out.String() != "{\n  \"a\": \"<b>\"\n}\n" {
		t.Errorf("%v, %q", err, out.String())
	}
}

// Names that begin with a text lie above before of it, and those of other beginnings that are
// smaller lie below.
func TestBefore(t *testing.T) {
	for begin, names := range map[string][2][]string{
		"ord": {{"orcz9", "orc", "orb", "or", "Zord"}, {"ord", "ord-", "order"}},
		"A":   {nil, {"A", "A.", "Az"}},
		"a.":  {{"a", "a-z"}, {"a.", "a.0"}},
	} {
		at := before(begin)
		for i, list := range names {
			for _, name := range list {
				must.Equal(t, name > at, i == 1, "%s: %q and %q", begin, at, name)
			}
		}
	}
	for _, begin := range []string{"", "é", " "} {
		must.Equal(t, before(begin), "", "%q", begin)
	}
}
