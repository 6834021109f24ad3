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
	"sync"
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
	// Missed is how many times of a schedule passed for which it made no job.
	Missed int64 `json:"missed,omitempty"`
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

const (
	// resultPart is how much of a result one request asks for.
	resultPart = 4 << 20
	// resultParts is how many requests for a result are under way at a time.
	resultParts = 4
)

// JobResult writes the result of a job to w, from a byte on, and returns how many bytes it has
// written: after an error it can go on behind these. It asks any node for each part. With partial it
// takes what a job that failed or was cancelled has issued.
func (a *Admin) JobResult(ctx context.Context, id string, from int64, partial bool, w io.Writer) (written int64, err error) {
	var asked sync.WaitGroup
	defer asked.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// First it asks for one byte, which says how long the result is: the last that is there already, so
	// that there is such a byte.
	d := download{admin: a, request: client.Request{Op: "get result", Path: named("/jobs/", id) + "/result", Long: true}, at: max(from-1, 0)}
	if partial {
		d.request.Query = url.Values{"partial": {"true"}}
	}
	first := d.at
	skip := from - first
	for ahead := []<-chan part{d.ask(ctx, 1, &asked)}; len(ahead) > 0; ahead = ahead[1:] {
		p := <-ahead[0]
		if p.err != nil {
			return written, p.err
		}
		if err := d.check(p, first == 0 && d.size == 0); err != nil {
			return written, err
		}
		for len(ahead) <= resultParts && d.at < d.size {
			ahead = append(ahead, d.ask(ctx, resultPart, &asked))
		}
		n, err := w.Write(p.Body[skip:])
		written, skip = written+int64(n), 0
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// download asks for the parts of a result.
type download struct {
	admin   *Admin
	request client.Request
	at      int64 // where the next part begins
	size    int64 // of the result, 0 before the first answer
	etag    string
}

// part is an answer with a part of a result.
type part struct {
	*client.Answer
	at, end int64 // what was asked for
	err     error
}

// ask asks for the next part, of so many bytes at most.
func (d *download) ask(ctx context.Context, length int64, asked *sync.WaitGroup) <-chan part {
	r := d.request
	r.Header = http.Header{"Range": {fmt.Sprintf("bytes=%d-%d", d.at, d.at+length-1)}}
	if d.etag != "" {
		r.Header.Set("If-Range", d.etag)
	}
	got, at := make(chan part, 1), d.at
	d.at += length
	asked.Add(1)
	go func() {
		defer asked.Done()
		answer, err := d.admin.client.Do(ctx, r)
		got <- part{answer, at, at + length, err}
	}()
	return got
}

// check returns an error unless p is the part that was asked for, or may be whole and is all of the
// result. It notes the size of the result.
func (d *download) check(p part, whole bool) error {
	length := int64(len(p.Body))
	if whole && p.Status == http.StatusOK {
		d.size, d.at = length, length
		return nil
	}
	given := p.Header.Get("Content-Range")
	_, text, _ := strings.Cut(given, "/")
	size, err := strconv.ParseInt(text, 10, 64)
	end := min(p.end, size)
	if err != nil || p.Status != http.StatusPartialContent || given != fmt.Sprintf("bytes %d-%d/%d", p.at, end-1, size) || length != end-p.at {
		return &client.Error{Code: client.ErrBadAnswer, Status: p.Status, Addr: p.Addr, RequestID: p.RequestID,
			Detail: "the answer is not the part of the result that was asked for: the job may have been removed and made again"}
	}
	d.size, d.etag = size, p.Header.Get("Etag")
	return nil
}
