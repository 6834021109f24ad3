package resp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/racing"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/gate"
)

// pieces is a connection whose client sends something in pieces, and then ends.
type pieces struct {
	net.Conn
	rest  []byte
	piece int
	wrote bytes.Buffer
	most  int // the largest piece that could be read
}

func (p *pieces) Read(b []byte) (int, error) {
	p.most = max(p.most, len(b))
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.piece)], p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

func (p *pieces) Write(b []byte) (int, error)      { return p.wrote.Write(b) }
func (p *pieces) Close() error                     { return nil }
func (p *pieces) SetReadDeadline(time.Time) error  { return nil }
func (p *pieces) SetWriteDeadline(time.Time) error { return nil }
func (p *pieces) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// counting is a strategy that counts.
type counting struct{ next int64 }

func (c *counting) Init(context.Context, bool) error { return nil }
func (c *counting) Close(context.Context) error      { return nil }
func (c *counting) Generate(_ context.Context, n int, seq *seqd.Sequence) error {
	seq.Add(c.next, n, 1)
	c.next += int64(n)
	return nil
}

// keyed is settings of a keyed biz type.
type keyed struct{}

func (keyed) Traits() seqd.Traits { return seqd.Traits{Keyed: true} }

// booking is a gapless strategy with one reservation, r.
type booking struct{ counting }

func (b *booking) HandOut(ctx context.Context, o seqd.Order, seq *seqd.Sequence) (seqd.Reservation, bool, error) {
	return seqd.Reservation{ID: "r", State: seqd.Reserved}, false, b.Generate(ctx, o.Count, seq)
}
func (b *booking) Return(*seqd.Sequence, error) {}
func (b *booking) Find(_ context.Context, id string, seq *seqd.Sequence) (seqd.Reservation, error) {
	if id != "r" {
		return seqd.Reservation{}, seqd.Errorf(seqd.CodeUnknownReservation, "there is no reservation %s", id)
	}
	seq.Add(1, 1, 1)
	return seqd.Reservation{ID: id, State: seqd.Confirmed}, nil
}
func (b *booking) Confirm(ctx context.Context, s seqd.Settlement, seq *seqd.Sequence) (seqd.Reservation, error) {
	return b.Find(ctx, s.ID, seq)
}
func (b *booking) Release(context.Context, seqd.Settlement) error { return nil }
func (b *booking) Void(context.Context, seqd.Voiding) error       { return nil }
func (b *booking) Account(context.Context, seqd.AccountQuery) (seqd.Account, error) {
	return seqd.Account{}, nil
}

// tally counts answers.
type tally struct{ answers int }

func (t *tally) Command(string) func(seqd.Code, int) {
	return func(_ seqd.Code, n int) { t.answers += n }
}

// talk returns what a client gets that sends input in pieces, how many commands were answered, and
// the largest piece that the server would have read.
func talk(tb testing.TB, sent []byte, piece int) (got []byte, answers, most int) {
	order := issuer.Definition{BizType: seqd.BizType{Name: "order", Strategy: "counting"}, Strategy: &counting{next: 1}}
	user := issuer.Definition{BizType: seqd.BizType{Name: "user", Strategy: "counting"}, Strategy: &counting{next: 1_000_000}}
	ticket := issuer.Definition{BizType: seqd.BizType{Name: "ticket", Strategy: "counting", Settings: keyed{}}, Strategy: &counting{next: 1}}
	bill := issuer.Definition{BizType: seqd.BizType{Name: "bill", Strategy: "booking"}, Strategy: &booking{counting{next: 1}}}
	issuer := must.Get(issuer.New([]issuer.Definition{order, user, ticket, bill}, issuer.Options{Log: slog.New(slog.DiscardHandler)}))(tb)
	g := gate.New(gate.Options{MaxCount: 1000, Log: slog.New(slog.DiscardHandler)})
	g.Ready(&gate.Running{Issuer: issuer})
	count := new(tally)
	s := New(Options{Gate: g, Metrics: count})
	client := &pieces{rest: sent, piece: piece}
	c := s.newConn(client, nil)
	if !s.add(c) {
		tb.Fatal("the server stops")
	}
	c.serve()
	if len(c.in.args) > mostArgs || len(c.in.spans) > mostArgs {
		tb.Fatalf("%d arguments are held", cap(c.in.spans))
	}
	return client.wrote.Bytes(), count.answers, client.most
}

// FuzzInput: whatever a client sends, nothing panics, every command gets exactly one answer, which
// is well formed, little is held, and it does not matter in which pieces the input arrives.
func FuzzInput(f *testing.F) {
	for _, seed := range []string{
		"*2\r\n$4\r\nINCR\r\n$5\r\norder\r\n", "INCR order\r\nINCR user\r\n", "*3\r\n$6\r\nINCRBY\r\n$5\r\norder\r\n$2\r\n10\r\n", "SEQ.NEXT order COUNT 3\r\nSEQ.NEXT user\r\n",
		"SEQ.NEXT order KEY a\r\nSEQ.NEXT ticket KEY a COUNT 2\r\nSEQ.NEXT ticket KEY b\r\nINCR ticket\r\nINCR ticket/a\r\n",
		"SEQ.RESERVE bill COUNT 2 TTL 1000\r\nSEQ.RESERVE order TTL 1\r\nSEQ.CONFIRM bill r\r\nSEQ.RELEASE bill r..a\r\nHELLO 3\r\nSEQ.CONFIRM bill r\r\n",
		"SEQ.PARSE order 1\r\n", "HELLO 3\r\nSEQ.PARSE order 1\r\nCLIENT GETNAME\r\nCOMMAND\r\nCOMMAND DOCS\r\nINFO\r\n", "HELLO 2 AUTH a b SETNAME c\r\nCLIENT INFO\r\nRESET\r\n",
		"PING\r\nPING 'a b'\r\nPING \"\\x00\\n\"\r\nECHO x\r\nQUIT\r\nPING\r\n", "*0\r\n\r\n*1\r\n$4\r\nPING\r\n", "*-1\r\n", "*1\r\n$-2\r\n", "*100000\r\n", "*2\r\n$4\r\nECHO\r\n$1073741824\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "POST / HTTP/1.1\r\n", "\x16\x03\x01\x02\x00", "*1\r\n$4\r\nPING", "COMMAND INFO INCR nope\r\nSELECT 1\r\nMULTI\r\n",
	} {
		f.Add([]byte(seed), uint16(3))
	}
	f.Fuzz(func(t *testing.T, sent []byte, piece uint16) {
		sent = sent[:min(len(sent), 2*mostBytes)] // more finds no more, and answers are kept
		whole, answers, most := talk(t, sent, 1<<20)
		if most > mostBytes {
			t.Errorf("the server would have read %d bytes at once", most)
		}
		if text, http := bytes.CutSuffix(whole, []byte(httpAnswer)); http {
			whole, answers = text, answers-1
		}
		n, rest := countAnswers(whole)
		if n != answers || len(rest) > 0 {
			t.Errorf("%d answers to %d commands, and then %q, in %q", n, answers, rest, whole)
		}
		parts, _, _ := talk(t, sent, int(piece)+1)
		if parts, _ := bytes.CutSuffix(parts, []byte(httpAnswer)); !bytes.Equal(parts, whole) {
			t.Errorf("in pieces of %d: %q, at once: %q", int(piece)+1, parts, whole)
		}
	})
}

// countAnswers counts the answers in text, and returns what follows the last one.
func countAnswers(text []byte) (n int, rest []byte) {
	for len(text) > 0 {
		after, err := skipAnswer(text)
		if err != nil {
			return n, text
		}
		n, text = n+1, after
	}
	return n, nil
}

// skipAnswer returns what follows an answer.
func skipAnswer(text []byte) (rest []byte, err error) {
	line, rest, ok := bytes.Cut(text, []byte("\r\n"))
	if !ok || len(line) == 0 || bytes.ContainsAny(line, "\r\n") {
		return nil, fmt.Errorf("%.20q is no line", text)
	}
	if strings.IndexByte("+-:_#", line[0]) >= 0 || string(line) == "$-1" {
		return rest, nil
	}
	n, err := strconv.Atoi(string(line[1:]))
	if err != nil {
		return nil, err
	}
	switch line[0] {
	case '$', '=':
		if len(rest) < n+2 || string(rest[n:n+2]) != "\r\n" {
			return nil, fmt.Errorf("%.20q is too short", text)
		}
		return rest[n+2:], nil
	case '%':
		n *= 2
	case '*':
	default:
		return nil, fmt.Errorf("%.20q is of no known kind", text)
	}
	for range n {
		if rest, err = skipAnswer(rest); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

// TestNoAllocations: nothing is allocated for a command, however many arrive together.
func TestNoAllocations(t *testing.T) {
	issuer := must.Get(issuer.New([]issuer.Definition{{BizType: seqd.BizType{Name: "order", Strategy: "counting"}, Strategy: &counting{next: 1}},
		{BizType: seqd.BizType{Name: "user", Strategy: "counting"}, Strategy: &counting{next: 1}},
		{BizType: seqd.BizType{Name: "ticket", Strategy: "counting", Settings: keyed{}}, Strategy: &counting{next: 1}}}, issuer.Options{}))(t)
	secret := access.DigestOf("a secret")
	tokens := access.New(access.Options{Config: []access.Token{{Name: "shop", Secrets: []access.Secret{{Sha256: secret}}, Scopes: []string{"issue:*"}, Enabled: true}}, Now: time.Now})
	g := gate.New(gate.Options{MaxCount: 1000, MaxInFlight: 1, Guard: tokens, Log: slog.New(slog.DiscardHandler)})
	g.Ready(&gate.Running{Issuer: issuer})
	for _, test := range []struct {
		name, send string
		times      int
	}{
		{"one", "*2\r\n$4\r\nINCR\r\n$5\r\norder\r\n", 1},
		{"64", "*2\r\n$4\r\nINCR\r\n$5\r\norder\r\n", 64},
		{"two biz types", "*2\r\n$4\r\nincr\r\n$5\r\norder\r\n*3\r\n$6\r\nINCRBY\r\n$4\r\nuser\r\n$1\r\n1\r\n", 32},
		{"a key", "*4\r\n$8\r\nSEQ.NEXT\r\n$6\r\nticket\r\n$3\r\nKEY\r\n$1\r\na\r\n", 64},
		{"text", "*2\r\n$8\r\nSEQ.NEXT\r\n$5\r\norder\r\n", 64},
		{"ping", "*1\r\n$4\r\nPING\r\n", 64},
	} {
		t.Run(test.name, func(t *testing.T) {
			client := &pieces{piece: 1 << 20}
			c := New(Options{Gate: g, ReadTimeout: time.Minute, IdleTimeout: time.Minute, WriteTimeout: time.Minute, Metrics: new(tally)}).newConn(client, nil)
			c.secret = secret
			sent := []byte(strings.Repeat(test.send, test.times))
			n := must.Allocs(1000, func() {
				client.rest = sent
				client.wrote.Reset()
				if !c.read() {
					t.Fatal("the connection ended")
				}
				c.answer()
			})
			if got, rest := countAnswers(client.wrote.Bytes()); got < test.times || len(rest) > 0 || bytes.Contains(client.wrote.Bytes(), []byte("-")) {
				t.Errorf("%d answers, then %q", got, rest)
			}
			if n != 0 && !racing.On {
				t.Errorf("%v allocations", n)
			}
		})
	}
}
