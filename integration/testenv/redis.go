package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/seqd/seqd/internal/testing/await"
)

// Redis is one Redis server, or one Sentinel.
type Redis struct {
	*server
	binary   string
	conf     string // file of its settings; the server rewrites it when its role changes
	data     string // folder of its data
	sentinel bool
	client   *redis.Client
}

// StartRedis starts a Redis server and waits until it answers. Each setting is a line of
// redis.conf, such as "appendonly yes". Without settings it writes to disk only in SaveSnapshot.
func StartRedis(t testing.TB, settings ...string) *Redis {
	t.Helper()
	r := newRedis(t, "redis", append([]string{"save \"\"", "repl-diskless-sync-delay 0"}, settings...)...)
	r.start()
	return r
}

// newRedis prepares a server that is not started yet.
func newRedis(t testing.TB, name string, settings ...string) *Redis {
	t.Helper()
	dir := t.TempDir()
	r := &Redis{
		server: newServer(t, name), binary: lookUp(t, "redis-server", "redis-server"),
		conf: filepath.Join(dir, "redis.conf"), data: filepath.Join(dir, "data"),
	}
	own := []string{"port " + strconv.Itoa(r.port), "bind 127.0.0.1", fmt.Sprintf("dir %q", r.data)}
	text := strings.Join(append(own, settings...), "\n") + "\n"
	must(t, r, "write redis.conf", errors.Join(os.Mkdir(r.data, 0o700), os.WriteFile(r.conf, []byte(text), 0o600)))
	r.client = r.newClient()
	return r
}

// newClient returns a client for this package and for checks of tests.
func (r *Redis) newClient() *redis.Client {
	client := redis.NewClient(&redis.Options{
		Addr: r.Addr(), DisableIdentity: true, DialerRetries: 1, DialTimeout: await.Patience, ReadTimeout: await.Patience,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	r.t.Cleanup(func() { _ = client.Close() })
	return client
}

// start starts the process and waits until it answers and has loaded its data.
func (r *Redis) start() {
	r.t.Helper()
	args := []string{r.conf}
	if r.sentinel {
		args = append(args, "--sentinel")
	}
	r.process = startProcess(r.t, r.output, r.binary, args...)
	// without it, go-redis would log every failed connection
	r.await("open the port of "+r.name, func(ctx context.Context) error { return dial(ctx, r.Addr()) })
	r.await("start "+r.name, func(ctx context.Context) error { return r.client.Ping(ctx).Err() })
}

// Client returns a client for the preparations and checks of a test. It retries, so code under test
// needs another client.
func (r *Redis) Client() *redis.Client { return r.client }

// Info returns the fields of one section of INFO.
func (r *Redis) Info(section string) map[string]string {
	r.t.Helper()
	ctx, cancel := within()
	defer cancel()
	fields, err := r.info(ctx, section)
	must(r.t, r, "INFO "+section, err)
	return fields
}

func (r *Redis) info(ctx context.Context, section string) (map[string]string, error) {
	text, err := r.client.Info(ctx, section).Result()
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			fields[name] = value
		}
	}
	return fields, err
}

// ReplicationID returns master_replid, which changes at every start and every promotion.
func (r *Redis) ReplicationID() string {
	r.t.Helper()
	return r.Info("replication")["master_replid"]
}

// Restart kills the server if it runs, and starts it with its data on disk. That is every
// acknowledged write with "appendonly yes" and "appendfsync always", and the last SaveSnapshot
// otherwise.
func (r *Redis) Restart() {
	r.t.Helper()
	r.Kill()
	r.start()
}

// RestartEmpty is like Restart, after the loss of all data. Settings and role stay.
func (r *Redis) RestartEmpty() {
	r.t.Helper()
	r.Kill()
	r.clearData()
	r.start()
}

func (r *Redis) clearData() {
	r.t.Helper()
	must(r.t, r, "clear the data of "+r.name, errors.Join(os.RemoveAll(r.data), os.Mkdir(r.data, 0o700)))
}
