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

// loadCommand makes this program a load generator, as a process of its own: a pause of the process
// with the servers does not stop its clock.
const loadCommand = "openloop"

// generate is that: a job comes in, a report goes out.
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

// runLoad runs a load in a process of its own.
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
	cmd.Env = append(os.Environ(), "GOGC=off") // it keeps what it measures and little else
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &complaints
	if err := cmd.Run(); err != nil {
		return report, fmt.Errorf("the load generator: %w: %s", err, complaints.Bytes())
	}
	return report, json.Unmarshal(out.Bytes(), &report)
}

// mustGood runs a load of which every request must be answered with a number.
func mustGood(ctx context.Context, job openloop.Job) (openloop.Report, error) {
	r, err := runLoad(ctx, job)
	if err == nil && r.Good() != r.Sent {
		err = fmt.Errorf("%s: of %d requests %d have no answer, and the answers are %v", job.URL, r.Sent, r.Unanswered, r.Status)
	}
	return r, err
}

// saturated is the most that a closed loop gets through.
func saturated(ctx context.Context, job openloop.Job, duration time.Duration) (float64, error) {
	job.Rate, job.Warm, job.Duration = 0, duration/5, duration
	r, err := mustGood(ctx, job)
	return r.Rate, err
}
