package ratelimit

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/redisonce"
	"github.com/seqd/seqd/plugin"
)

var (
	//go:embed lua/take.lua
	takeSource string
	takeScript = redisonce.NewScript(takeSource)
)

const (
	// patience is how long a request waits for Redis, however long redis.timeout is.
	patience = 250 * time.Millisecond
	// retryPause is for how long Redis is left alone after it failed: until then only local buckets
	// are asked.
	retryPause = time.Second
)

// shared are buckets in Redis, one key each. While Redis cannot be used, local ones of the same
// rate stand in.
type shared struct {
	client     redis.UniversalClient
	away       func() (since time.Time, cause error) // nil where nobody looks
	prefix     string                                // of the keys
	cluster    string
	rate, size string
	standIn    *local
	now        func() time.Time
	log        *slog.Logger

	mu     sync.Mutex // guards what follows
	failed time.Time  // when a command failed last
	down   bool       // the last request was answered by standIn
}

func newShared(env plugin.Env, bizType string, place int, settings Settings) *shared {
	return &shared{
		client: env.Redis, away: env.RedisAway, cluster: env.Cluster,
		prefix: env.RedisPrefix + "{" + bizType + "}:limit:" + strconv.Itoa(place) + ":",
		rate:   strconv.FormatFloat(settings.Rate, 'g', -1, 64), size: strconv.FormatInt(settings.size(), 10),
		standIn: newLocal(settings, env.Now), now: env.Now, log: env.Log.With("bizType", bizType, "plugin", name),
	}
}

// key is where the bucket of a caller lies. The braces make it the slot of the biz type in a Redis
// Cluster. The ID of the cluster is in the hash, so that clusters that share a Redis do not share
// buckets.
func (s *shared) key(caller string) string {
	sum := sha256.Sum256([]byte(s.cluster + "\x00" + caller))
	return s.prefix + hex.EncodeToString(sum[:16])
}

// take implements [buckets].
func (s *shared) take(ctx context.Context, caller string, cost int64) (left float64, ok bool, err error) {
	if cause := s.known(); cause != nil {
		s.note(cause)
		return s.standIn.take(ctx, caller, cost)
	}
	left, ok, err = s.ask(ctx, caller, cost)
	if err == nil {
		s.note(nil)
		return left, ok, nil
	}
	if ctx.Err() != nil { // says nothing about Redis
		return 0, false, seqd.AsError(ctx.Err())
	}
	s.lost(err)
	return s.standIn.take(ctx, caller, cost)
}

// errPause stands for a failure a moment ago, of which the log says more.
var errPause = errors.New("it failed a moment ago")

// known returns why asking Redis now would be in vain.
func (s *shared) known() error {
	if s.away != nil {
		if _, cause := s.away(); cause != nil {
			return cause
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if passed := s.now().Sub(s.failed); !s.failed.IsZero() && passed >= 0 && passed < retryPause {
		return errPause
	}
	return nil
}

// lost notes that a command failed.
func (s *shared) lost(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = s.now()
	s.turn(cause)
}

// note notes whether Redis answered a request, with a nil cause, or why not.
func (s *shared) note(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn(cause)
}

// turn logs a change of down. mu is held.
func (s *shared) turn(cause error) {
	switch {
	case cause != nil && !s.down:
		s.log.Warn("the rate limit cannot use Redis: each node limits on its own", "error", cause)
	case cause == nil && s.down:
		s.log.Info("the rate limit uses Redis again")
	}
	s.down = cause != nil
}

// alone reports whether the last request was answered without Redis.
func (s *shared) alone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.down
}

// ask runs the script, once. After an error the tokens may have been taken all the same.
func (s *shared) ask(ctx context.Context, caller string, cost int64) (left float64, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	raw, err := takeScript.Run(ctx, s.client, s.key(caller), nil, s.rate, s.size, cost)
	if err != nil {
		return 0, false, err
	}
	return readReply(raw)
}

// errReply is returned for a reply that the script never makes.
var errReply = errors.New("the script returned what it never returns")

func readReply(raw any) (left float64, ok bool, err error) {
	items, _ := raw.([]any)
	if len(items) != 2 {
		return 0, false, errReply
	}
	verdict, isText := items[0].(string)
	text, isTextToo := items[1].(string)
	left, err = strconv.ParseFloat(text, 64)
	if !isText || !isTextToo || err != nil || verdict != "0" && verdict != "1" || !(left >= 0 && left <= most) {
		return 0, false, errReply
	}
	return left, verdict == "1", nil
}
