package generate

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/seqd/seqd/client"
	"github.com/seqd/seqd/client/admin"
	"github.com/seqd/seqd/command/clitool"
)

// newJob is the [job].Job that makes a job of the service.
const newJob = "new"

// background is one run through a job of the service: the service issues, and then the run downloads
// what the file lacks. The note beside the file has the Idempotency-Key of the job before the job is
// made, and then its ID. So a later run finds the same job, whose result is always the same text.
type background struct {
	job
	out   *output
	admin *admin.Admin
}

func (b *background) run(ctx context.Context) error {
	if b.out.lines() == b.Count {
		return nil
	}
	j, err := b.find(ctx)
	if err != nil {
		return err
	}
	if j.BizType != b.BizType || j.Count != b.Count || j.Format != "text" {
		return mistakef("the job %s issues %d numbers of %q as %s, not %d of %q as text", j.ID, j.Count, j.BizType, j.Format, b.Count, b.BizType)
	}
	if j, err = b.admin.AwaitJob(ctx, j.ID, b.Issued); err != nil {
		return err
	}
	if j.State != "done" {
		b.out.began = true // there will be no result
		why := ""
		if j.Error != nil {
			why = clitool.Escape(fmt.Sprintf(": %s: %s", string(j.Error.Code), j.Error.Detail))
		}
		return fmt.Errorf("the job %s is %s after %d of %d numbers%s; seqd jobs download --partial has these", j.ID, j.State, j.Done, j.Count, why)
	}
	b.Progress(b.out.lines())
	w := lineWriter{out: b.out, progress: b.Progress}
	if _, err = b.admin.JobResult(ctx, j.ID, b.out.length(), false, &w); err != nil {
		return err
	}
	if b.out.lines() != b.Count || len(w.rest) > 0 {
		return &client.Error{Code: client.ErrBadAnswer, Detail: fmt.Sprintf("the result of the job %s has %d lines in place of %d", j.ID, b.out.lines(), b.Count)}
	}
	return nil
}

// find returns the job of the file, and makes it if there is none.
func (b *background) find(ctx context.Context) (admin.Job, error) {
	n := &b.out.note
	if n.Job != "" {
		j, err := b.admin.Job(ctx, n.Job)
		if failed, ok := errors.AsType[*client.Error](err); ok && failed.Code == client.ErrUnknownJob {
			return j, mistakef("the job %s was removed, or its result has expired: begin again with --force, or name another file", n.Job)
		}
		return j, err
	}
	j, err := b.admin.CreateJob(ctx, admin.JobRequest{BizType: b.BizType, Count: b.Count, Once: n.Once})
	failed, refused := errors.AsType[*client.Error](err)
	if b.out.began = refused && !failed.Unknown && ctx.Err() == nil; err != nil {
		return j, err
	}
	b.Issued(j)
	n.Job = j.ID
	if b.out.file == nil {
		return j, nil
	}
	return j, b.out.explain(n.write(b.out.path))
}

// noteOf returns the note of a file that is not begun yet.
func noteOf(o *job) note {
	n := note{Format: noteFormat, BizType: o.BizType, Count: o.Count}
	switch o.Job {
	case "":
	case newJob:
		n.Once = rand.Text()
	default:
		n.Job = o.Job
	}
	return n
}

// lineWriter appends whole lines to the output.
type lineWriter struct {
	out      *output
	progress func(int64)
	rest     []byte // of a line
}

// Write implements [io.Writer].
func (w *lineWriter) Write(text []byte) (int, error) {
	last := bytes.LastIndexByte(text, '\n') + 1
	if last == 0 {
		w.rest = append(w.rest, text...)
		return len(text), nil
	}
	whole := append(w.rest, text[:last]...)
	lines := bytes.Count(whole, newline)
	if err := check(whole, lines); err != nil {
		return 0, err
	}
	if err := w.out.append(whole, lines); err != nil {
		return 0, err
	}
	w.rest = append(whole[:0], text[last:]...)
	w.progress(w.out.lines())
	return len(text), nil
}
