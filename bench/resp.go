package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// The figures of this file are about the Redis protocol. The peer is a real redis-server that keeps
// nothing on disk; the load is Redis' own redis-benchmark, over 50 connections.

// Rates that redis-benchmark reaches about, in commands a second. They say how many commands make a
// run as long as the others.
const (
	pipelinedRate = 1_000_000
	singleRate    = 100_000
	strictRate    = 400_000
)

// respServer is a server that redis-benchmark loads.
type respServer struct {
	*child
	addr   string
	client *redis.Client // to check what was counted
}

// dialResp connects to a server.
func dialResp(c *child, addr string) respServer {
	return respServer{c, addr, redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DisableIdentity: true})}
}

// stop ends the server.
func (s respServer) stop() error { return errors.Join(s.client.Close(), s.child.stop()) }

// startRedisPeer starts a redis-server whose counter has numbers as long as those of seqd.
func startRedisPeer(ctx context.Context) (s respServer, err error) {
	addr, err := freeAddr()
	if err != nil {
		return s, err
	}
	_, port, _ := net.SplitHostPort(addr)
	c, err := startChild(ctx, "", nil, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
	if err != nil {
		return s, err
	}
	s = dialResp(c, addr)
	if err = c.await(ctx, addr); err == nil {
		err = s.client.Set(ctx, "order", firstNumber, 0).Err()
	}
	if err != nil {
		err = errors.Join(err, s.stop())
	}
	return s, err
}

// startRespSeqd starts the real binary with a port for Redis clients, in a folder, on bolt unless
// the environment says otherwise.
func startRespSeqd(ctx context.Context, o options, dir string, env ...string) (s respServer, url string, err error) {
	if o.binary == "" {
		return s, "", errors.New("-binary is needed")
	}
	addr, err := freeAddr()
	if err != nil {
		return s, "", err
	}
	bizTypes, err := json.Marshal([]map[string]any{{"name": "order", "start": firstNumber}})
	if err != nil {
		return s, "", err
	}
	p, err := startFirst(ctx, o.binary, dir, "/seq/order", append(env, "SEQD_RESP_ADDR="+addr, "SEQD_BIZTYPES="+string(bizTypes))...)
	if err != nil {
		return s, "", err
	}
	return dialResp(p.child, addr), p.url, nil
}

// respRun is the result of a run of redis-benchmark.
type respRun struct {
	rate           float64 // commands a second
	server, client float64 // µs of CPU per command: of the server, and of redis-benchmark
}

// load runs `redis-benchmark -c 50 -P pipeline INCR order`. A run in which fewer numbers were
// issued than commands were sent is an error: redis-benchmark counts refusals as answers.
func (s respServer) load(ctx context.Context, pipeline, commands int) (r respRun, err error) {
	before, err := s.client.Incr(ctx, "order").Result()
	if err != nil {
		return r, fmt.Errorf("INCR order: %w", err)
	}
	began, err := s.cpu()
	if err != nil {
		return r, err
	}
	host, port, _ := net.SplitHostPort(s.addr)
	cmd := exec.CommandContext(ctx, "redis-benchmark", "-h", host, "-p", port, "-c", "50",
		"-P", strconv.Itoa(pipeline), "-n", strconv.Itoa(commands), "--csv", "INCR", "order")
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil {
		return r, fmt.Errorf("redis-benchmark: %w: %s%s", err, complaints.Bytes(), out.Bytes())
	}
	ended, err := s.cpu()
	if err != nil {
		return r, err
	}
	after, err := s.client.Incr(ctx, "order").Result()
	if err != nil {
		return r, fmt.Errorf("INCR order: %w", err)
	}
	if issued := after - before - 1; issued < int64(commands) {
		return r, fmt.Errorf("%d commands got %d numbers: %s", commands, issued, complaints.Bytes())
	}
	perCommand := float64(time.Second.Microseconds()) / float64(commands)
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	r.rate, err = rateOf(out.Bytes())
	r.server, r.client = (ended-began)*perCommand, used.Seconds()*perCommand
	return r, err
}

// rateOf reads what redis-benchmark --csv printed: a line of names, and one of values.
func rateOf(out []byte) (float64, error) {
	rows, err := csv.NewReader(bytes.NewReader(out)).ReadAll()
	if err != nil || len(rows) != 2 || len(rows[1]) < 2 || rows[0][1] != "rps" {
		return 0, errors.Join(fmt.Errorf("redis-benchmark said %q", out), err)
	}
	return strconv.ParseFloat(rows[1][1], 64)
}

// cpu returns the CPU time of the process so far, in seconds.
func (c *child) cpu() (seconds float64, err error) {
	const userField, systemField, ticksPerSecond = 11, 12, 100 // from after the name
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	for _, n := range []int{userField, systemField} {
		ticks, err := strconv.ParseFloat(fields[n], 64)
		if err != nil {
			return 0, err
		}
		seconds += ticks / ticksPerSecond
	}
	return seconds, nil
}

// mostResident returns the most memory that a process that has ended ever had, in bytes.
func mostResident(state *os.ProcessState) (float64, error) {
	usage, ok := state.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	return float64(usage.Maxrss) * 1024, nil
}

// benchRespPipelined and benchRespSingle compare the Redis protocol on bolt with a redis-server.
func benchRespPipelined(ctx context.Context, o options) ([]result, error) {
	return benchResp(ctx, o, 64, pipelinedRate, 0.90)
}

func benchRespSingle(ctx context.Context, o options) ([]result, error) {
	return benchResp(ctx, o, 1, singleRate, 0.75)
}

func benchResp(ctx context.Context, o options, pipeline int, rate, target float64) (results []result, err error) {
	dir, err := os.MkdirTemp("", "seqd-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	peer, err := startRedisPeer(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, peer.stop()) }()
	seqd, _, err := startRespSeqd(ctx, o, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, seqd.stop()) }()
	servers := []respServer{peer, seqd}
	var runs [2][]respRun
	err = inTurn(o.rounds+1, len(servers), func(round, i int) error {
		r, err := servers[i].load(ctx, pipeline, int(rate*o.duration.Seconds()))
		if round > 0 { // round 0 is the warm-up
			runs[i] = append(runs[i], r)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	of := func(value func(respRun) float64) pairs {
		return pairs{base: column(runs[0], value), value: column(runs[1], value)}
	}
	what := fmt.Sprintf("`redis-benchmark -c 50 -P %d INCR order`, bolt", pipeline)
	return []result{
		of(func(r respRun) float64 { return r.rate }).result(what, "redis-server without persistence", perSecond, true, target),
		of(func(r respRun) float64 { return r.server }).report(what+": CPU of the server per command", "redis-server", hundredths),
		of(func(r respRun) float64 { return r.client }).report(what+": CPU of redis-benchmark per command", "on redis-server", hundredths),
	}, nil
}

// column returns one value of each run.
func column(runs []respRun, value func(respRun) float64) (list []float64) {
	for _, r := range runs {
		list = append(list, value(r))
	}
	return list
}

// benchRespStrict compares strict order over Redis by the Redis protocol and by HTTP, on one node.
func benchRespStrict(ctx context.Context, o options) (results []result, err error) {
	b, err := startBackends(ctx, o, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	seqd, url, err := startRespSeqd(ctx, o, "", b.environment("resp")...)
	if err != nil {
		return nil, err
	}
	b.cleanUps = append(b.cleanUps, seqd.stop)
	p, err := measure(o.rounds,
		func() (float64, error) { return wrk(ctx, o, url+"/seq/order") },
		func() (float64, error) {
			r, err := seqd.load(ctx, 64, int(strictRate*o.duration.Seconds()))
			return r.rate, err
		})
	if err != nil {
		return nil, err
	}
	return []result{p.result("strict over Redis, `redis-benchmark -c 50 -P 64 INCR order`", "one ID per HTTP request, 64 connections", perSecond, true, 10)}, nil
}
