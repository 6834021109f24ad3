package redisbatch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/internal/redisonce"
	"github.com/seqd/seqd/internal/testing/must"
)

// server stands in for a server and the connections to it: a hook that lets nothing get further.
// Each trip waits in hold, if that is set, before it runs.
type server struct {
	name string
	hold func(keys []string)
	// answer is the answer to a command; nil stands for its key.
	answer func(cmd redis.Cmder) (any, error)

	mu    sync.Mutex
	trips [][]string // the keys of each trip that has begun
}

func (s *server) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *server) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		s.trip([]redis.Cmder{cmd})
		return cmd.Err()
	}
}

func (s *server) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		s.trip(cmds)
		return cmds[0].Err()
	}
}

func (s *server) trip(cmds []redis.Cmder) {
	var keys []string
	for _, cmd := range cmds {
		keys = append(keys, keyOf(cmd))
	}
	s.mu.Lock()
	s.trips = append(s.trips, keys)
	s.mu.Unlock()
	if s.hold != nil {
		s.hold(keys)
	}
	for _, cmd := range cmds {
		var reply any = keyOf(cmd)
		var err error
		if s.answer != nil {
			reply, err = s.answer(cmd)
		}
		cmd.(interface{ SetVal(any) }).SetVal(reply)
		cmd.SetErr(err)
	}
}

// seen returns the trips so far, as in "a; b c".
func (s *server) seen() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var trips []string
	for _, keys := range s.trips {
		trips = append(trips, strings.Join(keys, " "))
	}
	return strings.Join(trips, "; ")
}

func keyOf(cmd redis.Cmder) string {
	switch args := cmd.Args(); args[0] {
	case "evalsha", "eval":
		return strings.Join(keysOf(cmd), "+")
	case "asking":
		return "asking"
	default:
		return args[1].(string)
	}
}

// keysOf returns the keys of a run of a script.
func keysOf(cmd redis.Cmder) (keys []string) {
	args := cmd.Args()
	for _, key := range args[3 : 3+args[2].(int)] {
		keys = append(keys, key.(string))
	}
	return keys
}

func newSender(t *testing.T, s *server) *Sender {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	client.AddHook(s)
	t.Cleanup(func() { _ = client.Close() })
	return New(client)
}

// newCluster returns a sender for two servers that each have half of the slots. known is what the
// client is told when it asks for them.
func newCluster(t *testing.T, low, high *server, known func() error) *Sender {
	client := redis.NewClusterClient(&redis.ClusterOptions{
		MaxRetries: -1, DisableRoutingPolicies: true,
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{
				{Start: 0, End: 8191, Nodes: []redis.ClusterNode{{Addr: low.name}}},
				{Start: 8192, End: 16383, Nodes: []redis.ClusterNode{{Addr: high.name}}},
			}, known()
		},
	})
	client.OnNewNode(func(node *redis.Client) {
		if node.Options().Addr == low.name {
			node.AddHook(low)
		} else {
			node.AddHook(high)
		}
	})
	t.Cleanup(func() { _ = client.Close() })
	return New(client)
}

// Keys by the half of the slots that they are in.
const (
	lowKey, lowKey2, lowKey3 = "b", "c", "f" // slots 3300, 7365, 3168
	highKey                  = "a"           // 15495
)

// begin sends calls, one after the other has joined, and returns a channel of those that have
// ended.
func begin(s *Sender, calls ...*redisonce.Call) <-chan *redisonce.Call {
	ended := make(chan *redisonce.Call, len(calls))
	for _, call := range calls {
		go func() {
			s.Do(context.Background(), call)
			ended <- call
		}()
		synctest.Wait()
	}
	return ended
}

func gets(keys ...string) (calls []*redisonce.Call) {
	for _, key := range keys {
		calls = append(calls, redisonce.Command("get", key))
	}
	return calls
}

// want checks the outcome of calls that have ended.
func want(t *testing.T, ended <-chan *redisonce.Call, n int) {
	t.Helper()
	for range n {
		select {
		case call := <-ended:
			if call.Err != nil || call.Reply != call.Key() {
				t.Errorf("%s got %v, %v", call.Key(), call.Reply, call.Err)
			}
		default:
			t.Fatal("a call has not ended")
		}
	}
	select {
	case call := <-ended:
		t.Errorf("%s has ended", call.Key())
	default:
	}
}

// A call is sent at once if nothing is under way; what arrives meanwhile shares the next trip.
func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pass := make(chan struct{})
		srv := &server{hold: func([]string) { <-pass }}
		s := newSender(t, srv)
		ended := begin(s, gets("a", "b", "c", "d")...)
		if got := srv.seen(); got != "a" {
			t.Fatalf("trips %s", got)
		}
		pass <- struct{}{}
		synctest.Wait()
		want(t, ended, 1)
		late := begin(s, gets("e")...)
		if got := srv.seen(); got != "a; b c d" {
			t.Fatalf("trips %s", got)
		}
		pass <- struct{}{}
		synctest.Wait()
		want(t, ended, 3)
		pass <- struct{}{}
		synctest.Wait()
		want(t, late, 1)
		if got := srv.seen(); got != "a; b c d; e" || len(s.lanes) != 0 {
			t.Errorf("trips %s, %d lanes", got, len(s.lanes))
		}
	})
}

// Calls do not wait longer than patience for the answers to others.
func TestHangingTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pass := make(chan struct{})
		srv := &server{hold: func(keys []string) {
			if keys[0] == "a" {
				<-pass
			}
		}}
		s := newSender(t, srv)
		began := time.Now()
		hangs := begin(s, gets("a")...)
		ended := begin(s, gets("b", "c")...)
		want(t, ended, 0)
		for range 2 {
			<-time.After(patience / 2)
		}
		synctest.Wait()
		want(t, ended, 2)
		if took := time.Since(began); took > patience {
			t.Errorf("it took %s", took)
		}
		must.Equal(t, srv.seen(), "a; b c", "trips")
		close(pass)
		synctest.Wait()
		want(t, hangs, 1)
	})
}

// A full batch goes at once.
func TestFullBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pass := make(chan struct{})
		srv := &server{hold: func(keys []string) {
			if len(keys) < most {
				<-pass
			}
		}}
		s := newSender(t, srv)
		first := begin(s, gets("first")...)
		var many []*redisonce.Call
		for i := range most {
			many = append(many, redisonce.Command("get", fmt.Sprint(i)))
		}
		ended := begin(s, many...)
		want(t, ended, most)
		close(pass)
		synctest.Wait()
		want(t, first, 1)
	})
}

// A call that can be cancelled is sent alone, at once.
func TestCancellable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pass := make(chan struct{})
		srv := &server{hold: func(keys []string) {
			if keys[0] == "a" {
				<-pass
			}
		}}
		s := newSender(t, srv)
		first := begin(s, gets("a")...)
		second := redisonce.Command("get", "b")
		s.Do(t.Context(), second)
		if second.Err != nil || srv.seen() != "a; b" {
			t.Errorf("%v, trips %s", second.Err, srv.seen())
		}
		close(pass)
		synctest.Wait()
		want(t, first, 1)
	})
}

// A trip that ends in the middle: calls that were answered have their answers, the outcome of the
// others is an error, and nothing is sent again.
func TestBrokenTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pass, broken := make(chan struct{}), errors.New("broken")
		srv := &server{hold: func([]string) { <-pass }, answer: func(cmd redis.Cmder) (any, error) {
			if key := keyOf(cmd); key < "c" {
				return key, nil
			}
			return nil, broken
		}}
		s := newSender(t, srv)
		calls := gets("a", "b", "c", "d")
		begin(s, calls...)
		close(pass)
		synctest.Wait()
		for _, call := range calls {
			answered := call.Key() < "c"
			if answered && call.Reply != call.Key() || answered == (call.Err != nil) || !answered && call.Err != broken {
				t.Errorf("%s got %v, %v", call.Key(), call.Reply, call.Err)
			}
		}
		must.Equal(t, srv.seen(), "a; b c d", "trips")
	})
}

// refusal is an error answer of a server.
type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {}

// Scripts that the server does not have are sent again with their text, and only these.
func TestNoScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pass := make(chan struct{})
		srv := &server{hold: func([]string) { <-pass }, answer: func(cmd redis.Cmder) (any, error) {
			if key := keyOf(cmd); cmd.Args()[0] == "eval" || key < "c" {
				return key, nil
			}
			return nil, refusal("NOSCRIPT No matching script")
		}}
		s := newSender(t, srv)
		script := redisonce.NewScript("return KEYS[1]")
		ended := begin(s, script.Call("a"), script.Call("b"), script.Call("c"), script.Call("d"))
		close(pass)
		synctest.Wait()
		want(t, ended, 4)
		must.Equal(t, srv.seen(), "a; b c d; c d", "trips")
	})
}

// kind is what joint calls have in common.
type kind string

func (k kind) Head() []any { return []any{string(k)} }

// joint answers each key of a run of a script with its argument.
func joint(cmd redis.Cmder) (any, error) {
	keys, args := keysOf(cmd), cmd.Args()
	args = args[3+len(keys)+1:] // after the head
	if len(args) != len(keys) {
		return nil, fmt.Errorf("%d arguments of %d keys", len(args), len(keys))
	}
	var items []any
	for i, key := range keys {
		if key == "bad" {
			items = append(items, []any{"error", "WRONGTYPE of bad"})
			continue
		}
		items = append(items, args[i])
	}
	return items, nil
}

// Calls of the same kind share a run of their script. An error of one is only its own.
func TestJointCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pass := make(chan struct{})
		srv := &server{hold: func([]string) { <-pass }, answer: joint}
		s := newSender(t, srv)
		script, other := redisonce.NewScript("script"), redisonce.NewScript("other")
		calls := []*redisonce.Call{
			script.Joint(kind("x"), "a", "a"), script.Joint(kind("x"), "b", "b"), script.Joint(kind("y"), "c", "c"),
			script.Joint(kind("x"), "bad", "bad"), other.Joint(kind("x"), "d", "d"), script.Joint(kind("y"), "b", "b"),
			script.Joint(kind("x"), "a", "a"),
		}
		ended := begin(s, calls...)
		close(pass)
		synctest.Wait()
		must.Equal(t, srv.seen(), "a; b+bad+a c+b d", "trips")
		bad := calls[3]
		if bad.Err == nil || !redis.HasErrorPrefix(bad.Err, "WRONGTYPE") {
			t.Errorf("bad got %v, %v", bad.Reply, bad.Err)
		}
		bad.Reply, bad.Err = "bad", nil
		want(t, ended, len(calls))
	})
}

// A run has a limit, because a server does nothing else meanwhile.
func TestManyJointCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pass := make(chan struct{})
		srv := &server{hold: func([]string) { <-pass }, answer: joint}
		s := newSender(t, srv)
		script := redisonce.NewScript("script")
		var calls []*redisonce.Call
		for i := range 100 {
			key := fmt.Sprint(i)
			calls = append(calls, script.Joint(kind("x"), key, key))
		}
		ended := begin(s, calls...)
		close(pass)
		synctest.Wait()
		want(t, ended, len(calls))
		for _, keys := range srv.trips {
			for _, run := range keys {
				if n := strings.Count(run, "+") + 1; n > 32 {
					t.Errorf("a run of %d", n)
				}
			}
		}
		if len(srv.trips[1]) != 4 { // 32, 32, 32 and 3
			t.Errorf("%d runs of 99 calls", len(srv.trips[1]))
		}
	})
}

// If a run fails, all its calls have the error. A reply that is not one for each call is an error.
func TestJointRunFails(t *testing.T) {
	for name, answer := range map[string]func(cmd redis.Cmder) (any, error){
		"an error":     func(redis.Cmder) (any, error) { return nil, refusal("OOM") },
		"no array":     func(redis.Cmder) (any, error) { return "text", nil },
		"one too few":  func(cmd redis.Cmder) (any, error) { return make([]any, len(keysOf(cmd))-1), nil },
		"one too many": func(cmd redis.Cmder) (any, error) { return make([]any, len(keysOf(cmd))+1), nil },
		"nothing":      func(redis.Cmder) (any, error) { return nil, nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pass := make(chan struct{})
				srv := &server{hold: func([]string) { <-pass }, answer: answer}
				s := newSender(t, srv)
				script := redisonce.NewScript("script")
				calls := []*redisonce.Call{script.Joint(kind("x"), "a", "a"), script.Joint(kind("x"), "b", "b"), script.Joint(kind("x"), "c", "c")}
				begin(s, calls...)
				close(pass)
				synctest.Wait()
				for _, call := range calls {
					if call.Err == nil {
						t.Errorf("%s got %v", call.Key(), call.Reply)
					}
				}
				must.Equal(t, srv.seen(), "a; b+c", "trips")
			})
		})
	}
}

// A run whose script the server does not have is sent again as it was, with the text.
func TestJointNoScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pass := make(chan struct{})
		srv := &server{hold: func([]string) { <-pass }, answer: func(cmd redis.Cmder) (any, error) {
			if cmd.Args()[0] == "eval" {
				return joint(cmd)
			}
			return nil, refusal("NOSCRIPT No matching script")
		}}
		s := newSender(t, srv)
		script := redisonce.NewScript("script")
		ended := begin(s, script.Joint(kind("x"), "a", "a"), script.Joint(kind("x"), "b", "b"), script.Joint(kind("x"), "c", "c"))
		close(pass)
		synctest.Wait()
		want(t, ended, 3)
		if got := srv.seen(); got != "a; a; b+c; b+c" && got != "a; b+c; a; b+c" {
			t.Errorf("trips %s", got)
		}
	})
}

// A server that refuses runs with keys of several slots gets a run for each call: these calls
// again, and all later ones.
func TestJointCallsInSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pass := make(chan struct{})
		var mu sync.Mutex
		scripts := map[any]bool{} // that the server has
		srv := &server{hold: func([]string) { <-pass }, answer: func(cmd redis.Cmder) (any, error) {
			mu.Lock()
			defer mu.Unlock()
			switch args := cmd.Args(); {
			case len(keysOf(cmd)) > 1:
				return nil, refusal("CROSSSLOT Keys in request don't hash to the same slot")
			case args[0] == "evalsha" && !scripts["loaded"]:
				return nil, refusal("NOSCRIPT No matching script")
			}
			scripts["loaded"] = true
			return joint(cmd)
		}}
		s := newSender(t, srv)
		script := redisonce.NewScript("script")
		of := func(keys ...string) (calls []*redisonce.Call) {
			for _, key := range keys {
				calls = append(calls, script.Joint(kind("x"), key, key))
			}
			return calls
		}
		ended := begin(s, of("a", "b", "c")...)
		for len(ended) < 3 {
			pass <- struct{}{}
			synctest.Wait()
		}
		want(t, ended, 3)
		must.Equal(t, srv.seen(), "a; a; b+c; b c", "trips")
		before := srv.seen()
		later := begin(s, of("d", "e", "f")...)
		close(pass)
		synctest.Wait()
		want(t, later, 3)
		must.Equal(t, strings.TrimPrefix(srv.seen(), before), "; d; e f", "trips %s, then", before)
	})
}

// Servers of a Cluster get a run for each call, because keys of one run must be in one slot.
func TestJointCallsInACluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pass := make(chan struct{})
		low, high := &server{name: "192.0.2.1:1", hold: func([]string) { <-pass }, answer: joint}, &server{name: "192.0.2.2:1"}
		s := newCluster(t, low, high, func() error { return nil })
		script := redisonce.NewScript("script")
		ended := begin(s, script.Joint(kind("x"), lowKey, lowKey), script.Joint(kind("x"), lowKey2, lowKey2), script.Joint(kind("x"), lowKey3, lowKey3))
		close(pass)
		synctest.Wait()
		want(t, ended, 3)
		must.Equal(t, low.seen(), lowKey+"; "+lowKey2+" "+lowKey3, "trips")
	})
}

// After a panic of the client the others are sent.
func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pass := make(chan struct{})
		srv := &server{hold: func(keys []string) {
			if <-pass; keys[0] == "a" {
				panic("a")
			}
		}}
		s := newSender(t, srv)
		panicked := redisonce.Command("get", "a")
		go func() {
			defer func() { _ = recover() }()
			s.Do(context.Background(), panicked)
		}()
		synctest.Wait()
		ended := begin(s, gets("b", "c")...)
		close(pass)
		synctest.Wait()
		want(t, ended, 2)
		if panicked.Err == nil {
			t.Error("a call without an outcome has no error")
		}
	})
}

// A server of a Cluster that does not answer delays no call to another one.
func TestSlowServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pass := make(chan struct{})
		slow, well := &server{name: "192.0.2.1:1", hold: func([]string) { <-pass }}, &server{name: "192.0.2.2:1"}
		s := newCluster(t, slow, well, func() error { return nil })
		late := begin(s, gets(lowKey, lowKey2, lowKey3)...)
		want(t, begin(s, gets(highKey)...), 1)
		want(t, late, 0)
		close(pass)
		synctest.Wait()
		want(t, late, 3)
		must.Equal(t, len(s.lanes), 0, "the lanes left")
	})
}

// Each call that is redirected follows alone. The others of its batch do not wait for it.
func TestRedirected(t *testing.T) {
	for _, redirection := range []string{"MOVED 3168 192.0.2.2:1", "ASK 3168 192.0.2.2:1"} {
		t.Run(redirection, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pass, arrive := make(chan struct{}), make(chan struct{})
				redirects := func(cmd redis.Cmder) (any, error) {
					if key := keyOf(cmd); key != lowKey3 {
						return key, nil
					}
					return nil, refusal(redirection)
				}
				old := &server{name: "192.0.2.1:1", answer: redirects, hold: func(keys []string) {
					if len(keys) > 1 || keys[0] != lowKey3 {
						<-pass
					}
				}}
				heir := &server{name: "192.0.2.2:1", hold: func([]string) { <-arrive }}
				s := newCluster(t, old, heir, func() error { return nil })
				ended := begin(s, gets(lowKey, lowKey2, lowKey3)...)
				close(pass)
				synctest.Wait()
				want(t, ended, 2)
				close(arrive)
				synctest.Wait()
				want(t, ended, 1)
				time.Sleep(time.Second) // until the client has asked for the servers again
			})
		})
	}
}

// As long as the client does not know the servers of a Cluster, it finds out as it does for single
// calls: within the time that a call has.
func TestUnknownServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := errors.New("away")
		var known atomic.Bool
		low, high := &server{name: "192.0.2.1:1"}, &server{name: "192.0.2.2:1"}
		s := newCluster(t, low, high, func() error {
			if known.Load() {
				return nil
			}
			return away
		})
		call := redisonce.Command("get", lowKey)
		s.Do(context.Background(), call)
		must.Is(t, call.Err, away)
		known.Store(true)
		want(t, begin(s, gets(lowKey)...), 1)
	})
}

// Many callers at once: each gets the answer to its own call, each call runs once, and an error
// means that it may have run.
func TestManyCallers(t *testing.T) {
	const callers, rounds = 100, 200
	var mu sync.Mutex
	ran := map[string]int{}
	broken := errors.New("broken")
	srv := &server{answer: func(cmd redis.Cmder) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		key := keyOf(cmd)
		ran[key]++
		if rand.IntN(10) == 0 {
			return nil, broken
		}
		return key, nil
	}}
	s := newSender(t, srv)
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for round := range rounds {
				call := redisonce.Command("get", fmt.Sprintf("%d.%d", caller, round))
				s.Do(context.Background(), call)
				if call.Err == nil && call.Reply != call.Key() || call.Err != nil && call.Err != broken {
					t.Errorf("%s got %v, %v", call.Key(), call.Reply, call.Err)
				}
			}
		})
	}
	wg.Wait()
	for key, n := range ran {
		must.Equal(t, n, 1, "the times that %s ran", key)
	}
	if len(ran) != callers*rounds || len(s.lanes) != 0 {
		t.Errorf("%d ran, %d lanes are left", len(ran), len(s.lanes))
	}
}
