package resp_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/issuer"
)

// ledger is a gapless strategy whose reservations have the IDs r0, r1 …, with the key behind two
// dots. It keeps no account of what is released.
type ledger struct {
	mu      sync.Mutex
	next    map[string]int64 // by key
	list    map[string]*reserved
	orders  []seqd.Order
	settled []seqd.Settlement
}

type reserved struct {
	seqd.Reservation
	first int64
	count int
}

func newLedger() *ledger { return &ledger{next: map[string]int64{}, list: map[string]*reserved{}} }

var _ seqd.Ledger = (*ledger)(nil)

func (l *ledger) Init(context.Context, bool) error                   { return nil }
func (l *ledger) Close(context.Context) error                        { return nil }
func (l *ledger) OnExpired(func(seqd.Expiry))                        {}
func (l *ledger) Return(*seqd.Sequence, error)                       {}
func (l *ledger) Void(context.Context, seqd.Voiding) error           { return nil }
func (l *ledger) Reclaim(context.Context, string, seqd.Period) error { return nil }
func (l *ledger) Account(context.Context, seqd.AccountQuery) (a seqd.Account, err error) {
	return a, nil
}

func (l *ledger) Generate(ctx context.Context, n int, seq *seqd.Sequence) error {
	_, _, err := l.HandOut(ctx, seqd.Order{Count: n}, seq)
	return err
}

func (l *ledger) HandOut(_ context.Context, o seqd.Order, seq *seqd.Sequence) (r seqd.Reservation, replayed bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.orders = append(l.orders, o)
	first := l.next[seq.Key()] + 1
	l.next[seq.Key()] += int64(o.Count)
	seq.Add(first, o.Count, 1)
	if !o.Reserve {
		return r, false, nil
	}
	r = seqd.Reservation{ID: fmt.Sprint("r", len(l.list)), Key: seq.Key(), State: seqd.Reserved, ExpiresAt: time.Unix(1_800_000_000, 0).Add(o.TTL)}
	if r.Key != "" {
		r.ID += ".." + r.Key
	}
	l.list[r.ID] = &reserved{r, first, o.Count}
	return r, false, nil
}

func (l *ledger) Find(_ context.Context, id string, seq *seqd.Sequence) (seqd.Reservation, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	got := l.list[id]
	if got == nil {
		return seqd.Reservation{}, seqd.Errorf(seqd.CodeUnknownReservation, "there is no reservation %s", id)
	}
	seq.Add(got.first, got.count, 1)
	return got.Reservation, nil
}

func (l *ledger) Confirm(ctx context.Context, s seqd.Settlement, seq *seqd.Sequence) (r seqd.Reservation, err error) {
	if err := l.settle(s, seqd.Confirmed); err != nil {
		return r, err
	}
	return l.Find(ctx, s.ID, seq)
}

func (l *ledger) Release(_ context.Context, s seqd.Settlement) error {
	return l.settle(s, seqd.Released)
}

func (l *ledger) settle(s seqd.Settlement, to seqd.ReservationState) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settled = append(l.settled, s)
	switch got := l.list[s.ID]; {
	case got == nil:
		return seqd.Errorf(seqd.CodeUnknownReservation, "there is no reservation %s", s.ID)
	case got.State != seqd.Reserved && got.State != to:
		return seqd.Errorf(seqd.Code("reservation_"+string(got.State)), "it was %s", got.State)
	default:
		got.State = to
		return nil
	}
}

// keyed is settings of a keyed biz type.
type keyed struct{}

func (keyed) Traits() seqd.Traits { return seqd.Traits{Keyed: true} }

func defineKeyed(name string, s seqd.Strategy, plugins ...seqd.BoundPlugin) issuer.Definition {
	d := define(name, s, plugins...)
	d.BizType.Settings = keyed{}
	return d
}

// TestKeysAndReservations: what the commands of keyed and gapless biz types answer, to the byte.
func TestKeysAndReservations(t *testing.T) {
	const expires = "$9\r\nexpiresAt\r\n$24\r\n2027-01-15T08:00:00.000Z\r\n"
	r0 := func(state string) string {
		return "*10\r\n$7\r\nbizType\r\n$7\r\ninvoice\r\n$11\r\nreservation\r\n$2\r\nr0\r\n$5\r\nstate\r\n$" + itoa(len(state)) + "\r\n" + state + "\r\n" + expires +
			"$3\r\nids\r\n*2\r\n$1\r\n1\r\n$1\r\n2\r\n"
	}
	reserve2 := form("SEQ.RESERVE", "invoice", "COUNT", "2")
	for _, test := range []struct{ name, send, want string }{
		{"a key", form("SEQ.NEXT", "ticket", "KEY", "a") + form("seq.next", "ticket", "key", "b", "count", "2") + form("SEQ.NEXT", "ticket", "COUNT", "1", "KEY", "a"),
			"$1\r\n1\r\n*2\r\n$1\r\n1\r\n$1\r\n2\r\n*1\r\n$1\r\n2\r\n"},
		{"no key", form("SEQ.NEXT", "ticket"), "-ERR invalid_key: ticket counts for each key on its own: name one with key\r\n"},
		{"INCR without a key", form("INCR", "ticket") + form("INCRBY", "ticket", "2") + form("SEQ.NEXT", "ticket", "KEY", "a"),
			strings.Repeat("-ERR invalid_key: ticket counts for each key on its own; SEQ.NEXT ticket KEY <key> names one\r\n", 2) + "$1\r\n1\r\n"},
		{"a key in the name", form("INCR", "ticket/t-42") + form("SEQ.NEXT", "ticket/t-42"), strings.Repeat("-ERR invalid_key: a key is given by KEY alone: SEQ.NEXT ticket KEY t-42\r\n", 2)},
		{"a slash that is none", form("INCR", "ticket/"), "-ERR invalid_biz_type: "},
		{"a key too many", form("SEQ.NEXT", "order", "KEY", "a"), "-ERR invalid_key: order has one counter for all callers: leave the key out\r\n"},
		{"two keys", form("SEQ.NEXT", "ticket", "KEY", "a", "KEY", "a"), "-ERR invalid_key: KEY is given more than once\r\n"},
		{"an empty key", form("SEQ.NEXT", "ticket", "KEY", ""), "-ERR invalid_key: the key is empty\r\n"},
		{"a long key", form("SEQ.NEXT", "ticket", "KEY", strings.Repeat("x", 65)), "-ERR invalid_key: the key has 65 bytes, more than 64\r\n"},
		{"a key with a slash", form("SEQ.NEXT", "ticket", "KEY", "a/b"), "-ERR invalid_key: the key \"a/b\" has a character at byte 1"},
		{"half a key", form("SEQ.NEXT", "ticket", "KEY"), "-ERR invalid_request: syntax error: KEY has no value\r\n"},
		{"a TTL of no use", form("SEQ.NEXT", "ticket", "TTL", "1000"), "-ERR invalid_request: syntax error: \"TTL\" is not an option of SEQ.NEXT bizType [COUNT n] [KEY k]\r\n"},

		{"reserve", reserve2, r0("reserved")},
		{"reserve one", form("seq.reserve", "invoice") + form("INCR", "invoice"),
			"*10\r\n$7\r\nbizType\r\n$7\r\ninvoice\r\n$11\r\nreservation\r\n$2\r\nr0\r\n$5\r\nstate\r\n$8\r\nreserved\r\n" + expires + "$3\r\nids\r\n*1\r\n$1\r\n1\r\n:2\r\n"},
		{"confirm", reserve2 + form("SEQ.CONFIRM", "invoice", "r0") + form("seq.confirm", "invoice", "r0"), r0("reserved") + r0("confirmed") + r0("confirmed")},
		{"release", reserve2 + form("SEQ.RELEASE", "invoice", "r0") + form("seq.release", "invoice", "r0"), r0("reserved") + "+OK\r\n+OK\r\n"},
		{"both", reserve2 + form("SEQ.RELEASE", "invoice", "r0") + form("SEQ.CONFIRM", "invoice", "r0"), r0("reserved") + "+OK\r\n-ERR reservation_released: it was released\r\n"},
		{"both, turned round", reserve2 + form("SEQ.CONFIRM", "invoice", "r0") + form("SEQ.RELEASE", "invoice", "r0"), r0("reserved") + r0("confirmed") + "-ERR reservation_confirmed: it was confirmed\r\n"},
		{"unknown", form("SEQ.CONFIRM", "invoice", "x") + form("SEQ.RELEASE", "invoice", "x"), strings.Repeat("-ERR unknown_reservation: there is no reservation x\r\n", 2)},
		{"not gapless", form("SEQ.RESERVE", "order"), "-ERR invalid_request: the strategy counter of order reserves no numbers: only gapless does\r\n"},
		{"nor that", form("SEQ.CONFIRM", "order", "r0"), "-ERR invalid_request: order is of the strategy counter, which keeps no account of its numbers: only gapless does\r\n"},
		{"no biz type", form("SEQ.RELEASE", "nope", "r0"), "-ERR unknown_biz_type: no biz type is called \"nope\"\r\n"},
		{"short", form("SEQ.RESERVE", "invoice", "TTL", "999"), "-ERR invalid_ttl: TTL is \"999\" and must be milliseconds from 1000 to 86400000\r\n"},
		{"long", form("SEQ.RESERVE", "invoice", "TTL", "86400001"), "-ERR invalid_ttl: TTL is \"86400001\" and must be milliseconds from 1000 to 86400000\r\n"},
		{"the longest", form("SEQ.RESERVE", "invoice", "TTL", "86400000"), "*10\r\n$7\r\nbizType"},
		{"not a time", form("SEQ.RESERVE", "invoice", "TTL", "1m"), "-ERR invalid_ttl: TTL is \"1m\" and must be milliseconds from 1000 to 86400000\r\n"},
		{"two times", form("SEQ.RESERVE", "invoice", "TTL", "1000", "TTL", "1000"), "-ERR invalid_ttl: TTL is given more than once\r\n"},
		{"too many", form("SEQ.RESERVE", "invoice", "COUNT", "10001"), "-ERR invalid_count: count is 10001 and must be a whole number from 1 to 10000\r\n"},
		{"another option", form("SEQ.RESERVE", "invoice", "EX", "1"), "-ERR invalid_request: syntax error: \"EX\" is not an option of SEQ.RESERVE bizType [COUNT n] [TTL ms] [KEY k]\r\n"},
		{"consecutive", form("INCRBY", "invoice", "2"), "-ERR invalid_request: the strategy counter of invoice cannot make consecutive numbers; ask for one number at a time\r\n"},
		{"a key behind another", form("SEQ.RESERVE", "bill", "KEY", "a.b") + form("SEQ.RESERVE", "bill", "KEY", "b", "TTL", "1000") + form("SEQ.CONFIRM", "bill", "r0..a.b"),
			"*10\r\n$7\r\nbizType\r\n$4\r\nbill\r\n$11\r\nreservation\r\n$7\r\nr0..a.b\r\n$5\r\nstate\r\n$8\r\nreserved\r\n" + expires + "$3\r\nids\r\n*1\r\n$1\r\n1\r\n" +
				"*10\r\n$7\r\nbizType\r\n$4\r\nbill\r\n$11\r\nreservation\r\n$5\r\nr1..b\r\n$5\r\nstate\r\n$8\r\nreserved\r\n$9\r\nexpiresAt\r\n$24\r\n2027-01-15T08:00:01.000Z\r\n$3\r\nids\r\n*1\r\n$1\r\n1\r\n" +
				"*10\r\n$7\r\nbizType\r\n$4\r\nbill\r\n$11\r\nreservation\r\n$7\r\nr0..a.b\r\n$5\r\nstate\r\n$9\r\nconfirmed\r\n" + expires + "$3\r\nids\r\n*1\r\n$1\r\n1\r\n"},
		{"maps of RESP3", form("HELLO", "3") + form("RESET"), "%7\r\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := serve(t, nil, define("order", newCounter(1)), defineKeyed("ticket", newLedger()), define("invoice", newLedger()), defineKeyed("bill", newLedger()))
			p := s.dial(t)
			p.send(test.send + form("QUIT"))
			got := strings.TrimSuffix(p.rest(), "+OK\r\n")
			if whole := strings.HasSuffix(test.want, "\r\n") && !strings.HasPrefix(test.want, "%"); whole && got != test.want || !strings.HasPrefix(got, test.want) {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
		})
	}
}

// A pipeline that mixes keys, biz types and kinds of requests is answered in order, and requests of
// one key that follow each other share a take.
func TestMixedKeys(t *testing.T) {
	ticket, c := newLedger(), newCounter(1)
	s := serve(t, nil, defineKeyed("ticket", ticket), define("order", c))
	p := s.dial(t)
	var send strings.Builder
	var want []string
	count := map[string]int{}
	for i := range 300 {
		key := string(rune('a' + i/3%3))
		switch i % 10 {
		case 8:
			send.WriteString(form("INCR", "order"))
			count["order"]++
			want = append(want, fmt.Sprint(":", count["order"]))
		case 9:
			send.WriteString(form("SEQ.NEXT", "ticket"))
			want = append(want, "-ERR invalid_key: ticket counts for each key on its own: name one with key")
		default:
			send.WriteString(form("SEQ.NEXT", "ticket", "KEY", key))
			count[key]++
			text := itoa(count[key])
			want = append(want, "$"+itoa(len(text)), text)
		}
	}
	p.send(send.String())
	if got := p.lines(len(want)); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	ticket.orders = nil
	p.send(strings.Repeat(form("SEQ.NEXT", "ticket", "KEY", "z"), 64))
	p.lines(128)
	must.Equal(t, len(ticket.orders), 1, "the times that 64 requests of one key took")
}

// A token of one key gets no other key's numbers, and settles no other key's reservation. Others
// settle what they did not reserve only with the scope admin.
func TestScopesWithKeys(t *testing.T) {
	bill := newLedger()
	tokens, newToken := withTokens(t)
	secrets := map[string]string{
		"one": newToken("one", "issue:bill/t-1"), "all": newToken("all", "issue:bill"), "root": newToken("root", "admin"),
		"reader": newToken("reader", "read"), "other": newToken("other", "issue:order"),
	}
	s := serve(t, func(set *settings) { set.gate.Guard = tokens }, defineKeyed("bill", bill), define("order", newCounter(1)))
	as := func(name string) *redis.Client {
		rdb := redis.NewClient(&redis.Options{Addr: s.addr, DialTimeout: await.Patience, ReadTimeout: await.Patience, Password: secrets[name], Protocol: 2, MaxRetries: -1})
		t.Cleanup(func() { _ = rdb.Close() })
		return rdb
	}
	for _, test := range []struct {
		token, want string // "" for no error
		command     []any
	}{
		{"one", "", []any{"SEQ.RESERVE", "bill", "KEY", "t-1"}}, // r0..t-1
		{"all", "", []any{"SEQ.RESERVE", "bill", "KEY", "t-2"}}, // r1..t-2
		{"one", "NOPERM forbidden", []any{"SEQ.RESERVE", "bill", "KEY", "t-2"}},
		{"one", "NOPERM forbidden", []any{"SEQ.NEXT", "bill", "KEY", "t-10"}},
		{"one", "NOPERM forbidden", []any{"SEQ.NEXT", "bill"}},
		{"one", "NOPERM forbidden", []any{"SEQ.NEXT", "order"}},
		{"one", "", []any{"SEQ.NEXT", "bill", "KEY", "t-1"}},
		{"other", "NOPERM forbidden", []any{"SEQ.NEXT", "bill", "KEY", "t-1"}},
		{"root", "NOPERM forbidden", []any{"SEQ.NEXT", "bill", "KEY", "t-1"}},
		{"one", "NOPERM forbidden", []any{"SEQ.CONFIRM", "bill", "r1..t-2"}},
		{"reader", "NOPERM forbidden", []any{"SEQ.CONFIRM", "bill", "r0..t-1"}},
		{"reader", "NOPERM forbidden", []any{"SEQ.RELEASE", "bill", "r0..t-1"}},
		{"other", "NOPERM forbidden", []any{"SEQ.RELEASE", "bill", "r0..t-1"}},
		{"all", "", []any{"SEQ.CONFIRM", "bill", "r0..t-1"}}, // the strategy compares owners
		{"root", "", []any{"SEQ.RELEASE", "bill", "r1..t-2"}},
	} {
		err := as(test.token).Do(t.Context(), test.command...).Err()
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want)) {
			t.Errorf("%s: %v: %v, want %q", test.token, test.command, err, test.want)
		}
	}
	want := []seqd.Settlement{{ID: "r0..t-1", Caller: seqd.Caller{Name: "all"}}, {ID: "r1..t-2", Caller: seqd.Caller{Name: "root"}, Admin: true}}
	for i := range bill.settled {
		caller := &bill.settled[i].Caller
		if caller.OwnerID() == caller.Name || seqd.OwnerName(caller.OwnerID()) != caller.Name {
			t.Errorf("%s owns what %s makes", caller.OwnerID(), caller.Name)
		}
		*caller = seqd.Caller{Name: caller.Name}
	}
	if !slices.Equal(bill.settled, want) {
		t.Errorf("settled %+v\nwant %+v", bill.settled, want)
	}
}

// TestGoRedisGapless: a client of Redis reserves, confirms and releases numbers of the real strategy.
func TestGoRedisGapless(t *testing.T) {
	clients(t, serve(t, nil, made(t, "invoice", "gapless")), func(t *testing.T, rdb *redis.Client) {
		ctx := t.Context()
		ask := func(command ...any) map[string]any {
			t.Helper()
			got := must.Get(rdb.Do(ctx, command...).Result())(t)
			fields := map[string]any{}
			switch got := got.(type) {
			case []any: // RESP2
				for i := 0; i < len(got); i += 2 {
					fields[fmt.Sprint(got[i])] = got[i+1]
				}
			case map[any]any:
				for name, value := range got {
					fields[fmt.Sprint(name)] = value
				}
			}
			return fields
		}
		before := must.Get(rdb.Incr(ctx, "invoice").Result())(t)
		used := ask("SEQ.RESERVE", "invoice", "COUNT", 2, "TTL", 60_000)
		unused := ask("SEQ.RESERVE", "invoice")
		if fmt.Sprint(used["ids"], " ", used["state"]) != fmt.Sprintf("[%d %d] reserved", before+1, before+2) || fmt.Sprint(unused["ids"]) != fmt.Sprintf("[%d]", before+3) {
			t.Errorf("got %v and %v after %d", used, unused, before)
		}
		for range 2 {
			if got := ask("SEQ.CONFIRM", "invoice", used["reservation"]); got["state"] != "confirmed" || fmt.Sprint(got["ids"]) != fmt.Sprint(used["ids"]) {
				t.Errorf("got %v", got)
			}
			if got, err := rdb.Do(ctx, "SEQ.RELEASE", "invoice", unused["reservation"]).Text(); got != "OK" || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
		}
		if err := rdb.Do(ctx, "SEQ.RELEASE", "invoice", used["reservation"]).Err(); err == nil || !strings.HasPrefix(err.Error(), "ERR reservation_confirmed: ") {
			t.Errorf("got %v", err)
		}
		if next, err := rdb.Incr(ctx, "invoice").Result(); next != before+3 || err != nil {
			t.Errorf("the number that was released is not next: %d, %v", next, err)
		}
	})
}
