// Package redisonce sends commands to Redis at most once each: one whose answer was lost is never repeated, for it may have run.
package redisonce

import (
	"context"
	"crypto/sha1"
	"encoding/hex"

	"github.com/redis/go-redis/v9"
)

// once is a command that go-redis sends once: it neither repeats it after an error nor, in a Cluster, on another node. It still follows MOVED
// and ASK, by which a node says that it has not run the command.
type once struct{ *redis.Cmd }

// NoRetry implements [redis.Cmder].
func (once) NoRetry() bool { return true }

// Do sends one command, once, and returns its reply.
func Do(ctx context.Context, client redis.UniversalClient, args ...any) (any, error) {
	cmd := once{redis.NewCmd(ctx, args...)}
	if err := client.Process(ctx, cmd); err != nil {
		return nil, err
	}
	return cmd.Result()
}

// Script is a script of one key, and the name that Redis keeps it under.
type Script struct{ source, hash string }

// NewScript returns a script with this text.
func NewScript(source string) Script {
	sum := sha1.Sum([]byte(source))
	return Script{source, hex.EncodeToString(sum[:])}
}

// Run runs the script, once, by its hash, or by its text on a server that does not have it: one that says so has not run it. ARGV is head and then args.
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
