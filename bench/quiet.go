package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// quietLimit is the share of the machine's processor time, in per cent, up to which steal and the
// load of others count as quiet.
const quietLimit = 5

// noise is what disturbed a figure: shares of the processor time of the machine, in per cent.
type noise struct {
	// Steal is what other virtual machines took.
	Steal float64 `json:"steal"`
	// Other is what processes used that this program did not start, and the kernel's own threads.
	Other float64 `json:"other"`
}

func (n noise) quiet() bool { return n.Steal+n.Other <= quietLimit }

// processorTime is the first line of /proc/stat, in ticks of 10 ms.
type processorTime struct {
	busy  int64 // in processes, by user, nice and system; interrupts belong to nobody
	steal int64
	all   int64
}

// parseStat reads the text of /proc/stat.
func parseStat(text string) (t processorTime, err error) {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	const needed = 9 // cpu user nice system idle iowait irq softirq steal
	if len(fields) < needed || fields[0] != "cpu" {
		return t, fmt.Errorf("/proc/stat begins with %q", line)
	}
	for i, field := range fields[1:needed] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return t, fmt.Errorf("/proc/stat: %w", err)
		}
		t.all += ticks
		switch i {
		case 0, 1, 2:
			t.busy += ticks
		case 7:
			t.steal = ticks
		}
	}
	return t, nil
}

// processTime is what /proc/PID/stat says about a process.
type processTime struct {
	pid, parent int
	ticks       int64 // its own time and that of children that it waited for
}

// parseProcess reads the text of /proc/PID/stat.
func parseProcess(text string) (p processTime, err error) {
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')') // a name may contain both
	if open < 1 || end < open {
		return p, fmt.Errorf("a process says %q", text)
	}
	fields := strings.Fields(text[end+1:])
	const needed = 15
	if len(fields) < needed {
		return p, fmt.Errorf("a process says %q", text)
	}
	var failed []error
	number := func(field string) int64 {
		n, err := strconv.ParseInt(field, 10, 64)
		failed = append(failed, err)
		return n
	}
	p.pid, p.parent = int(number(strings.TrimSpace(text[:open]))), int(number(fields[1]))
	for _, field := range fields[11:needed] { // utime stime cutime cstime
		p.ticks += number(field)
	}
	return p, errors.Join(failed...)
}

// treeTime returns the time of a process and of everything below it.
func treeTime(processes []processTime, root int) (ticks int64) {
	children := make(map[int][]processTime)
	for _, p := range processes {
		children[p.parent] = append(children[p.parent], p)
		if p.pid == root {
			ticks += p.ticks
		}
	}
	var below func(pid int)
	below = func(pid int) {
		for _, p := range children[pid] {
			ticks += p.ticks
			below(p.pid)
		}
	}
	below(root)
	return ticks
}

// usage is what the processors have done so far.
type usage struct {
	processorTime

	own int64 // in this process and those that it started
}

// noiseBetween returns what others did between two readings. The kernel counts the time of
// processes more finely than that of the machine, so a difference below zero is none.
func noiseBetween(before, after usage) noise {
	all := float64(after.all - before.all)
	if all <= 0 {
		return noise{}
	}
	other := float64((after.busy - before.busy) - (after.own - before.own))
	return noise{Steal: 100 * float64(after.steal-before.steal) / all, Other: 100 * max(0, other) / all}
}

// readUsage reads /proc.
func readUsage() (u usage, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return u, err
	}
	if u.processorTime, err = parseStat(string(text)); err != nil {
		return u, err
	}
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return u, err
	}
	var processes []processTime
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		p, err := parseProcess(string(text))
		if err != nil {
			return u, err
		}
		processes = append(processes, p)
	}
	u.own = treeTime(processes, os.Getpid())
	return u, nil
}

// patience is how long figures may wait for a quiet machine.
type patience struct {
	each time.Duration // before one figure
	all  time.Duration // in the whole run, of which this is left
}

// quietWindow is how long the machine must be quiet before a figure.
const quietWindow = 500 * time.Millisecond

// await waits until the machine is quiet, or patience ends.
func (p *patience) await(ctx context.Context) error {
	began := time.Now()
	limit := min(p.each, p.all)
	defer func() { p.all -= time.Since(began) }()
	for time.Since(began) < limit {
		before, err := readUsage()
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(quietWindow):
		}
		after, err := readUsage()
		if err != nil || noiseBetween(before, after).quiet() {
			return err
		}
	}
	return nil
}
