package ratelimit_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
)

// silent keeps the Redis client from logging every failed connection to standard error, as the
// server does.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func TestMain(m *testing.M) {
	redis.SetLogger(silent{})
	m.Run()
}
