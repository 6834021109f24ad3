package ratelimit_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
)

// silent keeps the client from writing to standard error at every failed attempt to connect, as the
// server does.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func TestMain(m *testing.M) {
	redis.SetLogger(silent{})
	m.Run()
}
