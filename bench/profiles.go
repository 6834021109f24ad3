package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"time"

	"github.com/seqd/seqd/bench/openloop"
	"github.com/seqd/seqd/server"
	"github.com/seqd/seqd/server/config"
	_ "github.com/seqd/seqd/standard"
)

// profileRate is the average number of bytes allocated between two samples.
const profileRate = 4096

// hotPath is a kind of request whose profile is written.
type hotPath struct {
	name, path string
	change     func(*openloop.Job)
	redis      bool
}

var hotPaths = []hotPath{
	{name: "bolt", path: "/seq/order"},
	{name: "bolt-batch", path: "/seq/order?count=10000", change: func(j *openloop.Job) { j.Headers = []string{"Accept: text/plain"} }},
	{name: "snowflake", path: "/seq/user"},
	{name: "strict", path: "/seq/order", redis: true},
	{name: "strict-key", path: "/seq/order", redis: true, change: func(j *openloop.Job) { *j = withKeys(*j) }},
}

// writeProfiles runs seqd in this process and profiles it under a closed loop on each hot path.
// Allocations are counted from the start of the process, so there is one file from before the load and
// one from after it.
func writeProfiles(ctx context.Context, o options) error {
	runtime.MemProfileRate = profileRate
	if err := os.MkdirAll(o.profiles, 0o755); err != nil {
		return err
	}
	_, err := with(func(s *servers) ([]result, error) {
		if err := s.startRedisAndPostgres(ctx); err != nil {
			return nil, err
		}
		dir, err := s.folder()
		if err != nil {
			return nil, err
		}
		if err := s.createDatabase(ctx, "profile"); err != nil {
			return nil, err
		}
		urls := make(map[bool]string)
		for _, redis := range []bool{false, true} {
			stores := map[string]string{"store.bolt.path": filepath.Join(dir, "seqd.db")}
			if redis {
				stores = map[string]string{"store.driver": "postgres", "store.postgres.url": s.database("profile"), "redis.addrs": s.redisAddr}
			}
			if urls[redis], err = s.serveHere(ctx, stores); err != nil {
				return nil, err
			}
		}
		for _, p := range hotPaths {
			job := o.closed(urls[p.redis] + p.path)
			if p.change != nil {
				p.change(&job)
			}
			if err := p.profile(ctx, filepath.Join(o.profiles, p.name), job); err != nil {
				return nil, fmt.Errorf("%s: %w", p.name, err)
			}
		}
		return nil, nil
	})
	return err
}

// serveHere runs seqd in this process until the servers are stopped.
func (s *servers) serveHere(ctx context.Context, stores map[string]string) (url string, err error) {
	const types = "bizTypes: [{name: order, start: 1000000000}, {name: user, strategy: snowflake}]"
	stores["server.addr"] = "127.0.0.1:0"
	cfg, err := config.LoadYAML([]byte(types), config.Sources{Flags: stores})
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithCancel(ctx)
	listening, ended := make(chan net.Addr, 1), make(chan error, 1)
	log := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	go func() {
		ended <- server.Run(ctx, cfg, server.WithLogger(log), server.WithOnListen(func(a net.Addr) { listening <- a }))
	}()
	select {
	case addr := <-listening:
		s.cleanUps = append(s.cleanUps, func() error { cancel(); return <-ended })
		n := node{url: "http://" + addr.String(), began: time.Now(), child: &child{}}
		return n.url, n.awaitReady(ctx, "/readyz")
	case err := <-ended:
		cancel()
		return "", err
	}
}

func (p hotPath) profile(ctx context.Context, file string, job openloop.Job) error {
	if _, err := mustGood(ctx, job); err != nil { // to warm up
		return err
	}
	if err := writeAllocations(file + ".before.allocs"); err != nil {
		return err
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, err := os.Create(file + ".cpu")
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return err
	}
	if job.Keys != "" {
		job = withKeys(job)
	}
	r, err := mustGood(ctx, job)
	pprof.StopCPUProfile()
	runtime.ReadMemStats(&after)
	n := float64(max(r.All, 1))
	fmt.Printf("%s: %s, %.1f allocations and %.0f bytes a request; go tool pprof -top %s.cpu; go tool pprof -sample_index=alloc_space -base %s.before.allocs -top %s.allocs\n",
		p.name, perSecond.text(r.Rate), float64(after.Mallocs-before.Mallocs)/n, float64(after.TotalAlloc-before.TotalAlloc)/n, file, file, file)
	return errors.Join(err, cpu.Close(), writeAllocations(file+".allocs"))
}

func writeAllocations(path string) error {
	runtime.GC() // the profile is complete up to the last collection
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup("allocs").WriteTo(f, 0), f.Close())
}
