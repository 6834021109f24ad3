package jobs

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/literal"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/admin"
)

// A schedule is a document of a job that issues nothing: when it is due, it makes a job of its own.
// The ID of that job is derived from the schedule and from how many it has made. So several nodes
// make it once.

// scheduled is the state of a schedule that has not ended.
const scheduled = "scheduled"

// checkEvery returns what is wrong with how often a new job repeats.
func checkEvery(n admin.NewJob, now time.Time) error {
	switch {
	case n.Every == "" && n.TimeZone != "":
		return seqd.Errorf(seqd.CodeInvalidRequest, "timeZone is for jobs with every only: at has an offset of its own")
	case n.Every == "":
		return nil
	case n.Every != "day" && n.Every != "week" && n.Every != "month":
		return seqd.Errorf(seqd.CodeInvalidRequest, "every: %.40q is not day, week or month", n.Every)
	case now.Sub(n.At) > mostAhead && !n.At.IsZero():
		return seqd.Errorf(seqd.CodeInvalidRequest, "at: %s is more than a year ago", n.At.UTC().Format(admin.TimeFormat))
	}
	if _, err := literal.Zone(cmp.Or(n.TimeZone, "UTC")); err != nil {
		return seqd.Errorf(seqd.CodeInvalidRequest, "timeZone: %v", err)
	}
	return nil
}

// repeats makes a schedule of a new job. Times before now are left out.
func (j *job) repeats(every, zone string, now time.Time) (err error) {
	j.State, j.Every, j.Zone, j.First = scheduled, every, cmp.Or(zone, "UTC"), j.At
	for ; err == nil && j.At < now.UnixMilli(); j.Times++ {
		j.At, err = j.time(j.Times + 1)
	}
	return err
}

// time returns when the job number n of a schedule is due, in ms since the Unix epoch. Each has a day
// of its own, and the clock of the zone shows the same time as at the first one. If it shows that time
// twice on a day, or not at all, the job is due once nevertheless. A month without that day has it on
// its last one.
func (j *job) time(n int64) (ms int64, err error) {
	if n == 0 {
		return j.First, nil
	}
	zone, err := literal.Zone(j.Zone)
	if err != nil {
		return 0, err
	}
	t := time.UnixMilli(j.First).In(zone)
	year, month, day := t.Date()
	switch j.Every {
	case "day":
		day += int(n)
	case "week":
		day += 7 * int(n)
	default:
		month += time.Month(n)
		day = min(day, time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day())
	}
	return time.Date(year, month, day, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), zone).UnixMilli(), nil
}

// makes returns the job that a schedule makes now, and its ID. It is Named: whoever makes it again, late,
// finds what is left of it.
func (j *job) makes(id string, now time.Time) (string, *job) {
	made := &job{
		Name: j.Name, BizType: j.BizType, Key: j.Key, Count: j.Count, Format: j.Format, Owner: j.Owner, Nonce: random(6), Named: true,
		Schedule: id, At: j.At, Created: now.UnixMilli(), State: queued, Chunk: mostChunk,
	}
	return hashOf(id, j.Nonce, j.Times), made
}

// skip leaves out all times that have passed but the newest one, so that a schedule makes one job after
// it has waited for long. It returns how many these are.
func (j *job) skip(now time.Time) (missed int64, err error) {
	for ; ; missed++ {
		next, err := j.time(j.Times + 1)
		if err != nil || next > now.UnixMilli() {
			return missed, err
		}
		j.At = next
		j.Times++
		j.Missed++
	}
}

// repeat makes the job of a schedule that is due, and then says when the next one is. If the node is
// killed in between, or another one does the same, there is the same job. Without room the job waits,
// unless it is there. Times that are left out are written first, so that nodes agree on them.
func (s *Jobs) repeat(ctx context.Context, doc persist.Document, j *job, room bool) error {
	now := s.opts.Now()
	switch missed, err := j.skip(now); {
	case err != nil:
		return err
	case missed > 0:
		return s.reschedule(ctx, doc, j, now, missed)
	}
	id, made := j.makes(doc.Key, now)
	one, err := documentOf(id, made, s.opts.ResultTTL)
	if err != nil {
		return err
	}
	if room {
		err = s.opts.Documents.Create(ctx, one)
	} else if _, err = s.opts.Documents.Read(ctx, kind, id); errors.Is(err, persist.ErrNotFound) {
		return nil
	}
	if err != nil && !errors.Is(err, persist.ErrExists) {
		return err
	}
	j.Times++
	if j.At, err = j.time(j.Times); err != nil {
		return err
	}
	return s.reschedule(ctx, doc, j, now, 0)
}

// reschedule writes when the next job of a schedule is due, and looks again. missed is how many times
// are left out.
func (s *Jobs) reschedule(ctx context.Context, doc persist.Document, j *job, now time.Time, missed int64) error {
	next, err := documentOf(doc.Key, j, s.opts.ResultTTL)
	if err != nil {
		return err
	}
	next.Revision, next.Timestamp = doc.Revision+1, now.UnixMilli()
	s.look()
	switch err = persist.Put(ctx, s.opts.Documents, next); {
	case persist.Overtaken(err), errors.Is(err, persist.ErrNotFound):
		return nil
	case err == nil && missed > 0:
		s.opts.Log.Warn("a schedule waited until later times passed; it makes the job of the newest one only", "schedule", doc.Key, "bizType", j.BizType, "missed", missed)
	}
	return err
}
