package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// The figures of this file are about the Redis protocol. The peer is a real redis-server that keeps
// nothing on disk; the load is Redis' own redis-benchmark, over 50 connections.

// Rates that redis-benchmark reaches about, in commands a second. They say how many commands make a
// run as long as the others.
const (
	pipelinedRate = 1_500_000
	singleRate    = 100_000
)

// respServer is a server that redis-benchmark loads.
type respServer struct {
	*child

	addr   string
	client *redis.Client // to check what was counted
}

// dialResp connects to a server.
func (s *servers) dialResp(c *child, addr string) respServer {
	r := respServer{c, addr, redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DisableIdentity: true})}
	s.cleanUps = append(s.cleanUps, r.client.Close)
	return r
}

// startRedisPeer starts a redis-server whose counter has numbers as long as those of seqd.
func (s *servers) startRedisPeer(ctx context.Context) (r respServer, err error) {
	addr, err := freeAddr()
	if err != nil {
		return r, err
	}
	_, port, _ := net.SplitHostPort(addr)
	c, err := s.start(ctx, addr, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
	if err != nil {
		return r, err
	}
	r = s.dialResp(c, addr)
	return r, r.client.Set(ctx, "order", firstNumber, 0).Err()
}

// startResp starts seqd with a port for Redis clients.
func (s *servers) startResp(ctx context.Context, path string, env ...string) (r respServer, n node, err error) {
	addr, err := freeAddr()
	if err != nil {
		return r, n, err
	}
	n, err = s.startNode(ctx, path, append(env, "SEQD_RESP_ADDR="+addr, bizTypes(order))...)
	if err != nil {
		return r, n, err
	}
	return s.dialResp(n.child, addr), n, nil
}

// load runs `redis-benchmark -c 50 -P pipeline INCR order`. A run in which fewer numbers were
// issued than commands were sent is an error: redis-benchmark counts refusals as answers.
func (r respServer) load(ctx context.Context, pipeline, commands int) (found sample, err error) {
	before, err := r.client.Incr(ctx, "order").Result()
	if err != nil {
		return found, fmt.Errorf("INCR order: %w", err)
	}
	began, err := r.onCPU()
	if err != nil {
		return found, err
	}
	host, port, _ := net.SplitHostPort(r.addr)
	cmd := exec.CommandContext(ctx, "redis-benchmark", "-h", host, "-p", port, "-c", "50",
		"-P", strconv.Itoa(pipeline), "-n", strconv.Itoa(commands), "--csv", "INCR", "order")
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil {
		return found, fmt.Errorf("redis-benchmark: %w: %s%s", err, complaints.Bytes(), out.Bytes())
	}
	ended, err := r.onCPU()
	if err != nil {
		return found, err
	}
	after, err := r.client.Incr(ctx, "order").Result()
	if err != nil {
		return found, fmt.Errorf("INCR order: %w", err)
	}
	if issued := after - before - 1; issued < int64(commands) {
		return found, fmt.Errorf("%d commands got %d numbers: %s", commands, issued, complaints.Bytes())
	}
	found.rate, err = commandRate(out.Bytes())
	found.cpu = 1e6 * (ended - began) / float64(commands)
	return found, err
}

// commandRate reads what redis-benchmark --csv printed: a line of names, and one of values.
func commandRate(out []byte) (float64, error) {
	rows, err := csv.NewReader(bytes.NewReader(out)).ReadAll()
	if err != nil || len(rows) != 2 || len(rows[1]) < 2 || rows[0][1] != "rps" {
		return 0, errors.Join(fmt.Errorf("redis-benchmark said %q", out), err)
	}
	return strconv.ParseFloat(rows[1][1], 64)
}

// benchRespPipelined and benchRespSingle compare the Redis protocol on bolt with a redis-server.
func benchRespPipelined(ctx context.Context, o options) ([]result, error) {
	return benchResp(ctx, o, 64, pipelinedRate, 0.90)
}

func benchRespSingle(ctx context.Context, o options) ([]result, error) {
	return benchResp(ctx, o, 1, singleRate, 0.75)
}

func benchResp(ctx context.Context, o options, pipeline int, rate, bound float64) ([]result, error) {
	const redisServer = "redis-server, nothing on disk"
	commands := int(rate * o.duration.Seconds())
	return with(func(s *servers) ([]result, error) {
		c := contest{rounds: o.rounds}
		peer, err := s.startRedisPeer(ctx)
		if err != nil {
			return nil, err
		}
		c.add(redisServer, func() (sample, error) { return peer.load(ctx, pipeline, commands) })
		for _, b := range o.binaries() {
			r, _, err := s.startResp(ctx, b.path)
			if err != nil {
				return nil, err
			}
			c.add(b.name, func() (sample, error) { return r.load(ctx, pipeline, commands) })
		}
		got, err := c.run(ctx)
		if err != nil {
			return nil, err
		}
		what := fmt.Sprintf("`redis-benchmark -c 50 -P %d INCR order`, bolt", pipeline)
		return got.withOld([]result{
			got.against(redisServer, what, rateOf, perSecond).atLeast(bound),
			got.against(redisServer, what+": CPU for each command", cpuOf, ofCPU),
		}, what), nil
	})
}

// benchRespStrict compares strict order over Redis by the Redis protocol and by HTTP, on one node.
func benchRespStrict(ctx context.Context, o options) ([]result, error) {
	const byHTTP = "one ID per HTTP request"
	return with(func(s *servers) ([]result, error) {
		if err := s.startRedisAndPostgres(ctx); err != nil {
			return nil, err
		}
		env, err := s.onPostgres(ctx, "resp", true)
		if err != nil {
			return nil, err
		}
		r, n, err := s.startResp(ctx, o.binary, env...)
		if err != nil {
			return nil, err
		}
		c := contest{rounds: o.rounds}
		c.add(byHTTP, o.loading(ctx, n.child, n.url+"/seq/order"))
		c.add(newBinary, func() (sample, error) { return r.load(ctx, 64, int(pipelinedRate*o.duration.Seconds())) })
		got, err := c.run(ctx)
		if err != nil {
			return nil, err
		}
		return []result{got.against(byHTTP, "`redis-benchmark -c 50 -P 64 INCR order`, strict over Redis", rateOf, perSecond).atLeast(10)}, nil
	})
}
