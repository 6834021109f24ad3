package rediscursor

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/persist"
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

// reply reads the array that a script returned. The first thing that is not as it should be is kept in err.
type reply struct {
	items []any
	err   error
}

// is reports whether the reply begins with word and has at least size items.
func (r *reply) is(word string, size int) bool {
	return len(r.items) >= size && r.items[0] == word
}

func (r *reply) text(i int) string {
	text, ok := r.items[i].(string)
	if !ok && r.err == nil {
		r.err = r.strange()
	}
	return text
}

func (r *reply) number(i int) int64 {
	n, err := strconv.ParseInt(r.text(i), 10, 64)
	if (err != nil || n < 0 || n > persist.MaxNumber) && r.err == nil {
		r.err = r.strange()
	}
	return n
}

// check refuses runs that are not ascending or more than was asked for.
func (r *reply) check(count int64, runs []persist.Range) error {
	var before, got int64
	for _, run := range runs {
		if run.Validate() != nil || run.First <= before {
			return r.strange()
		}
		before, got = run.Last, got+run.Size()
	}
	if got > count {
		return r.strange()
	}
	return r.err
}

func (r *reply) strange() error {
	return fmt.Errorf("the script in Redis answered %.200q, which this build does not understand", fmt.Sprint(r.items))
}
