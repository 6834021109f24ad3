package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/seqd/seqd/bench/openloop"
)

// loadCommand makes this program a load generator. The generator is a separate process, so that a
// pause of the process with the servers does not stop its clock.
const loadCommand = "openloop"

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

// saturated returns the rate of a closed loop.
func saturated(ctx context.Context, job openloop.Job, duration time.Duration) (float64, error) {
	job.Rate, job.Warm, job.Duration = 0, duration/5, duration
	r, err := mustGood(ctx, job)
	return r.Rate, err
}
