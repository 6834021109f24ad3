package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// servers are the processes and folders of one figure.
type servers struct {
	redisAddr string
	redis     *redis.Client // to inspect the server
	// postgresAddr is the address of the PostgreSQL server that seqd uses. Peers use the same one.
	postgresAddr string
	mariaDBAddr  string
	cleanUps     []func() error
}

// with calls run with new servers, which it stops afterwards.
func with(run func(s *servers) ([]result, error)) (results []result, err error) {
	s := new(servers)
	defer func() { err = errors.Join(err, s.stop()) }()
	return run(s)
}

// stop stops everything in reverse order.
func (s *servers) stop() error {
	var failed []error
	for _, f := range slices.Backward(s.cleanUps) {
		failed = append(failed, f())
	}
	s.cleanUps = nil
	return errors.Join(failed...)
}

// folder returns a new folder, which is removed at the end.
func (s *servers) folder() (string, error) {
	dir, err := os.MkdirTemp("", "seqd-bench-")
	if err == nil {
		s.cleanUps = append(s.cleanUps, func() error { return os.RemoveAll(dir) })
	}
	return dir, err
}

// start starts a process that lives until stop, and waits until it listens on addr.
func (s *servers) start(ctx context.Context, addr, path string, args ...string) (*child, error) {
	c, err := startChild(ctx, "", nil, path, args...)
	if err != nil {
		return nil, err
	}
	s.cleanUps = append(s.cleanUps, c.stop)
	return c, c.await(ctx, addr)
}

// startRedis starts a Redis without persistence.
func (s *servers) startRedis(ctx context.Context) (err error) {
	if s.redisAddr, err = freeAddr(); err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(s.redisAddr)
	if _, err := s.start(ctx, s.redisAddr, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"); err != nil {
		return err
	}
	s.redis = redis.NewClient(&redis.Options{Addr: s.redisAddr})
	s.cleanUps = append(s.cleanUps, s.redis.Close)
	return s.redis.Ping(ctx).Err()
}

// redisWork is what a Redis server has done since its start, or for each request of a load.
type redisWork struct {
	scripts float64 // calls of EVALSHA and FCALL: one for each take and each install
	reads   float64 // how often it read from a connection: one for each round trip, pipelined or not
	cpu     float64 // seconds
}

// work asks the server what it has done.
func (s *servers) work(ctx context.Context) (w redisWork, err error) {
	info, err := s.redis.InfoMap(ctx, "stats", "commandstats", "cpu").Result()
	if err != nil {
		return w, err
	}
	var failed []error
	number := func(section, name string) float64 {
		n, err := strconv.ParseFloat(info[section][name], 64)
		if err != nil {
			failed = append(failed, fmt.Errorf("INFO has no number for %s: %w", name, err))
		}
		return n
	}
	w.reads = number("Stats", "total_reads_processed")
	w.cpu = number("CPU", "used_cpu_user") + number("CPU", "used_cpu_sys")
	for _, name := range []string{"cmdstat_evalsha", "cmdstat_fcall"} {
		calls, _, _ := strings.Cut(strings.TrimPrefix(info["Commandstats"][name], "calls="), ",")
		n, _ := strconv.ParseFloat(calls, 64) // there is no line if it was never called
		w.scripts += n
	}
	return w, errors.Join(failed...)
}

// perRequest returns what was done between two readings for each of n requests.
func perRequest(before, after redisWork, n int) redisWork {
	return redisWork{
		scripts: (after.scripts - before.scripts) / float64(n),
		reads:   (after.reads - before.reads) / float64(n),
		cpu:     (after.cpu - before.cpu) / float64(n),
	}
}
