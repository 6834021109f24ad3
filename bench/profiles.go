package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
)

// profileRate is the average number of bytes allocated between two samples.
const profileRate = 4096

// writeProfiles profiles this process, which includes seqd, under a closed loop on each hot path in
// turn. Allocations are counted from the start of the process, so there is one file from before the
// load and one from after it.
func writeProfiles(ctx context.Context, o options) (err error) {
	runtime.MemProfileRate = profileRate
	if err := os.MkdirAll(o.profiles, 0o755); err != nil {
		return err
	}
	b, err := startBackends(ctx, o, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	ways, err := b.ways(ctx)
	if err != nil {
		return err
	}
	large := ways[0]
	large.name, large.job.URL, large.job.Headers = "batch of 10,000 as text on bolt", large.job.URL+"?count=10000", []string{"Accept: text/plain"}
	for _, w := range append(ways, large) {
		if err := w.profile(ctx, o); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	return nil
}

func (w way) profile(ctx context.Context, o options) error {
	file := filepath.Join(o.profiles, strings.Map(fileName, w.name))
	job := w.on(w.job.URL)
	job.Duration = o.duration
	if _, err := mustGood(ctx, job); err != nil { // to warm up
		return err
	}
	if err := writeAllocations(file + ".before.allocs"); err != nil {
		return err
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	stop, err := startProfile(file + ".cpu")
	if err != nil {
		return err
	}
	job = w.on(w.job.URL)
	job.Duration = o.duration
	r, err := mustGood(ctx, job)
	stop()
	runtime.ReadMemStats(&after)
	n := float64(max(r.Sent, 1))
	fmt.Printf("%s: %s, %.1f allocations and %.0f bytes a request; go tool pprof -top %s.cpu; go tool pprof -sample_index=alloc_space -base %s.before.allocs -top %s.allocs\n",
		w.name, perSecond.text(r.Rate), float64(after.Mallocs-before.Mallocs)/n, float64(after.TotalAlloc-before.TotalAlloc)/n, file, file, file)
	return errors.Join(err, writeAllocations(file+".allocs"))
}

// fileName maps a character to one that is allowed in file names.
func fileName(r rune) rune {
	if r == ' ' || r == ',' {
		return '-'
	}
	return r
}

func writeAllocations(path string) error {
	runtime.GC() // the profile is complete up to the last collection
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup("allocs").WriteTo(f, 0), f.Close())
}
