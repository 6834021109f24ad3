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
	// patience is the longest time that a request waits for Redis, however long redis.timeout is.
	patience = 250 * time.Millisecond
	// retryPause is how long Redis is not asked after it failed. Until then only local buckets are
	// used.
	retryPause = time.Second
)

// shared is the buckets in Redis, one key each. While Redis cannot be used, local buckets with the
// same rate replace them.
type shared struct {
	client     redis.UniversalClient
	away       func() (since time.Time, cause error) // nil if nobody checks Redis
	prefix     string                                // of the keys
	cluster    string
	rate, size string
	standIn    *local
	now        func() time.Time
	log        *slog.Logger

	mu     sync.Mutex // guards what follows
	failed time.Time  // when a command last failed
	down   bool       // the last request was answered by standIn
}

func newShared(env plugin.Env, bizType string, index int, settings Settings) *shared {
	return &shared{
		client: env.Redis, away: env.RedisAway, cluster: env.Cluster,
		prefix: env.RedisPrefix + "{" + bizType + "}:limit:" + strconv.Itoa(index) + ":",
		rate:   strconv.FormatFloat(settings.Rate, 'g', -1, 64), size: strconv.FormatInt(settings.size(), 10),
		standIn: newLocal(settings, env.Now), now: env.Now, log: env.Log.With("bizType", bizType, "plugin", name),
	}
}

// key returns the key of a caller's bucket. The braces are a hash tag: in a Redis Cluster, all
// buckets of a biz type are in one slot. The hash includes the ID of the cluster, so that clusters
// that share a Redis do not share buckets.
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
	if ctx.Err() != nil { // this says nothing about Redis
		return 0, false, seqd.AsError(ctx.Err())
	}
	s.lost(err)
	return s.standIn.take(ctx, caller, cost)
}

// errPause stands for a recent failure. The log says more about it.
var errPause = errors.New("it failed a moment ago")

// known returns an error if Redis is known to be unusable now.
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

// lost records that a command failed.
func (s *shared) lost(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = s.now()
	s.turn(cause)
}

// note records whether Redis answered a request; cause is nil if it did.
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

// full implements [buckets]: those in Redis are not kept here.
func (s *shared) full() bool { return s.standIn.full() }

// ask runs the script once. After an error the tokens may have been taken nevertheless.
func (s *shared) ask(ctx context.Context, caller string, cost int64) (left float64, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	raw, err := takeScript.Run(ctx, s.client, s.key(caller), nil, s.rate, s.size, cost)
	if err != nil {
		return 0, false, err
	}
	return readReply(raw)
}

// errReply is returned for a malformed reply of the script.
var errReply = errors.New("unexpected reply of the script")

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
