// Package redisonce sends each command to Redis at most once. A command whose answer was lost is
// never repeated, because it may have run.
package redisonce

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"

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

// Script is a script of one key and its hash, by which Redis caches it.
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

// Call is a command or a run of a script. It is sent by [Call.Send], or with others by [Pipeline].
type Call struct {
	script *Script // nil for a command
	args   []any
	cmd    once
	// Reply and Err are the outcome. Err is not nil before the call is sent.
	Reply any
	Err   error
}

// errUnsent is the error of a call without an outcome, even if the client panics.
var errUnsent = errors.New("the command was not sent")

// Command returns a command for [Pipeline].
func Command(args ...any) *Call { return &Call{args: args, Err: errUnsent} }

// Call returns a run of the script.
func (s *Script) Call(key string, args ...any) *Call {
	return &Call{script: s, Err: errUnsent, args: append(append(make([]any, 0, 4+len(args)), "evalsha", s.hash, 1, key), args...)}
}

// Key returns the first key of the call.
func (c *Call) Key() string {
	i := 1
	if c.script != nil {
		i = 3
	}
	key, _ := c.args[i].(string)
	return key
}

// Redirected reports whether a server of a Cluster answered that another one has the key. It has
// not run the call, which may be sent again.
func (c *Call) Redirected() bool {
	return c.Err != nil && (redis.HasErrorPrefix(c.Err, "MOVED ") || redis.HasErrorPrefix(c.Err, "ASK "))
}

// Send sends the call alone, once, and sets Reply and Err. A script is sent as its hash, and again
// with its text only if the server does not have it and so has not run it.
func (c *Call) Send(ctx context.Context, client redis.UniversalClient) {
	c.Reply, c.Err = Do(ctx, client, c.args...)
	if c.needsText() {
		c.Reply, c.Err = Do(ctx, client, c.args...)
	}
}

// needsText reports whether the call must be sent again, with the text of its script, and puts that
// into it.
func (c *Call) needsText() bool {
	if c.script == nil || c.Err == nil || !redis.HasErrorPrefix(c.Err, "NOSCRIPT") {
		return false
	}
	c.args[0], c.args[1] = "eval", c.script.source
	return true
}

// Pipeline sends all calls together, each once, and sets Reply and Err of each. Scripts that a
// server does not have are sent again with their text, after the others.
func Pipeline(ctx context.Context, client redis.UniversalClient, calls []*Call) {
	send(ctx, client, calls)
	var again []*Call
	for _, c := range calls {
		if c.needsText() {
			again = append(again, c)
		}
	}
	if len(again) > 0 {
		send(ctx, client, again)
	}
}

func send(ctx context.Context, client redis.UniversalClient, calls []*Call) {
	pipe := client.Pipeline()
	for _, c := range calls {
		c.cmd = once{redis.NewCmd(ctx, c.args...)}
		_ = pipe.Process(ctx, c.cmd) // queues the command
	}
	_, err := pipe.Exec(ctx)
	for _, c := range calls {
		if c.Reply, c.Err = c.cmd.Result(); c.Reply == nil && c.Err == nil {
			c.Err = err // there was no connection to send it on: the client leaves the command as it was
		}
	}
}
