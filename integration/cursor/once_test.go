package cursor

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// calls returns how often a server has run a command without an error.
func calls(t tester, client redis.Cmdable, commands ...string) (count int64) {
	t.Helper()
	for _, command := range commands {
		all, failed := stat(t, client, `cmdstat_`+command+`:calls=(\d+)`), stat(t, client, `cmdstat_`+command+`:.*failed_calls=(\d+)`)
		count += all - failed
	}
	return count
}

// stat returns a number from a server's statistics of commands and errors; 0 if it is missing.
func stat(t tester, client redis.Cmdable, pattern string) int64 {
	t.Helper()
	stats := must.Get(client.Info(context.Background(), "everything").Result())(t)
	found := regexp.MustCompile(`(?m)^` + pattern).FindStringSubmatch(stats)
	if found == nil {
		return 0
	}
	return must.Get(strconv.ParseInt(found[1], 10, 64))(t)
}

// runs returns how often scripts have run on servers.
func runs(t tester, servers ...*testenv.Redis) (count int64) {
	t.Helper()
	for _, server := range servers {
		count += calls(t, server.Client(), "evalsha", "eval")
	}
	return count
}

// writes returns how often hashes were written on a server: once by each take that takes something.
func writes(t tester, client redis.Cmdable) int64 {
	t.Helper()
	return calls(t, client, "hset")
}

// warm opens several connections of a client. A connection that is opened while replies are lost
// would send nothing.
func warm(t testing.TB, client *redis.Client) {
	t.Helper()
	var conns []*redis.Conn
	for range 6 {
		conn := client.Conn()
		must.Do(t, conn.Ping(context.Background()).Err())
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		_ = conn.Close()
	}
}

// spy records the last script that was sent, to send it again without the marker.
type spy struct{ args []any }

func (*spy) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*spy) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (s *spy) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" {
			s.args = cmd.Args()
		}
		return next(ctx, cmd)
	}
}

// sends are the ways to send a script. Each runs it once if nothing is lost.
func sends(t testing.TB, c *cursor) map[string]func() error {
	ctx := context.Background()
	s := &spy{}
	c.client.AddHook(s)
	c.take(rediscursor.Take{Count: 3, Threshold: 1})
	next := int64(1 << 30)
	return map[string]func() error{
		"take": func() error {
			taken, err := c.Take(ctx, rediscursor.Take{Count: 3, Threshold: 1})
			if err != nil && len(taken.Runs) > 0 {
				t.Errorf("got %v with %v", taken.Runs, err)
			}
			return err
		},
		"advance": func() error {
			next += 1000
			r := persist.Range{First: next, Last: next + 999}
			_, err := c.Install(ctx, rediscursor.Install{Mode: rediscursor.Advance, Gen: c.gen, Range: r})
			return err
		},
		"unmarked": func() error { return c.client.Process(ctx, redis.NewCmd(ctx, s.args...)) },
	}
}

// A script whose reply is lost has run exactly once. A command without the marker runs repeatedly,
// so the test would fail if the marker had no effect.
func TestLostReply(t *testing.T) {
	t.Parallel()
	loseIn := map[string]func(t *testing.T, server *testenv.Redis, link *testenv.Link, call func() error) error{
		"no answer": func(_ *testing.T, _ *testenv.Redis, link *testenv.Link, call func() error) error {
			link.DropReplies()
			defer link.Restore()
			return call()
		},
		"end of the connection": func(t *testing.T, server *testenv.Redis, link *testenv.Link, call func() error) error {
			link.DropReplies()
			before, answer := runs(t, server), make(chan error)
			go func() { answer <- call() }()
			eventually(t, "it runs", func() error {
				if runs(t, server) == before {
					return fmt.Errorf("it has not")
				}
				return nil
			})
			link.Cut()
			link.Restore() // at once, so that a retry would succeed
			return <-answer
		},
		"a server that hangs": func(_ *testing.T, server *testenv.Redis, _ *testenv.Link, call func() error) error {
			server.Pause()
			defer server.Resume()
			return call()
		},
	}
	for loss, lose := range loseIn {
		for _, retries := range []int{-1, 3} {
			for _, name := range []string{"take", "advance", "unmarked"} {
				t.Run(fmt.Sprintf("%s/%s with MaxRetries %d", loss, name, retries), func(t *testing.T) {
					t.Parallel()
					server := testenv.StartRedis(t)
					link := testenv.NewLink(t, server.Addr())
					client := redis.NewClient(&redis.Options{
						Addr: link.Addr(), MaxRetries: retries, DialerRetries: 1, DialTimeout: second, ReadTimeout: second, WriteTimeout: second,
					})
					t.Cleanup(func() { _ = client.Close() })
					c := open(t, client)
					c.fill("1-1000", 0)
					call := sends(t, c)[name]
					warm(t, client)
					before := runs(t, server)
					if err := lose(t, server, link, call); err == nil && name != "unmarked" {
						t.Error("there is no error")
					}
					eventually(t, "it has run", func() error {
						if runs(t, server) == before {
							return fmt.Errorf("it has not")
						}
						return nil
					})
					got, again := runs(t, server)-before, name == "unmarked" && retries > 0
					must.Equal(t, again, got > 1, "it ran %d times", got)
					c = reopen(t, connect(t, server.Addr(), calm), c.name)
					// 3 of sends, 3 of the call
					if next := c.peek().Next; name == "take" && next != 7 {
						t.Errorf("the next is %d", next)
					}
				})
			}
		}
	}
}

// The same in a Cluster, at the owner, after MOVED and after ASK. The redirect loop of its client
// repeats commands even without retries.
func TestClusterLostReply(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	cluster := testenv.StartCluster(t)
	links := map[string]*testenv.Link{}
	for _, node := range cluster.Nodes {
		links[node.Addr()] = testenv.NewLink(t, node.Addr())
	}
	for where, arrange := range map[string]func(c *cursor) (owner *testenv.Redis, redirects func() int64, end func()){
		"at the owner": func(c *cursor) (*testenv.Redis, func() int64, func()) {
			return cluster.Master(c.key), nil, func() {}
		},
		"after MOVED": func(c *cursor) (*testenv.Redis, func() int64, func()) {
			from := cluster.Master(c.key)
			to := cluster.MigrateSlot(c.key)
			// There the cursor is a stub, which a take does not change, so it is filled first.
			direct := reopen(t, connect(t, to.Addr(), calm), c.name)
			direct.peek()
			direct.install(rediscursor.Seed, 5001, 6000, 0)
			c.gen = direct.gen
			return to, func() int64 { return stat(t, from.Client(), `errorstat_MOVED:count=(\d+)`) }, func() {}
		},
		"after ASK": func(c *cursor) (*testenv.Redis, func() int64, func()) {
			m := cluster.BeginMigration(c.key)
			m.MoveKeys()
			c.peek()
			c.install(rediscursor.Seed, 5001, 6000, 0)
			return m.To, func() int64 { return stat(t, m.From.Client(), `errorstat_ASK:count=(\d+)`) }, m.Finish
		},
	} {
		for _, name := range []string{"take", "advance", "unmarked"} {
			t.Run(where+"/"+name, func(t *testing.T) {
				client := connectCluster(t, cluster, second, links)
				c := open(t, client)
				c.fill("1-1000", 0)
				call := sends(t, c)[name]
				must.Do(t, client.ForEachMaster(t.Context(), func(_ context.Context, client *redis.Client) error { warm(t, client); return nil }))
				owner, redirects, end := arrange(c)
				redirected := int64(0)
				if redirects != nil {
					redirected = redirects()
				}
				before, link := runs(t, cluster.Nodes...), links[owner.Addr()]
				link.DropReplies()
				if err := call(); err == nil {
					t.Error("there is no error")
				}
				link.Restore()
				got := runs(t, cluster.Nodes...) - before
				if (name == "unmarked") != (got > 1) || got == 0 {
					t.Errorf("it ran %d times", got)
				}
				t.Logf("it ran %d times", got)
				if redirects != nil && redirects() == redirected {
					t.Error("the client was not redirected")
				}
				end()
				// some of its connections are broken now
				eventually(t, "the client recovers", func() error {
					_, err := c.Take(t.Context(), rediscursor.Take{Count: 1, Threshold: 1})
					return err
				})
			})
		}
	}
}

// The client follows MOVED and ASK, and nothing runs twice, whether or not the last server has the
// script.
func TestClusterRedirects(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartCluster(t)
	for _, flush := range []bool{false, true} {
		t.Run(fmt.Sprintf("flush %v", flush), func(t *testing.T) {
			once := func(when string, call func()) {
				t.Helper()
				if flush {
					for _, node := range cluster.Nodes {
						command(t, node.Client(), "SCRIPT", "FLUSH")
					}
				}
				before := runs(t, cluster.Nodes...)
				call()
				must.Equal(t, runs(t, cluster.Nodes...)-before, 1, "%s: the times that it ran", when)
			}
			c := open(t, connectCluster(t, cluster, calm, nil))
			once("first", func() { c.peek() })
			once("seed", func() { c.install(rediscursor.Seed, 1, 100, 0) })
			once("take", func() { c.take(rediscursor.Take{Count: 3, Threshold: 1}) })
			m := cluster.BeginMigration(c.key)
			m.MoveKeys()
			once("stub under ASK", func() { c.take(rediscursor.Take{Count: 3, Threshold: 1}) })
			once("seed under ASK", func() { c.install(rediscursor.Seed, 101, 200, 0) })
			once("take under ASK", func() { c.take(rediscursor.Take{Count: 3, Threshold: 1}) })
			m.Finish()
			once("take after MOVED", func() { c.take(rediscursor.Take{Count: 3, Threshold: 1}) })
			cluster.MigrateSlot(c.key)
			once("stub after MOVED", func() { c.take(rediscursor.Take{Count: 3, Threshold: 1}) })
			once("seed", func() { c.install(rediscursor.Seed, 201, 300, 0) })
			once("append", func() { c.install(rediscursor.Append, 301, 400, 0) })
			must.Equal(t, show(c.peek()), "; ceil 400 enough free 0 next 201 hand 200", "in the end")
		})
	}
}
