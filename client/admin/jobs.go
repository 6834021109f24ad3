package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/seqd/seqd/client"
)

// JobRequest is what [Admin.CreateJob] wants.
type JobRequest struct {
	// Name is a name for people; it may be "".
	Name    string `json:"name,omitempty"`
	BizType string `json:"bizType"`
	// Key is for a keyed biz type only.
	Key string `json:"key,omitempty"`
	// Count is how many numbers to issue, 1 to 1,000,000,000.
	Count int64 `json:"count"`
	// Format is text, csv or jsonl; "" for text.
	Format string `json:"format,omitempty"`
	// At is when the job begins at the earliest; zero for now.
	At time.Time `json:"at,omitzero"`
	// Every is day, week or month to make another job so often, when the clock of TimeZone, "" for UTC,
	// shows the same as At; "" for one job.
	Every    string `json:"every,omitempty"`
	TimeZone string `json:"timeZone,omitempty"`
	// Once is the Idempotency-Key, "" for none. With it the request may be repeated.
	Once string `json:"-"`
}

// Job issues many numbers in the background.
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
	// State is queued, running, done, failed, cancelled, or scheduled for a schedule.
	State string `json:"state"`
	// Done is how many numbers it has issued, Rate how many in a second, and SecondsLeft how long it
	// still takes; nil if that is not known.
	Done        int64     `json:"done"`
	Rate        int64     `json:"rate"`
	SecondsLeft *int64    `json:"secondsLeft,omitempty"`
	Node        string    `json:"node,omitempty"`
	At          time.Time `json:"at"`
	CreatedAt   time.Time `json:"createdAt"`
	StartedAt   time.Time `json:"startedAt,omitzero"`
	EndedAt     time.Time `json:"endedAt,omitzero"`
	// ExpiresAt is when the job and its result are removed.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	// Error is why it failed; nil if it did not.
	Error *JobError `json:"error,omitempty"`
}

// JobError is why a job failed.
type JobError struct {
	Code   client.Code `json:"code"`
	Detail string      `json:"detail"`
}

// Ended reports whether the job does not change any more.
func (j *Job) Ended() bool { return !j.EndedAt.IsZero() }

// CreateJob makes a job.
func (a *Admin) CreateJob(ctx context.Context, r JobRequest) (j Job, err error) {
	body, err := json.Marshal(r)
	if err != nil {
		return j, err
	}
	req := client.Request{Op: "create job", Method: http.MethodPost, Path: "/jobs", Header: http.Header{"Content-Type": {"application/json"}}, Body: body}
	if r.Once != "" {
		req.Header.Set("Idempotency-Key", r.Once)
	}
	_, err = a.ask(ctx, req, &j)
	return j, err
}

// Jobs returns a page of the jobs in the order of their IDs: the caller's own, or all with the scope
// read. bizType is "" for all. next is the ID to continue after, "" on the last page.
func (a *Admin) Jobs(ctx context.Context, bizType string, p Page) (list []Job, next string, err error) {
	var page struct {
		Jobs []Job  `json:"jobs"`
		Next string `json:"next"`
	}
	q := p.query()
	if bizType != "" {
		q.Set("bizType", bizType)
	}
	_, err = a.ask(ctx, client.Request{Op: "list jobs", Path: "/jobs", Query: q}, &page)
	if err == nil && page.Jobs == nil {
		err = errNoList
	}
	return page.Jobs, page.Next, err
}

// Job returns a job.
func (a *Admin) Job(ctx context.Context, id string) (j Job, err error) {
	_, err = a.ask(ctx, client.Request{Op: "get job", Path: named("/jobs/", id)}, &j)
	return j, err
}

// AwaitJob returns a job once it has ended. seen is called with the job each time that AwaitJob looks,
// at least once.
func (a *Admin) AwaitJob(ctx context.Context, id string, seen func(Job)) (Job, error) {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		j, err := a.Job(ctx, id)
		if err != nil {
			return j, err
		}
		if seen(j); j.Ended() {
			return j, nil
		}
		select {
		case <-ctx.Done():
			return j, ctx.Err()
		case <-time.After(wait):
		}
	}
}

// RemoveJob cancels a job, or removes one that has ended with its result.
func (a *Admin) RemoveJob(ctx context.Context, id string) error {
	_, err := a.ask(ctx, client.Request{Op: "remove job", Method: http.MethodDelete, Path: named("/jobs/", id)}, nil)
	return err
}

// resultPart is how much of a result one request asks for.
const resultPart = 4 << 20

// JobResult writes the result of a job to w, from a byte on, and returns how many bytes it has
// written: after an error it can go on behind these. It asks any node for each part. With partial it
// takes what a job that failed or was cancelled has issued.
func (a *Admin) JobResult(ctx context.Context, id string, from int64, partial bool, w io.Writer) (written int64, err error) {
	r := client.Request{Op: "get result", Path: named("/jobs/", id) + "/result", Header: http.Header{}}
	if partial {
		r.Query = url.Values{"partial": {"true"}}
	}
	skip := min(from, 1) // one byte more, so that there is a part if all of it is there already
	for {
		at := from + written - skip
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", at, at+resultPart-1))
		answer, err := a.client.Do(ctx, r)
		if err != nil {
			return written, err
		}
		size, whole := int64(len(answer.Body)), answer.Status == http.StatusOK && from == 0 && written == 0
		if !whole {
			_, text, _ := strings.Cut(answer.Header.Get("Content-Range"), "/")
			if size, err = strconv.ParseInt(text, 10, 64); err != nil || answer.Status != http.StatusPartialContent || len(answer.Body) == 0 {
				return written, &client.Error{Code: client.ErrBadAnswer, Status: answer.Status, Addr: answer.Addr, RequestID: answer.RequestID,
					Detail: "the answer is not the part of the result that was asked for: the job may have been removed and made again"}
			}
		}
		n, err := w.Write(answer.Body[skip:])
		written, skip = written+int64(n), 0
		if err != nil || from+written >= size {
			return written, err
		}
		r.Header.Set("If-Range", answer.Header.Get("Etag"))
	}
}
