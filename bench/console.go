package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	// consoleBizTypes and consoleNodes are what the console shows in this figure.
	consoleBizTypes = 1000
	consoleNodes    = 3
	// consolePause is the pause between two requests of the page for the overview, and askPause the
	// pause in this figure: the answer to the last one must have expired.
	consolePause = 5 * time.Second
	askPause     = 1100 * time.Millisecond
	// asks is how often the overview is asked for in a round that measures CPU.
	asks = 8
)

// benchConsole measures what an open console costs the node that it asks.
func benchConsole(ctx context.Context, o options) (results []result, err error) {
	b := new(backends)
	defer func() { err = errors.Join(err, b.stop()) }()
	if err := b.startPostgres(ctx); err != nil {
		return nil, err
	}
	asked, url, err := b.startConsoleNodes(ctx, o)
	if err != nil {
		return nil, err
	}
	issue := func() (float64, error) { return wrk(ctx, o, url+"/seq/type000000") }
	issuing, err := measure(o.rounds, issue, func() (float64, error) { return watched(url, time.Second, issue) })
	if err != nil {
		return nil, err
	}
	used := func() (float64, error) { return asked.uses(ctx, asks*askPause) }
	cpu, err := measure(o.rounds, used, func() (float64, error) { return watched(url, askPause, used) })
	if err != nil {
		return nil, err
	}
	var shares []float64
	for i := range cpu.value {
		perAsk := (cpu.value[i] - cpu.base[i]) / (asks - 1) // there is a pause before the first one
		shares = append(shares, perAsk/consolePause.Seconds())
	}
	body, err := get(url + "/overview")
	return []result{
		issuing.result("issuing while a console is open, 3 nodes, 1,000 biz types, 64 connections", "no console", perSecond, true, 0.98),
		within("CPU of the node for an open console, share of one core", shares, ofACore, 0.01),
		report("size of `GET /overview`", []float64{float64(len(body))}, kilobytes),
	}, err
}

// watched calls run while the overview is asked for.
func watched(url string, pause time.Duration, run func() (float64, error)) (float64, error) {
	c, err := newClient(url + "/overview")
	if err != nil {
		return 0, err
	}
	return polled(c, pause, run)
}

// startConsoleNodes starts nodes on PostgreSQL and returns the first one. It waits until each of
// them shows the figures of all.
func (b *backends) startConsoleNodes(ctx context.Context, o options) (first *child, url string, err error) {
	if o.binary == "" {
		return nil, "", errors.New("-binary is needed")
	}
	var bizTypes []map[string]any
	for i := range consoleBizTypes {
		bizTypes = append(bizTypes, map[string]any{"name": fmt.Sprintf("type%06d", i), "ordering": "per-node", "start": firstNumber})
	}
	list, err := json.Marshal(bizTypes)
	if err != nil {
		return nil, "", err
	}
	for n := range consoleNodes {
		addr, err := freeAddr()
		if err != nil {
			return nil, "", err
		}
		env := []string{
			"SEQD_SERVER_ADDR=" + addr, "SEQD_RESP_ADDR=", "SEQD_LOG_LEVEL=error", "SEQD_BIZTYPES=" + string(list),
			"SEQD_STORE_DRIVER=postgres", "SEQD_STORE_POSTGRES_URL=" + b.postgresURL + "seqd",
		}
		c, err := startChild(ctx, "", env, o.binary)
		if err != nil {
			return nil, "", err
		}
		b.cleanUps = append(b.cleanUps, c.stop)
		at := "http://" + addr
		if err := errors.Join(c.await(ctx, addr), awaitReady(ctx, at), warmAll(ctx, at, consoleBizTypes)); err != nil {
			return nil, "", err
		}
		if n == 0 {
			first, url = c, at
		}
	}
	return first, url, awaitFigures(ctx, url)
}

// awaitFigures waits until the overview has the figures of all nodes.
func awaitFigures(ctx context.Context, url string) error {
	for ctx.Err() == nil {
		body, err := get(url + "/overview")
		if err != nil {
			return err
		}
		if strings.Count(string(body), `"figures":{`) == consoleNodes {
			return nil
		}
		time.Sleep(askPause)
	}
	return ctx.Err()
}

// uses returns how many seconds of CPU a process uses in a time.
func (c *child) uses(ctx context.Context, d time.Duration) (float64, error) {
	before, err := c.onCPU()
	if err != nil {
		return 0, err
	}
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(d):
	}
	after, err := c.onCPU()
	return after - before, err
}

// onCPU returns how many seconds the threads of the process have run. It is finer than [child.cpu],
// which counts in hundredths of a second.
func (c *child) onCPU() (seconds float64, err error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", c.cmd.Process.Pid))
	if err != nil || len(files) == 0 {
		return 0, errors.Join(errors.New("the kernel does not tell for how long threads have run"), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return 0, err
		}
		ran, _, _ := strings.Cut(string(text), " ")
		ns, err := strconv.ParseFloat(ran, 64)
		if err != nil {
			return 0, err
		}
		seconds += ns / 1e9
	}
	return seconds, nil
}
