// Package redisonce lets Redis run each command at most once. A command whose answer was lost is never
// repeated, because it may have run. A command is sent again only if the answer proves that it did not
// run: NOSCRIPT, MOVED, ASK or CROSSSLOT.
package redisonce

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/internal/sabotage"
)

// once is a command that go-redis sends once. It is not repeated after an error, nor on another
// node of a Cluster. go-redis still follows MOVED and ASK, because a node that answers so has not
// run the command.
type once struct{ *redis.Cmd }

// NoRetry implements [redis.Cmder].
func (once) NoRetry() bool { return true }

// Do sends a command once and returns its reply.
func Do(ctx context.Context, client redis.UniversalClient, args ...any) (any, error) {
	cmd := once{redis.NewCmd(ctx, args...)}
	if err := client.Process(ctx, cmd); err != nil {
		return nil, err
	}
	return cmd.Result()
}

// Script is a script and its hash, by which Redis caches it. Keep one for each text, in a variable of
// the package: calls that share a run must have the same one.
type Script struct{ source, hash string }

// NewScript returns a script with this text.
func NewScript(source string) Script {
	source = sabotage.Script(source)
	sum := sha1.Sum([]byte(source))
	return Script{source, hex.EncodeToString(sum[:])}
}

// Run runs the script once, alone. ARGV is head followed by args.
func (s *Script) Run(ctx context.Context, client redis.UniversalClient, key string, head []any, args ...any) (any, error) {
	call := s.Call(key, append(head, args...)...)
	call.Send(ctx, client)
	return call.Reply, call.Err
}

// Call is a command or a run of a script. It is sent by [Call.Send], or with others by [Pipeline]
// or [Together].
type Call struct {
	script *Script // nil for a command
	key    string
	alike  Alike // nil for none
	args   []any // the command, or the part of ARGV that only this call has
	// Reply and Err are the outcome. Err is not nil before the call is sent.
	Reply any
	Err   error
}

// errUnsent is the error of a call without an outcome, even if the client panics.
var errUnsent = errors.New("the command was not sent")

// Command returns a command. Its first argument after its name must be its key.
func Command(args ...any) *Call {
	key, _ := args[1].(string)
	return &Call{key: key, args: args, Err: errUnsent}
}

// Call returns a run of a script that has one key.
func (s *Script) Call(key string, args ...any) *Call {
	return &Call{script: s, key: key, args: args, Err: errUnsent}
}

// Alike says which calls can share a run of a script: those whose values are equal. It must be
// comparable.
type Alike interface {
	// Head returns what ARGV begins with. It is called each time a run is sent, so it may contain
	// random text.
	Head() []any
}

// Joint returns a call that can share a run with other calls of the same script. KEYS are the keys of
// the calls; one may be there several times. ARGV is the head, followed by the args of each key, which
// are equally many.
//
// The script must return an array with one item for each key, in their order, also if there is only
// one. No item may be nil, which would end the array. The item is the reply to the call, or an array
// of "error" and a text if nothing was done for the key. The text begins with a code, as "ERR " is. An
// error of one key must not end the run, unless it has no other key.
func (s *Script) Joint(alike Alike, key string, args ...any) *Call {
	return &Call{script: s, alike: alike, key: key, args: args, Err: errUnsent}
}

// Key returns the key of the call.
func (c *Call) Key() string { return c.key }

// Redirected reports whether a server of a Cluster answered that another one has the key. It has
// not run the call, which may be sent again.
func (c *Call) Redirected() bool {
	return c.Err != nil && (redis.HasErrorPrefix(c.Err, "MOVED ") || redis.HasErrorPrefix(c.Err, "ASK "))
}

// Send sends the call alone, once, and sets Reply and Err. A script is sent as its hash, and again
// with its text only if the server does not have it and so has not run it.
func (c *Call) Send(ctx context.Context, client redis.UniversalClient) {
	r := run{calls: []*Call{c}}
	reply, err := Do(ctx, client, r.command()...)
	if r.needsText(err) {
		r.withText = true
		reply, err = Do(ctx, client, r.command()...)
	}
	r.settle(reply, err)
}

// Pipeline sends all calls together, each once and in a run of its own, and sets Reply and Err of each.
// Scripts that a server does not have are sent again with their text, in a second round trip.
func Pipeline(ctx context.Context, client redis.UniversalClient, calls []*Call) {
	pipeline(ctx, client, alone(calls))
}

// mostJoint is how many calls share a run. Redis does nothing else meanwhile.
const mostJoint = 32

// Together is [Pipeline], except that calls that can share a run do so. A server that has its keys in
// slots refuses a run with keys of several slots, without beginning it. Then Together sends these calls
// again, each in a run of its own, and returns false: the caller should use Pipeline from then on.
func Together(ctx context.Context, client redis.UniversalClient, calls []*Call) (joint bool) {
	type kind struct {
		script *Script
		alike  Alike
	}
	var runs []run
	open := make(map[kind]int) // the index of the latest run of each kind, which may be full
	for i, c := range calls {
		k := kind{c.script, c.alike}
		at, ok := open[k]
		if !ok || len(runs[at].calls) == mostJoint {
			at = len(runs)
			runs = append(runs, run{calls: calls[i : i+1 : i+1]})
			if c.alike != nil {
				open[k] = at
			}
			continue
		}
		runs[at].calls = append(runs[at].calls, c)
	}
	return pipeline(ctx, client, runs)
}

// pipeline sends runs, and again those that a server has refused to begin. It returns false if a
// refusal was because of slots.
func pipeline(ctx context.Context, client redis.UniversalClient, runs []run) (joint bool) {
	joint = true
	for len(runs) > 0 {
		again, slots := exec(ctx, client, runs)
		runs, joint = again, joint && !slots
	}
	return joint
}

// run is a command, or calls that share a run of a script.
type run struct {
	calls    []*Call
	withText bool // with the text of the script, not its hash
	cmd      once
}

// alone returns a run for each call.
func alone(calls []*Call) []run {
	runs := make([]run, len(calls))
	for i := range calls {
		runs[i].calls = calls[i : i+1]
	}
	return runs
}

// command returns what is sent.
func (r run) command() []any {
	first := r.calls[0]
	s := first.script
	if s == nil {
		return first.args
	}
	var head []any
	if first.alike != nil {
		head = first.alike.Head()
	}
	args := make([]any, 0, 3+len(head)+len(r.calls)*(1+len(first.args)))
	if r.withText {
		args = append(args, "eval", s.source, len(r.calls))
	} else {
		args = append(args, "evalsha", s.hash, len(r.calls))
	}
	for _, c := range r.calls {
		args = append(args, c.key)
	}
	args = append(args, head...)
	for _, c := range r.calls {
		args = append(args, c.args...)
	}
	return args
}

// needsText reports whether the server does not have the script.
func (r run) needsText(err error) bool {
	return err != nil && !r.withText && r.calls[0].script != nil && redis.HasErrorPrefix(err, "NOSCRIPT")
}

// crosses reports whether the server refused the run because its keys are in several slots.
func (r run) crosses(err error) bool {
	return err != nil && len(r.calls) > 1 && redis.HasErrorPrefix(err, "CROSSSLOT")
}

// settle gives the calls their outcomes.
func (r run) settle(reply any, err error) {
	if r.calls[0].alike == nil {
		r.calls[0].Reply, r.calls[0].Err = reply, err
		return
	}
	items, _ := reply.([]any)
	if err == nil && len(items) != len(r.calls) {
		err = fmt.Errorf("a script in Redis answered %.200q, which is not one answer for each of %d keys", fmt.Sprint(reply), len(r.calls))
	}
	for i, c := range r.calls {
		if c.Err = err; err != nil {
			continue
		}
		c.Reply = items[i]
		if item, _ := items[i].([]any); len(item) == 2 && item[0] == "error" {
			c.Err = scriptError(fmt.Sprint(item[1]))
		}
	}
}

// scriptError is the error of one call of several that shared a run.
type scriptError string

// Error implements error.
func (e scriptError) Error() string { return string(e) }

// RedisError implements [redis.Error].
func (scriptError) RedisError() {}

// exec sends runs. It returns those that the server has refused to begin, as they are to be sent
// again, and whether one of them was refused because of slots.
func exec(ctx context.Context, client redis.UniversalClient, runs []run) (again []run, slots bool) {
	pipe := client.Pipeline()
	for i := range runs {
		runs[i].cmd = once{redis.NewCmd(ctx, runs[i].command()...)}
		_ = pipe.Process(ctx, runs[i].cmd) // queues the command
	}
	_, failed := pipe.Exec(ctx)
	for _, r := range runs {
		reply, err := r.cmd.Result()
		if reply == nil && err == nil {
			err = failed // there was no connection to send it on: the client leaves the command as it was
		}
		switch {
		case r.needsText(err):
			r.withText = true
			again = append(again, r)
		case r.crosses(err):
			slots = true
			again = append(again, alone(r.calls)...)
		default:
			r.settle(reply, err)
		}
	}
	return again, slots
}
