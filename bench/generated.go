package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// The figure of this file is about seqd generate.

const (
	generatedLines = 10_000_000
	fewerLines     = generatedLines / 10
)

// benchGenerate writes formatted numbers into a file by seqd generate, and compares the most memory
// of that process with what it needs for a tenth of them, and its rate with that of a download of as
// many numbers of a job.
func benchGenerate(ctx context.Context, o options) ([]result, error) {
	return with(func(s *servers) ([]result, error) {
		n, err := s.startNode(ctx, o.binary, bizTypes(definition{"name": "invite", "plugins": []definition{
			{"name": "format", "template": "INV-{seq:010}{check}", "check": "luhn"},
		}}))
		if err != nil {
			return nil, err
		}
		var rates []float64
		var memory, jobs pairs
		made, err := exec.CommandContext(ctx, o.binary, "jobs", "create", "invite", strconv.Itoa(generatedLines), "--addr", n.url).Output()
		if err != nil {
			return nil, fmt.Errorf("seqd jobs create: %w", err)
		}
		job := "--job=" + strings.TrimSpace(string(made))
		if _, _, err := generateFile(ctx, o.binary, n.url, os.DevNull, generatedLines, job); err != nil { // waits for its end
			return nil, err
		}
		file := filepath.Join(n.dir, "codes.txt")
		for range o.rounds {
			_, few, err := generateFile(ctx, o.binary, n.url, file, fewerLines)
			if err != nil {
				return nil, err
			}
			rate, all, err := generateFile(ctx, o.binary, n.url, file, generatedLines)
			if err != nil {
				return nil, err
			}
			download, _, err := generateFile(ctx, o.binary, n.url, file, generatedLines, job)
			if err != nil {
				return nil, err
			}
			jobs.base, jobs.value = append(jobs.base, rate), append(jobs.value, download)
			rates, memory.base, memory.value = append(rates, rate), append(memory.base, few), append(memory.value, all)
		}
		return []result{
			report("`seqd generate`, 10 million formatted numbers, bolt", rates, millionsPerSecond).atLeast(3e6),
			jobs.report("`seqd generate --job`, a job that is done", "`seqd generate`", millionsPerSecond).atLeast(0.9),
			memory.report("`seqd generate`, 10 million: most resident memory of the command", "for 1 million", mebibytes).atMost(1.10),
		}, nil
	})
}

// generateFile runs seqd generate. It returns the lines a second, from the start of the process to
// its end, and the most resident memory of the process in bytes.
func generateFile(ctx context.Context, binary, url, file string, count int, more ...string) (rate, memory float64, err error) {
	cmd := exec.CommandContext(ctx, binary, append([]string{"generate", "invite", "--count", strconv.Itoa(count), "-o", file, "--addr", url}, more...)...)
	cmd.Env = environ()
	began := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, 0, fmt.Errorf("seqd generate: %w: %s", err, out)
	}
	rate = float64(count) / time.Since(began).Seconds()
	if memory, err = mostResident(cmd.ProcessState); err != nil {
		return 0, 0, err
	}
	if file == os.DevNull {
		return rate, memory, nil
	}
	lines, err := countLines(file)
	if err == nil && lines != count {
		err = fmt.Errorf("seqd generate wrote %d lines of %d", lines, count)
	}
	return rate, memory, errors.Join(err, os.Remove(file))
}

// countLines counts the lines of a file.
func countLines(path string) (n int, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	chunk := make([]byte, 1<<20)
	for {
		read, err := f.Read(chunk)
		n += bytes.Count(chunk[:read], []byte{'\n'})
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}
