package resp_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/pipes"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/server/gate"
	"github.com/seqd/seqd/server/resp"
)

// counter is a strategy that counts. Its fields change what it does.
type counter struct {
	next     atomic.Int64
	takes    atomic.Int64                    // calls of Generate
	generate func(context.Context) error     // runs before counting
	add      func(seq *seqd.Sequence, n int) // in place of counting
}

func newCounter(first int64) *counter {
	c := &counter{}
	c.next.Store(first)
	return c
}

func (c *counter) Init(context.Context, bool) error { return nil }

func (c *counter) Generate(ctx context.Context, n int, seq *seqd.Sequence) error {
	c.takes.Add(1)
	if c.generate != nil {
		if err := c.generate(ctx); err != nil {
			return err
		}
	}
	if c.add != nil {
		c.add(seq, n)
		return nil
	}
	seq.Add(c.next.Add(int64(n))-int64(n), n, 1)
	return nil
}

func (c *counter) GenerateConsecutive(ctx context.Context, n int, seq *seqd.Sequence) error {
	return c.Generate(ctx, n, seq)
}

func (c *counter) Close(context.Context) error { return nil }

// plugin is a plugin made of functions; nil functions do nothing.
type plugin struct {
	seqd.NopPlugin
	before, after func(*seqd.Call) error
}

func (p plugin) Before(_ context.Context, call *seqd.Call) error {
	if p.before == nil {
		return nil
	}
	return p.before(call)
}

func (p plugin) After(_ context.Context, call *seqd.Call) error {
	if p.after == nil {
		return nil
	}
	return p.after(call)
}

// prefixed shows numbers behind a letter.
var prefixed = seqd.BoundPlugin{Name: "prefix", Rewrites: true, Plugin: plugin{after: func(call *seqd.Call) error {
	call.Sequence.Show(func(dst []byte, _ int64, shown []byte) []byte { return append(append(dst, 'A'), shown...) })
	return nil
}}}

func define(name string, s seqd.Strategy, plugins ...seqd.BoundPlugin) issuer.Definition {
	for i := range plugins {
		plugins[i].Quick = true
	}
	return issuer.Definition{BizType: seqd.BizType{Name: name, Strategy: "counter"}, Strategy: s, Plugins: plugins}
}

func newIssuer(tb testing.TB, definitions ...issuer.Definition) *issuer.Issuer {
	tb.Helper()
	return must.Get(issuer.New(definitions, issuer.Options{Log: slog.New(slog.DiscardHandler)}))(tb)
}

// service is a server and what is around it.
type service struct {
	*resp.Server
	gate    *gate.Gate
	addr    string
	connect func() (net.Conn, error)
}

// settings change what serve makes.
type settings struct {
	gate   gate.Options
	resp   resp.Options
	linger time.Duration // 0 for the usual time
}

// serve serves these biz types on a port until the test ends. Unless change sets them, no time-out
// passes.
func serve(tb testing.TB, change func(*settings), definitions ...issuer.Definition) *service {
	tb.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(tb)
	return serveAt(tb, l, func() (net.Conn, error) { return net.Dial("tcp", l.Addr().String()) }, change, definitions)
}

// servePiped is serve without a port, for tests with a fake clock.
func servePiped(tb testing.TB, change func(*settings), definitions ...issuer.Definition) *service {
	tb.Helper()
	l := pipes.New()
	return serveAt(tb, l, l.Dial, change, definitions)
}

func serveAt(tb testing.TB, l net.Listener, connect func() (net.Conn, error), change func(*settings), definitions []issuer.Definition) *service {
	tb.Helper()
	set := settings{
		gate: gate.Options{MaxCount: 10_000, Log: slog.New(slog.DiscardHandler)},
		resp: resp.Options{IdleTimeout: time.Hour, ReadTimeout: time.Hour, WriteTimeout: time.Hour, Version: "v1.2.3"},
	}
	if change != nil {
		change(&set)
	}
	g := gate.New(set.gate)
	if definitions != nil {
		g.Ready(&gate.Running{Issuer: newIssuer(tb, definitions...)})
	}
	set.resp.Gate = g
	s := &service{Server: resp.New(set.resp), gate: g, addr: l.Addr().String(), connect: connect}
	if set.linger > 0 {
		s.LingerFor(set.linger)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), await.Patience)
		defer cancel()
		must.Report(tb, s.Shutdown(ctx))
		must.Is(tb, <-ended, resp.ErrClosed, "Serve returned")
	})
	return s
}

// peer is a client that knows nothing of the protocol.
type peer struct {
	net.Conn
	tb testing.TB
	r  *bufio.Reader
}

func (s *service) dial(tb testing.TB) *peer {
	tb.Helper()
	c := must.Get(s.connect())(tb)
	tb.Cleanup(func() { c.Close() })
	must.Do(tb, c.SetDeadline(time.Now().Add(await.Patience)))
	return &peer{Conn: c, tb: tb, r: bufio.NewReader(c)}
}

func (p *peer) send(text string) {
	p.tb.Helper()
	must.Do(p.tb, must.Err(p.Write([]byte(text))))
}

// lines reads n lines, without their ends.
func (p *peer) lines(n int) []string {
	p.tb.Helper()
	var lines []string
	for range n {
		line, err := p.r.ReadString('\n')
		if err != nil {
			p.tb.Fatalf("%v after %q%q", err, lines, line)
		}
		lines = append(lines, strings.TrimSuffix(line, "\r\n"))
	}
	return lines
}

// ask sends a command and returns the first line of its answer.
func (p *peer) ask(words ...string) string {
	p.tb.Helper()
	p.send(form(words...))
	return p.lines(1)[0]
}

// form returns a command in the form in which clients send it.
func form(words ...string) string {
	var b strings.Builder
	b.WriteString("*" + itoa(len(words)) + "\r\n")
	for _, w := range words {
		b.WriteString("$" + itoa(len(w)) + "\r\n" + w + "\r\n")
	}
	return b.String()
}

// rest reads until the server ends the connection.
func (p *peer) rest() string {
	p.tb.Helper()
	all, err := io.ReadAll(p.r)
	if err != nil {
		p.tb.Errorf("%v after %q", err, all)
	}
	return string(all)
}
