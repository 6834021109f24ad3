package resp_test

import (
	"context"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/resp"
)

func itoa(n int) string { return strconv.Itoa(n) }

// TestAnswers: what each command answers, to the byte.
func TestAnswers(t *testing.T) {
	for _, test := range []struct{ name, send, want string }{
		{"one number", form("INCR", "order"), ":100\r\n"},
		{"lower case", form("incr", "order"), ":100\r\n"},
		{"several", form("INCRBY", "order", "10"), ":109\r\n"},
		{"one after the other", form("INCR", "order") + form("INCRBY", "order", "10") + form("INCR", "order"), ":100\r\n:110\r\n:111\r\n"},
		{"text", form("SEQ.NEXT", "order"), "$3\r\n100\r\n"},
		{"texts", form("seq.next", "order", "count", "3"), "*3\r\n$3\r\n100\r\n$3\r\n101\r\n$3\r\n102\r\n"},
		{"a batch of one", form("SEQ.NEXT", "order", "COUNT", "1"), "*1\r\n$3\r\n100\r\n"},
		{"shown otherwise", form("SEQ.NEXT", "ticket"), "$2\r\nA7\r\n"},
		{"no number is spent", form("INCR", "ticket") + form("INCRBY", "ticket", "2") + form("SEQ.NEXT", "ticket"),
			strings.Repeat("-ERR invalid_request: the IDs of ticket are not plain numbers; SEQ.NEXT ticket returns them as text\r\n", 2) + "$2\r\nA7\r\n"},
		{"inline", "INCR order\r\nincr 'order'\nINCR \"ord\\x65r\"\r\n", ":100\r\n:101\r\n:102\r\n"},
		{"nothing", "\r\n*0\r\n\n  \r\n" + form("PING"), "+PONG\r\n"},
		{"ping", form("PING", "a\r\nb"), "$4\r\na\r\nb\r\n"},
		{"echo", form("ECHO", ""), "$0\r\n\r\n"},
		{"select", form("SELECT", "0") + form("SELECT", "1"), "+OK\r\n-ERR invalid_request: DB index is out of range: there is only 0\r\n"},
		{"auth without tokens", form("AUTH", "x") + form("AUTH", "me", "x"), "+OK\r\n+OK\r\n"},
		{"names", form("CLIENT", "GETNAME") + form("CLIENT", "SETNAME", "app") + form("CLIENT", "getname"), "$-1\r\n+OK\r\n$3\r\napp\r\n"},
		{"what libraries say", form("CLIENT", "SETINFO", "LIB-NAME", "x y") + form("CLIENT", "ID"), "+OK\r\n:1\r\n"},
		{"unknown biz type", form("INCR", "nope"), "-ERR unknown_biz_type: no biz type is called \"nope\"\r\n"},
		{"count 0", form("INCRBY", "order", "0"), "-ERR invalid_count: count is 0 and must be a whole number from 1 to 10000\r\n"},
		{"count -1", form("INCRBY", "order", "-1"), "-ERR invalid_count: count is -1 and must be a whole number from 1 to 10000\r\n"},
		{"count too large", form("INCRBY", "order", "10001"), "-ERR invalid_count: count is 10001 and must be a whole number from 1 to 10000\r\n"},
		{"count 2^63", form("INCRBY", "order", "9223372036854775808"), "-ERR invalid_count: the count is \"9223372036854775808\" and must be a whole number from 1 to 10000\r\n"},
		{"count of words", form("SEQ.NEXT", "order", "COUNT", "1\r\n2"), "-ERR invalid_count: the count is \"1\\r\\n2\" and must be a whole number from 1 to 10000\r\n"},
		{"count with a zero", form("SEQ.NEXT", "order", "COUNT", "010"), "-ERR invalid_count: the count is \"010\" and must be a whole number from 1 to 10000\r\n"},
		{"two counts", form("SEQ.NEXT", "order", "COUNT", "1", "COUNT", "2"), "-ERR invalid_count: COUNT is given more than once\r\n"},
		{"half an option", form("SEQ.NEXT", "order", "COUNT"), "-ERR invalid_request: syntax error: COUNT has no value\r\n"},
		{"another option", form("SEQ.NEXT", "order", "EX", "1"), "-ERR invalid_request: syntax error: \"EX\" is not an option of SEQ.NEXT bizType [COUNT n] [KEY k]\r\n"},
		{"too few", form("INCR"), "-ERR invalid_request: wrong number of arguments for 'incr' command: it is INCR bizType\r\n"},
		{"errors in order", form("INCR", "order") + form("INCRBY", "order", "0") + form("INCR", "order"),
			":100\r\n-ERR invalid_count: count is 0 and must be a whole number from 1 to 10000\r\n:101\r\n"},
		{"names that change", form("PING") + form("ping") + form("INCR", "order") + form("PIN") + form("") + form("INCR", "order") + form("PING"),
			"+PONG\r\n+PONG\r\n:100\r\n" + unknown("PIN") + unknown("") + ":101\r\n+PONG\r\n"},
		{"other commands", form("EVAL", "return 1", "0") + form("A\r\nB") + form(strings.Repeat("x", 41)), unknown("EVAL") + unknown("A\r\nB") + unknown(strings.Repeat("x", 40))},
		{"a transaction takes nothing", form("WATCH", "a") + form("INCR", "order") + form("multi") + form("INCR", "order") + form("PING") + form("GET", "a") + form("EXEC") + form("INCR", "order"),
			noTransaction + ":100\r\n" + strings.Repeat(noTransaction, 3) + unknown("GET") + noTransaction + ":101\r\n"},
		{"a transaction is discarded", form("MULTI") + form("SEQ.NEXT", "order") + form("DISCARD") + form("INCR", "order") + form("EXEC"),
			strings.Repeat(noTransaction, 2) + "+OK\r\n:100\r\n" + noTransaction},
		{"a transaction and a reset", form("MULTI") + form("RESET") + form("INCR", "order"), noTransaction + "+RESET\r\n:100\r\n"},
		{"reset", form("RESET"), "+RESET\r\n"},
		{"quit", form("QUIT") + form("INCR", "order"), "+OK\r\n"},
		{"parse", form("SEQ.PARSE", "order", "100"), "*8\r\n$7\r\nbizType\r\n$5\r\norder\r\n$2\r\nid\r\n$3\r\n100\r\n$6\r\nnumber\r\n$3\r\n100\r\n$5\r\nvalid\r\n:1\r\n"},
		{"parse with a key", form("SEQ.PARSE", "order", "1", "KEY", "a"), "-ERR invalid_key: order has one counter for all callers: leave the key out\r\n"},
		{"parse for a key", form("SEQ.PARSE", "tenant", "1", "KEY", "a"), "*10\r\n$7\r\nbizType\r\n$6\r\ntenant\r\n$2\r\nid\r\n$1\r\n1\r\n$6\r\nnumber\r\n$1\r\n1\r\n$3\r\nkey\r\n$1\r\na\r\n$5\r\nvalid\r\n:1\r\n"},
		{"parse with another option", form("SEQ.PARSE", "order", "1", "COUNT", "2"), "-ERR invalid_request: syntax error: \"COUNT\" is not an option of SEQ.PARSE bizType id [KEY k]\r\n"},
		{"parse what is not valid", form("SEQ.PARSE", "wrong", "1"), "*8\r\n$7\r\nbizType\r\n$5\r\nwrong\r\n$2\r\nid\r\n$1\r\n1\r\n$6\r\nnumber\r\n$1\r\n1\r\n$5\r\nvalid\r\n:0\r\n"},
		{"command info", form("COMMAND", "INFO", "SEQ.NEXT", "INCR"), "*2\r\n*10\r\n$8\r\nseq.next\r\n:-2\r\n*1\r\n+fast\r\n:1\r\n:1\r\n:1\r\n*0\r\n*0\r\n*0\r\n*0\r\n" +
			"*10\r\n$4\r\nincr\r\n:2\r\n*1\r\n+fast\r\n:1\r\n:1\r\n:1\r\n*0\r\n*0\r\n*0\r\n*0\r\n"},
		{"parse all", form("SEQ.PARSE", "made", "1"), "*16\r\n$7\r\nbizType\r\n$4\r\nmade\r\n$2\r\nid\r\n$1\r\n1\r\n$6\r\nnumber\r\n$1\r\n1\r\n$6\r\nperiod\r\n$10\r\n2026-11-20\r\n" +
			"$2\r\nat\r\n$24\r\n1970-01-01T00:00:01.000Z\r\n$5\r\nvalid\r\n:1\r\n$9\r\nmachineId\r\n:5\r\n$8\r\nsequence\r\n:6\r\n"},
		{"maps and booleans of RESP3", form("HELLO", "3", "SETNAME", "a") + form("SEQ.PARSE", "order", "1") + form("SEQ.PARSE", "wrong", "1") + form("RESET") + form("CLIENT", "GETNAME"),
			"%7\r\n$6\r\nserver\r\n$4\r\nseqd\r\n$7\r\nversion\r\n$5\r\n7.4.0\r\n$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n" +
				"$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n" +
				"%4\r\n$7\r\nbizType\r\n$5\r\norder\r\n$2\r\nid\r\n$1\r\n1\r\n$6\r\nnumber\r\n$1\r\n1\r\n$5\r\nvalid\r\n#t\r\n" +
				"%4\r\n$7\r\nbizType\r\n$5\r\nwrong\r\n$2\r\nid\r\n$1\r\n1\r\n$6\r\nnumber\r\n$1\r\n1\r\n$5\r\nvalid\r\n#f\r\n+RESET\r\n$-1\r\n"},
		{"another protocol", form("HELLO", "4") + form("HELLO", "x"), strings.Repeat("-NOPROTO invalid_request: unsupported protocol version: it is 2 or 3\r\n", 2)},
		{"half a HELLO", form("HELLO", "3", "AUTH", "x"), "-ERR invalid_request: syntax error in HELLO: it is HELLO [2|3] [AUTH user token] [SETNAME name]\r\n"},
		{"a wrong name changes nothing", form("HELLO", "3", "SETNAME", "a b") + form("CLIENT", "GETNAME"),
			"-ERR invalid_request: Client names cannot contain spaces, newlines or special characters.\r\n$-1\r\n"},
		{"long names", form("CLIENT", "SETNAME", strings.Repeat("x", 129)), "-ERR invalid_request: the name of a connection has at most 128 bytes\r\n"},
		{"CLIENT", form("CLIENT", "KILL", "1") + form("CLIENT", "SETNAME"),
			"-ERR invalid_request: unknown subcommand \"KILL\": it is CLIENT SETNAME name | GETNAME | SETINFO key value | ID | INFO\r\n" +
				"-ERR invalid_request: wrong number of arguments for 'client|setname' command\r\n"},
		{"COMMAND", form("COMMAND", "COUNT") + form("COMMAND", "INFO", "nope") + form("COMMAND", "DOCS", "ping", "nope") + form("COMMAND", "GETKEYS"),
			":" + itoa(len(resp.CommandNames())) + "\r\n*1\r\n$-1\r\n*2\r\n$4\r\nping\r\n*6\r\n$7\r\nsummary\r\n$26\r\nReturns PONG, or the text.\r\n$5\r\nsince\r\n$5\r\n1.0.0\r\n$5\r\ngroup\r\n$7\r\ngeneric\r\n" +
				"-ERR invalid_request: unknown subcommand \"GETKEYS\": it is COMMAND [COUNT | LIST | DOCS | INFO]\r\n"},
		{"COMMAND LIST", form("COMMAND", "LIST"), list()},
		{"what INCR is", form("COMMAND", "INFO", "incr"), "*1\r\n*10\r\n$4\r\nincr\r\n:2\r\n*1\r\n+fast\r\n:1\r\n:1\r\n:1\r\n*0\r\n*0\r\n*0\r\n*0\r\n"},
		{"escapes before digits", `ECHO "\n41\x40"` + "\r\n" + `ECHO "\x4"` + "\r\n" + `ECHO "\x"` + "\r\n", "$4\r\n\n41@\r\n$2\r\nx4\r\n$1\r\nx\r\n"},
		{"escapes", `ECHO "\x4A\x6b\n\r\t\b\a\"\\\xZZ"` + "\r\n" + `ECHO '\x41\'"'` + "\r\n" + `ECHO a"b"` + "\r\n", "$12\r\nJk\n\r\t\b\a\"\\xZZ\r\n$6\r\n\\x41'\"\r\n$2\r\nab\r\n"},
		{"parse nonsense", form("SEQ.PARSE", "order", "x"), "-ERR invalid_id: \"x\" is no ID of order: an ID is a decimal number without sign or leading zeros\r\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := serve(t, nil, define("order", newCounter(100)), define("ticket", newCounter(7), prefixed), define("wrong", invalid{newCounter(1)}),
				defineKeyed("tenant", newCounter(1)), define("made", telling{newCounter(1)}, seqd.BoundPlugin{Name: "dated", Rewrites: true, Plugin: dated{}}))
			p := s.dial(t)
			if !strings.Contains(test.send, "QUIT") {
				test.send, test.want = test.send+form("QUIT"), test.want+"+OK\r\n"
			}
			p.send(test.send)
			must.Equal(t, p.rest(), test.want)
		})
	}
}

// invalid is a strategy whose numbers are all invalid to Parse.
type invalid struct{ *counter }

func (invalid) Parse(number int64) (seqd.Parsed, error) { return seqd.Parsed{Number: number}, nil }

// telling is a strategy whose numbers say how they were made.
type telling struct{ *counter }

func (telling) Parse(number int64) (seqd.Parsed, error) {
	machine, sequence := int64(5), int64(6)
	return seqd.Parsed{Valid: true, Number: number, Time: time.UnixMilli(1000), MachineID: &machine, Sequence: &sequence}, nil
}

// dated is a plugin that reads a period.
type dated struct{ plugin }

func (dated) Read(_ context.Context, shown string, _ seqd.Counter) (seqd.Reading, error) {
	return seqd.Reading{Shown: shown, Period: 20261120}, nil
}

// list returns the answer to COMMAND LIST.
func list() string {
	names := resp.CommandNames()
	text := "*" + itoa(len(names)) + "\r\n"
	for _, name := range names {
		text += "$" + itoa(len(name)) + "\r\n" + strings.ToLower(name) + "\r\n"
	}
	return text
}

// unknown returns the answer to a command that there is not.
const noTransaction = "-ERR invalid_request: there are no transactions, and no number was taken: use a pipeline without MULTI, such as pipeline(transaction=False) of redis-py\r\n"

func unknown(name string) string {
	return "-ERR invalid_request: unknown command " + strconv.Quote(name) + "; seqd has " + strings.Join(resp.CommandNames(), ", ") + "\r\n"
}

// TestDocumented: the table in docs/API.md has every command.
func TestDocumented(t *testing.T) {
	text := must.Get(os.ReadFile("../../docs/API.md"))(t)
	_, section, _ := strings.Cut(string(text), "\n## Redis protocol\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, name := range resp.CommandNames() {
		if !regexp.MustCompile("(?m)^\\|.*`" + regexp.QuoteMeta(name) + "[ `].*\\|").MatchString(section) {
			t.Errorf("docs/API.md has no row for %s", name)
		}
	}
}

// TestSharedTake: commands of one kind for one biz type that arrive together share one take, up to
// a bound.
func TestSharedTake(t *testing.T) {
	for send, want := range map[string]int64{
		strings.Repeat("INCR o\n", 256): 1, strings.Repeat("INCR o\n", 257): 2, "INCRBY o 600\nINCRBY o 600\n": 1, "INCR o\nSEQ.NEXT o\nINCR o\n": 3,
		"SEQ.NEXT o COUNT 256\nSEQ.NEXT o COUNT 256\n": 1, "SEQ.NEXT o COUNT 256\nSEQ.NEXT o COUNT 257\n": 2,
	} {
		c := newCounter(1)
		p := servePiped(t, nil, define("o", c)).dial(t)
		p.send(send + "QUIT\n")
		p.rest()
		must.Equal(t, c.takes.Load(), want, "the times that %.50q took", send)
	}
}

var _ seqd.Strategy = (*counter)(nil)

// TestLongAnswers: answers that are written in parts are complete and in order.
func TestLongAnswers(t *testing.T) {
	p := serve(t, nil, define("order", newCounter(1))).dial(t)
	const times, size = 100, 10_000
	go p.send(strings.Repeat(form("ECHO", strings.Repeat("x", size))+form("INCR", "order"), times) + form("QUIT"))
	want := ""
	for i := range times {
		want += "$10000\r\n" + strings.Repeat("x", size) + "\r\n:" + itoa(i+1) + "\r\n"
	}
	if got := p.rest(); got != want+"+OK\r\n" {
		t.Errorf("%d bytes, want %d", len(got), len(want)+5)
	}
}
