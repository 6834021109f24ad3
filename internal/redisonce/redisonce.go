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

// Run runs the script once. It sends the hash, and the text only if the server does not have the
// script and so has not run it. ARGV is head followed by args.
func (s Script) Run(ctx context.Context, client redis.UniversalClient, key string, head []any, args ...any) (any, error) {
	all := append(make([]any, 0, 4+len(head)+len(args)), "evalsha", s.hash, 1, key)
	all = append(append(all, head...), args...)
	raw, err := Do(ctx, client, all...)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		all[0], all[1] = "eval", s.source
		raw, err = Do(ctx, client, all...)
	}
	return raw, err
}

// Call is a command or a run of a script, to be sent with others by [Pipeline].
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

// Call returns a run of the script for [Pipeline].
func (s *Script) Call(key string, args ...any) *Call {
	return &Call{script: s, Err: errUnsent, args: append(append(make([]any, 0, 4+len(args)), "evalsha", s.hash, 1, key), args...)}
}

// Pipeline sends all calls together, each once, and sets Reply and Err of each. Scripts that a
// server does not have are sent again with their text, after the others.
func Pipeline(ctx context.Context, client redis.UniversalClient, calls []*Call) {
	send(ctx, client, calls)
	var again []*Call
	for _, c := range calls {
		if c.script != nil && redis.HasErrorPrefix(c.Err, "NOSCRIPT") {
			c.args[0], c.args[1] = "eval", c.script.source
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
	_, _ = pipe.Exec(ctx) // returns the error of the first failed command; each command has its own
	for _, c := range calls {
		c.Reply, c.Err = c.cmd.Result()
	}
}
