package admin

import (
	"context"
	"io"
	"time"
)

// NewJob is what a caller wants of a job.
type NewJob struct {
	Name    string
	BizType string
	Key     string
	Count   int64
	// Format is text, csv or jsonl; "" for text.
	Format string
	// At is when the job begins at the earliest; zero for now.
	At time.Time
	// Every is day, week or month if another job is to be made so often, when the clock of TimeZone
	// shows the same as At; "" for one job.
	Every    string
	TimeZone string
	// Once identifies the request of its owner if it may be repeated; "" if not.
	Once string
	// Owner is the owner of the job; see [seqd.Caller].
	Owner string
}

// Job is a job as callers see it. Times are RFC 3339 in UTC.
type Job struct {
	ID      string `json:"id"`
	Name    string `json:"name,omitempty"`
	BizType string `json:"bizType"`
	Key     string `json:"key,omitempty"`
	Count   int64  `json:"count"`
	Format  string `json:"format"`
	// Every and TimeZone are those of a schedule, which makes jobs, the next one at At. Schedule is the
	// ID of the schedule that made the job.
	Every    string `json:"every,omitempty"`
	TimeZone string `json:"timeZone,omitempty"`
	Schedule string `json:"schedule,omitempty"`
	// Missed is how many times of a schedule passed for which it made no job.
	Missed int64 `json:"missed,omitempty"`
	// State is queued, running, done, failed or cancelled; that of a schedule is scheduled or cancelled,
	// or failed after a restore.
	State string `json:"state"`
	Done  int64  `json:"done"`
	// Rate is numbers per second since the job began. SecondsLeft is set if it is running.
	Rate        int64  `json:"rate"`
	SecondsLeft *int64 `json:"secondsLeft,omitempty"`
	// Node is the ID of the node that issues.
	Node      string `json:"node,omitempty"`
	At        string `json:"at"`
	CreatedAt string `json:"createdAt"`
	StartedAt string `json:"startedAt,omitempty"`
	EndedAt   string `json:"endedAt,omitempty"`
	// ExpiresAt is when the job and its result are removed.
	ExpiresAt string `json:"expiresAt,omitempty"`
	// Error is why the job failed.
	Error *JobError `json:"error,omitempty"`
	Owner string    `json:"-"`
}

// JobError is why a job failed.
type JobError struct {
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// Jobs issue many numbers in the background. It is safe for concurrent use. Its errors are of type
// [*seqd.Error].
type Jobs interface {
	// Create makes a job. created is false if the same request has made it before.
	Create(ctx context.Context, n NewJob) (job Job, created bool, err error)
	// List returns jobs whose IDs are greater than after, in byte order, of those that want reports.
	List(ctx context.Context, after string, limit int, want func(Job) bool) (list []Job, more bool, err error)
	// Get returns a job, or [seqd.CodeUnknownJob].
	Get(ctx context.Context, id string) (Job, error)
	// Result returns the numbers of a job that is done; with partial also those of one that has ended
	// otherwise. The result can be read until ctx ends.
	Result(ctx context.Context, id string, partial bool) (Job, io.ReadSeeker, error)
	// Remove cancels a job, or removes one that has ended, if may returns nil. It asks again if the job
	// may have changed since.
	Remove(ctx context.Context, id string, may func(Job) error) error
}
