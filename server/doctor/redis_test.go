package doctor

import (
	"context"
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"
)

// answering is a hook that answers commands without a server.
type answering func(cmd redis.Cmder) error

func (a answering) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a answering) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		err := a(cmd)
		cmd.SetErr(err)
		return err
	}
}

func (a answering) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A primary that stops answering between two questions is a finding that says so.
func TestPrimaryGoesAway(t *testing.T) {
	for name, goes := range map[string]func(cmd redis.Cmder) bool{
		"at once":   func(redis.Cmder) bool { return true },
		"later":     func(cmd redis.Cmder) bool { return len(cmd.Args()) == 1 },
		"to return": func(cmd redis.Cmder) bool { return len(cmd.Args()) > 1 },
	} {
		t.Run(name, func(t *testing.T) {
			client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
			defer client.Close()
			client.AddHook(answering(func(cmd redis.Cmder) error {
				if goes(cmd) {
					return errors.New("it is gone")
				}
				cmd.(*redis.Cmd).SetVal("role:master\r\n")
				return nil
			}))
			d := examined(t, mongoRedis+"bizTypes: [{name: order}]")
			list := run(t, func(ctx context.Context, f *findings) { redisCheck{d}.behindSentinels(ctx, f, client) })
			want(t, list, Fail, "redis primary", "it is gone")
		})
	}
}
