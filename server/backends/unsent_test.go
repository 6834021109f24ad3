package backends

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/internal/redisonce"
	"github.com/seqd/seqd/server/backends/backendstest"
	"github.com/seqd/seqd/server/config"
)

// Calls that were to be sent together over a connection that could not be opened, because the server
// refused the password, were never sent. Each has an error, as a single call has.
func TestBatchOverARefusedLogin(t *testing.T) {
	addr, _ := backendstest.Redis(t, func(line string) string {
		switch line {
		case "hello", "auth":
			return "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
		case "evalsha", "eval", "get":
			t.Errorf("%s was sent", line)
		}
		return ""
	})
	client := newTestRedis(t, func(c *config.Redis) { c.Addrs, c.Password = []string{addr}, "p" })
	wantErrors(t, client)
}

// So it is if the Sentinels do not know the master: their answer is in the error.
func TestBatchWithoutAMaster(t *testing.T) {
	addr, _ := backendstest.Redis(t, func(line string) string {
		switch line {
		case "hello":
			return "%0\r\n"
		case "m":
			return "*-1\r\n"
		}
		return ""
	})
	client := newTestRedis(t, func(c *config.Redis) { c.Addrs, c.MasterName = []string{addr}, "m" })
	wantErrors(t, client)
}

// wantErrors sends calls together that cannot be sent, and wants an error for each.
func wantErrors(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	_, single := redisonce.Do(t.Context(), client, "get", "key")
	calls := []*redisonce.Call{redisonce.Command("get", "a"), redisonce.Command("get", "b")}
	redisonce.Pipeline(t.Context(), client, calls)
	for _, c := range calls {
		if c.Err == nil {
			t.Errorf("a call that was never sent has the reply %v and no error; a single call has %v", c.Reply, single)
		}
	}
}
