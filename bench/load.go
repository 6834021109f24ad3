package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"

	"github.com/seqd/seqd/bench/openloop"
)

// loadCommand makes this program a load generator. The generator is a separate process, so that a
// pause of another process does not stop its clock.
const loadCommand = "openloop"

// connections is the number of connections of a load, unless it says otherwise.
const connections = 64

// generate reads a job from standard input, runs it and writes a report to standard output.
func generate(ctx context.Context) error {
	var job openloop.Job
	if err := json.NewDecoder(os.Stdin).Decode(&job); err != nil {
		return err
	}
	report, err := openloop.Run(ctx, job)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(report)
}

// runLoad runs a load in a separate process.
func runLoad(ctx context.Context, job openloop.Job) (report openloop.Report, err error) {
	if job.Connections == 0 {
		job.Connections = connections
	}
	self, err := os.Executable()
	if err != nil {
		return report, err
	}
	in, err := json.Marshal(job)
	if err != nil {
		return report, err
	}
	var out, complaints bytes.Buffer
	cmd := exec.CommandContext(ctx, self, loadCommand)
	cmd.Env = append(os.Environ(), "GOGC=off") // it keeps nearly everything it allocates
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &complaints
	if err := cmd.Run(); err != nil {
		return report, fmt.Errorf("the load generator: %w: %s", err, complaints.Bytes())
	}
	return report, json.Unmarshal(out.Bytes(), &report)
}

// mustGood runs a load and returns an error unless every request got a number.
func mustGood(ctx context.Context, job openloop.Job) (openloop.Report, error) {
	r, err := runLoad(ctx, job)
	if err == nil && r.Good() != r.Sent {
		err = fmt.Errorf("%s: of %d requests %d have no answer, and the answers are %v", job.URL, r.Sent, r.Unanswered, r.Status)
	}
	return r, err
}

// closed returns a job that loads a URL in a closed loop.
func (o options) closed(url string) openloop.Job {
	return openloop.Job{URL: url, Warm: o.duration / 5, Duration: o.duration}
}

// open returns a job that loads a URL at a fixed rate.
func (o options) open(url string, rate float64) openloop.Job {
	job := o.closed(url)
	job.Rate = rate
	return job
}

// measured runs a load on a service, and measures the processor time of the service.
func measured(ctx context.Context, service *child, job openloop.Job) (sample, error) {
	found, _, err := count(ctx, service, job)
	return found, err
}

// measured is like the function, and counts what Redis does for each request.
func (s *servers) measured(ctx context.Context, service *child, job openloop.Job) (found sample, err error) {
	before, err := s.work(ctx)
	if err != nil {
		return found, err
	}
	found, requests, err := count(ctx, service, job)
	if err != nil {
		return found, err
	}
	after, err := s.work(ctx)
	found.redis = perRequest(before, after, requests)
	return found, err
}

// count runs a load, and returns what it found and the number of requests with the warm-up.
func count(ctx context.Context, service *child, job openloop.Job) (found sample, requests int, err error) {
	before, err := service.onCPU()
	if err != nil {
		return found, 0, err
	}
	r, err := mustGood(ctx, job)
	if err != nil {
		return found, 0, err
	}
	after, err := service.onCPU()
	return sample{rate: r.Rate, p50: r.Took.P50, p99: r.Took.P99, cpu: 1e6 * (after - before) / float64(r.All)}, r.All, err
}
