package cursor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// A visibly damaged hash yields an error and no numbers. Invisible damage yields only numbers that
// were installed, each once.
func TestDamagedHash(t *testing.T) {
	t.Parallel()
	client := connect(t, testenv.StartRedis(t).Addr(), calm)
	ctx := context.Background()
	harmless := map[string]bool{"first": true, "first=x": true, "last=nan": true}
	for _, damage := range []string{
		"v=", "v=x", "gen", "ceil", "ceil=", "ceil=x", "ceil=-5", "ceil=9007199254740992", "ceil=1e15", "ceil=5",
		"first", "first=x", "cur", "cur=x", "cur=", "last", "last=x", "last=nan", "queue", "queue=x", "queue=21-", "queue=21-30",
		"queue=a-b ", "queue= ", "queue=30-21 ", "queue=1-9 ", "queue=21-9007199254740999 ", "queued", "queued=x", "queued=9", "claim", "claim=x",
	} {
		t.Run(damage, func(t *testing.T) {
			c, seen := open(t, client), newLedger(t)
			c.fill("1-10 21-30", 1)
			if field, value, set := strings.Cut(damage, "="); set {
				c.set(field, value)
			} else if err := client.HDel(ctx, c.key, field).Err(); err != nil {
				t.Fatal(err)
			}
			var err error
			for _, count := range []int64{6, 15} {
				var taken rediscursor.Taken
				taken, err = c.Take(ctx, rediscursor.Take{Count: count, Threshold: 0.1, Reserve: 3, UseReserve: true, Claim: claim})
				if err != nil && len(taken.Runs) > 0 {
					t.Errorf("got %v and %v", taken.Runs, err)
				}
				seen.add(taken.Runs)
			}
			must.Equal(t, err == nil, harmless[damage], "error %v", err)
			for n := range seen.seen {
				if n > 10 && n < 21 || n > 30 {
					t.Errorf("%d was never installed", n)
				}
			}
		})
	}
}

// An invalid range would lower ceil or exceed the exact numbers. It is not even sent.
func TestInstallRefusesWhatIsNoRange(t *testing.T) {
	t.Parallel()
	client := connect(t, testenv.StartRedis(t).Addr(), calm)
	c := open(t, client)
	c.fill("1-10", 0)
	before := c.hash()
	for _, r := range []persist.Range{{First: 20, Last: 19}, {First: 20, Last: 5}, {First: 20}, {First: 20, Last: persist.MaxNumber + 1}, {First: -1, Last: 5}} {
		for _, mode := range []rediscursor.Mode{rediscursor.Append, rediscursor.Advance} {
			answer, err := c.Install(context.Background(), rediscursor.Install{Mode: mode, Gen: c.gen, Range: r})
			if !errors.Is(err, persist.ErrInvalid) || answer.Verdict != "" {
				t.Errorf("%s %v: %+v, %v", mode, r, answer, err)
			}
		}
	}
	if after := c.hash(); !maps.Equal(before, after) {
		t.Errorf("%v became %v", before, after)
	}
}

// fake answers every script with the same text, as a broken server could.
type fake struct {
	addr  string
	reply string
	runs  atomic.Int64
}

func startFake(t *testing.T, reply string) *fake {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = listener.Close() })
	f := &fake{addr: listener.Addr().String(), reply: reply}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go f.serve(conn)
		}
	}()
	return f
}

func (f *fake) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	for in := bufio.NewReader(conn); ; {
		name, err := readCommand(in)
		if err != nil {
			return
		}
		answer := "-ERR unknown command"
		switch name {
		case "evalsha", "eval":
			f.runs.Add(1)
			answer = f.reply
		case "info":
			answer = "$0\r\n"
		}
		if _, err := io.WriteString(conn, answer+"\r\n"); err != nil {
			return
		}
	}
}

// readCommand reads one command and returns its name.
func readCommand(in *bufio.Reader) (name string, err error) {
	count, err := readLength(in)
	for i := range count {
		size, err := readLength(in)
		if err != nil {
			return "", err
		}
		arg := make([]byte, size+2)
		if _, err := io.ReadFull(in, arg); err != nil {
			return "", err
		}
		if i == 0 {
			name = strings.ToLower(string(arg[:size]))
		}
	}
	return name, err
}

func readLength(in *bufio.Reader) (int, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}

// array writes a reply of bulk strings. A word that begins with a type byte of the protocol is
// copied unchanged.
func array(words string) string {
	list := strings.Fields(words)
	text := fmt.Sprintf("*%d", len(list))
	for _, word := range list {
		if strings.ContainsAny(word[:1], ":$*_") {
			text += "\r\n" + word
		} else {
			text += fmt.Sprintf("\r\n$%d\r\n%s", len(word), word)
		}
	}
	return text
}

// Any reply that the scripts cannot give is an error.
func TestStrangeAnswers(t *testing.T) {
	t.Parallel()
	for _, reply := range []string{
		"*0", "$-1", "*-1", ":1", "+OK", "$4\r\nlive", array("what"), array("live"), array("live g 10 0 1 1"), array("other"), array("other g 10"), array("other g x e"), array("stub"), array("stub g"),
		array("stub g x"), array("stub g -1"), array("stub g :5"), array("stub $-1 5"), array("stub g 9007199254740992"), array("stub g 1e+15"),
		array("live g 10 0 1 1 1e+15"), array("live g 10 x 1 1 10"), array("live g 10 3 1 1 10"), array("live g 10 0 1 1 $-1"), array("live :1 10 0 1 1 10"),
		array("live g 10 0 1 1 10 1"), array("live g 10 0 1 1 10 1 2 3"), array("live g 10 0 1 1 10 2 1"), array("live g 10 0 1 1 10 0 1"),
		array("live g 10 0 1 1 10 1 6"), array("live g 10 0 1 1 10 1 2 2 3"), array("live g 10 0 1 1 10 10 11"), array("live g 10 0 1 1 10 3 4 1 2"), array("live g 10 0 1 1 10 1 9007199254740992"),
		array("live g 10 0 1 1 10 1 1.5"), array("live g 10 0 1 1 10 :1 :2"), array("ok"), array("ok g"), array("ok g x"), array("ok $-1 5"), array("stale"),
		array("stale x"), array("stale 1e+15"), array("newer"), array("foreign"),
	} {
		t.Run(reply, func(t *testing.T) {
			t.Parallel()
			c := open(t, connect(t, startFake(t, reply).addr, calm))
			if taken, err := c.Take(context.Background(), rediscursor.Take{Count: 5, Threshold: 0.5}); err == nil || len(taken.Runs) > 0 {
				t.Errorf("take: %+v, %v", taken, err)
			}
			answer, err := c.Install(context.Background(), rediscursor.Install{Mode: rediscursor.Seed, Range: persist.Range{First: 1, Last: 2}})
			if err == nil || answer.Verdict != "" {
				t.Errorf("install: %+v, %v", answer, err)
			}
		})
	}
}

// Temporary errors of a server are returned at once and not retried, although go-redis would retry
// most of them.
func TestErrorsAreReturned(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"READONLY You can't write against a read only replica.", "LOADING Redis is loading the dataset in memory", "MASTERDOWN Link with MASTER is down",
		"CLUSTERDOWN The cluster is down", "TRYAGAIN Multiple keys request during rehashing of slot", "BUSY Redis is busy", "OOM command not allowed",
		"NOREPLICAS Not enough good replicas to write.", "MISCONF Redis is configured to save RDB snapshots", "ERR max number of clients reached", "ERR what",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			f := startFake(t, "-"+text)
			retrying := redis.NewClient(&redis.Options{Addr: f.addr}) // the marker alone must be enough
			defer func() { _ = retrying.Close() }()
			inCluster := redis.NewClusterClient(&redis.ClusterOptions{
				MaxRetries: -1, DialerRetries: 1, DisableRoutingPolicies: true,
				ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
					return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: f.addr}}}}, nil
				},
			})
			defer func() { _ = inCluster.Close() }()
			for name, client := range map[string]redis.UniversalClient{"single": connect(t, f.addr, calm), "retrying": retrying, "Cluster": inCluster} {
				want := int64(2)
				if name == "Cluster" && strings.HasPrefix(text, "READONLY") {
					// A Cluster client follows this error like MOVED, with or without the marker,
					// up to MaxRedirects times. A server that answers so has rejected the only
					// write of the script.
					want = 8
				}
				before := f.runs.Load()
				c := open(t, client)
				if taken, err := c.Take(context.Background(), rediscursor.Take{Count: 5, Threshold: 0.5}); err == nil || err.Error() != text {
					t.Errorf("%s: take: %+v, %v", name, taken, err)
				}
				in := rediscursor.Install{Mode: rediscursor.Seed, Range: persist.Range{First: 1, Last: 2}}
				if answer, err := c.Install(context.Background(), in); err == nil || err.Error() != text {
					t.Errorf("%s: install: %+v, %v", name, answer, err)
				}
				must.Equal(t, f.runs.Load()-before, want, "%s: the times that two calls were sent", name)
			}
		})
	}
}

// Real servers that cannot serve return an error and change nothing, and work again afterwards.
func TestServerRefuses(t *testing.T) {
	t.Parallel()
	admin := func(t *testing.T, server *testenv.Redis, command string) {
		t.Helper()
		var args []any
		for _, word := range strings.Fields(command) {
			args = append(args, word)
		}
		must.Do(t, server.Client().Do(context.Background(), args...).Err())
	}
	for want, test := range map[string]struct{ begin, end string }{
		"NOREPLICAS": {"CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0"},
		"OOM":        {"CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"},
		"NOPERM":     {"ACL SETUSER default -evalsha", "ACL SETUSER default +@all"},
		// An error within the script, from Redis and from Valkey.
		"can't run|no permissions": {"ACL SETUSER default -info", "ACL SETUSER default +@all"},
		"run this|no permissions":  {"ACL SETUSER default -hset", "ACL SETUSER default +@all"},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			says := regexp.MustCompile(want)
			server := testenv.StartRedis(t)
			c := open(t, connect(t, server.Addr(), calm))
			c.fill("1-10", 0)
			fresh := open(t, c.client)
			before := c.hash()
			admin(t, server, test.begin)
			for name, call := range c.calls(5, persist.Range{First: 11, Last: 20}) {
				if err := call(); err == nil || !says.MatchString(err.Error()) {
					t.Errorf("%s: %v", name, err)
				}
			}
			if taken, err := fresh.Take(context.Background(), rediscursor.Take{Threshold: 0.5}); err == nil || !says.MatchString(err.Error()) {
				t.Errorf("a new cursor: %+v, %v", taken, err)
			}
			admin(t, server, test.end)
			if after := c.hash(); !maps.Equal(before, after) {
				t.Errorf("%v became %v", before, after)
			}
			must.Equal(t, show(c.peek()), "; ceil 10 enough free 1 next 1 hand 10", "afterwards")
		})
	}
}

// calls returns takes by both paths of the script, and an install of each mode.
func (c *cursor) calls(count int64, r persist.Range) map[string]func() error {
	ctx := context.Background()
	calls := map[string]func() error{}
	for name, threshold := range map[string]float64{"take": 0.5, "take that needs no refill": 1} {
		calls[name] = func() error {
			taken, err := c.Take(ctx, rediscursor.Take{Count: count, Threshold: threshold})
			if err != nil && len(taken.Runs) > 0 {
				c.t.Errorf("got %v with %v", taken.Runs, err)
			}
			return err
		}
	}
	for _, mode := range []rediscursor.Mode{rediscursor.Append, rediscursor.Advance} {
		calls[string(mode)] = func() error {
			_, err := c.Install(ctx, rediscursor.Install{Mode: mode, Gen: c.gen, Range: r})
			return err
		}
	}
	return calls
}
