package cursor

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

func check(client redis.UniversalClient) error {
	return rediscursor.Check(context.Background(), rediscursor.Options{Client: client, Prefix: prefix, Cluster: clusterID})
}

// Permanent problems are told from temporary ones.
func TestCheck(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		arrange func(t *testing.T, server *testenv.Redis)
		want    string // "" for no error
	}{
		"fit": {func(*testing.T, *testenv.Redis) {}, ""},
		"evicts": {func(t *testing.T, r *testenv.Redis) {
			command(t, r.Client(), "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
		}, "noeviction"},
		"evicts others": {func(t *testing.T, r *testenv.Redis) {
			command(t, r.Client(), "CONFIG", "SET", "maxmemory-policy", "volatile-lru")
		}, ""},
		"no rights": {func(t *testing.T, r *testenv.Redis) {
			command(t, r.Client(), "ACL", "SETUSER", "default", "-@scripting")
		}, "redis.username"},
		"no key":     {func(t *testing.T, r *testenv.Redis) { command(t, r.Client(), "ACL", "SETUSER", "default", "resetkeys") }, "redis.username"},
		"no INFO":    {func(t *testing.T, r *testenv.Redis) { command(t, r.Client(), "ACL", "SETUSER", "default", "-info") }, "+info"},
		"a password": {func(t *testing.T, r *testenv.Redis) { command(t, r.Client(), "CONFIG", "SET", "requirepass", "x") }, "redis.password"},
		"a replica":  {func(t *testing.T, r *testenv.Redis) { command(t, r.Client(), "REPLICAOF", "127.0.0.1", "1") }, "redis.masterName"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.StartRedis(t)
			client := connect(t, server.Addr(), calm)
			test.arrange(t, server)
			err := check(client)
			if test.want == "" {
				must.Report(t, err)
				return
			}
			if !errors.Is(err, rediscursor.ErrUnfit) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// Temporary errors are no reason to give up. Redis 6 wraps errors from within a script.
func TestCheckMayTryAgain(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"LOADING Redis is loading the dataset in memory", "MASTERDOWN Link with MASTER is down", "BUSY Redis is busy running a script.",
		"OOM command not allowed when used memory > 'maxmemory'. script: 1a2b, on @user_script:47.",
		"ERR Error running script (call to f_1a2b): @user_script:47: @user_script: 47: -OOM command not allowed when used memory > 'maxmemory'.",
		"ERR Error running script (call to f_1a2b): @user_script:47: @user_script: 47: -MISCONF Redis is configured to save RDB snapshots",
		"ERR Error running script (call to f_1a2b): @user_script:47: @user_script: 47: -NOREPLICAS Not enough good replicas to write.",
		"ERR Error running script (call to f_1a2b): @user_script:47: @user_script: 47: -READONLY You can't write against a read only replica.",
	} {
		if err := check(connect(t, startFake(t, "-"+text).addr, calm)); err == nil || errors.Is(err, rediscursor.ErrUnfit) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{
		"WRONGTYPE Operation against a key holding the wrong kind of value", "ERR what",
		"ERR Error running script (call to f_1a2b): @user_script:28: @user_script: 28: Unknown Redis command called from Lua script",
	} {
		must.Is(t, check(connect(t, startFake(t, "-"+text).addr, calm)), rediscursor.ErrUnfit, "%s", text)
	}
}
