package jobs

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/terms"
)

// Jobs of a schedule are due once on each of its days, also where clocks change.
func TestTimesOfASchedule(t *testing.T) {
	for _, test := range []struct{ every, first, want string }{
		{"day", "2027-03-27T02:30:00+01:00", "[03-27 02:30 03-28 03:30 03-29 02:30]"}, // there is no 02:30
		{"day", "2027-10-30T02:30:00+02:00", "[10-30 02:30 10-31 02:30 11-01 02:30]"}, // there are two
		{"day", "2027-10-31T02:30:00+01:00", "[10-31 02:30 11-01 02:30 11-02 02:30]"}, // this is the second
		{"week", "2027-03-24T06:00:00+01:00", "[03-24 06:00 03-31 06:00 04-07 06:00]"},
		{"month", "2027-01-31T06:00:00+01:00", "[01-31 06:00 02-28 06:00 03-31 06:00]"},
	} {
		first := must.Get(time.Parse(time.RFC3339, test.first))(t)
		j := &job{At: first.UnixMilli()}
		must.Do(t, j.repeats(test.every, "Europe/Berlin", first))
		var got []string
		var last int64
		for n := range int64(400) {
			ms := must.Get(j.time(n))(t)
			if ms <= last {
				t.Errorf("%s: number %d is not after the one before", test.first, n)
			}
			if last = ms; n < 3 {
				got = append(got, time.UnixMilli(ms).In(must.Get(time.LoadLocation("Europe/Berlin"))(t)).Format("01-02 15:04"))
			}
		}
		must.Equal(t, fmt.Sprint(got), test.want, test.every)
	}
}

// Several nodes make each job of a schedule once, also if they lose replies.
func TestSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, false)
		at := time.Now().Add(time.Hour)
		made, _, err := c.first.Create(t.Context(), admin.NewJob{BizType: "coupon", Count: 5000, Every: "day", At: at.Add(-48 * time.Hour)})
		must.Do(t, err)
		must.Equal(t, made.State+made.At, scheduled+admin.Time(at.UnixMilli()), "the schedule")
		nonce := c.jobOf(c.first, made.ID).Nonce
		c.first.kill()
		for day := range 5 {
			time.Sleep(time.Until(at.Add(time.Duration(day) * 24 * time.Hour)))
			a, b := c.node("a"), c.node("b")
			a.loses.Store(4)
			b.loses.Store(4)
			id, _ := (&job{Nonce: nonce, Times: int64(day) + 2}).makes(made.ID, time.Now())
			time.Sleep(time.Minute)
			a.loses.Store(0)
			job := c.await(a, id, done)
			must.Equal(t, job.Schedule, made.ID, "its schedule")
			must.Equal(t, job.At, admin.Time(at.Add(time.Duration(day)*24*time.Hour).UnixMilli()), "when it was due")
			must.Equal(t, len(c.numbers(a, id, false)), 5000, "numbers")
			time.Sleep(time.Minute)
			must.Equal(t, c.count(a), 2, "the schedule, and the last job: those before have expired")
			if day == 4 {
				must.Do(t, a.Remove(t.Context(), made.ID, anybody))
				must.Equal(t, c.await(a, made.ID, cancelled).EndedAt != "", true, "it has ended")
			}
			a.kill()
			b.kill()
		}
		time.Sleep(48 * time.Hour)
		last := c.node("last")
		time.Sleep(time.Minute)
		must.Equal(t, c.count(last), 0, "jobs after the end of the schedule")
	})
}

// While no node runs, times of a schedule pass: the newest one gets its job, once, also if nodes lose
// replies. The others are counted.
func TestMissedTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, false)
		const day = 24 * time.Hour
		at := time.Now().Add(time.Hour)
		made, _, err := c.first.Create(t.Context(), admin.NewJob{BizType: "coupon", Count: 10, Every: "day", At: at})
		must.Do(t, err)
		c.first.kill()
		for away := range 3 { // it ends after 10, 20 and 30 times more
			time.Sleep(10 * day)
			a, b := c.node("a"), c.node("b")
			a.loses.Store(4)
			b.loses.Store(4)
			time.Sleep(time.Minute)
			a.loses.Store(0)
			newest := int64(away)*10 + 9
			id, _ := (&job{Nonce: c.jobOf(a, made.ID).Nonce, Times: newest}).makes(made.ID, time.Now())
			job := c.await(a, id, done)
			must.Equal(t, job.At, admin.Time(at.Add(time.Duration(newest)*day).UnixMilli()), "when it was due")
			must.Equal(t, c.count(a), 2, "the schedule, and its job")
			schedule := must.Get(a.Get(t.Context(), made.ID))(t)
			must.Equal(t, schedule.Missed, int64(away+1)*9, "missed times")
			must.Equal(t, schedule.At, admin.Time(at.Add(time.Duration(newest+1)*day).UnixMilli()), "the next one")
			a.kill()
			b.kill()
		}
	})
}

// Schedules that wait for room hide no job that is due, and none whose result makes room once it
// expires.
func TestSchedulesWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, false)
		c.first.kill()
		c.most, c.resultTTL = mostDue+12, time.Minute
		n := c.node("n")
		for range mostDue + 10 {
			must.Do(t, errOf(n.Create(t.Context(), admin.NewJob{BizType: "coupon", Count: 1, Every: "month", At: time.Now().Add(time.Minute)})))
		}
		ended, _, err := n.Create(t.Context(), admin.NewJob{BizType: "coupon", Count: 1})
		must.Do(t, err)
		c.await(n, ended.ID, done)
		late, _, err := n.Create(t.Context(), admin.NewJob{BizType: "coupon", Count: 1, At: time.Now().Add(2 * time.Minute)})
		must.Do(t, err)
		time.Sleep(3 * time.Minute)
		c.await(n, late.ID, done)
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		c.mu.Lock()
		defer c.mu.Unlock()
		must.Equal(t, len(c.began) > 4, true, "jobs of schedules, of which there is room for one or two at a time")
	})
}

// A node is killed before it has noted that it made the last job for which there was room. That job
// is removed after its end, and is not made again.
func TestJobOfAScheduleIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, false)
		c.first.kill()
		c.most = 2
		n := c.node("n")
		time.Sleep(2 * terms.Life)
		made, _, err := n.Create(t.Context(), admin.NewJob{BizType: "coupon", Count: 1, Every: "month", At: time.Now().Add(time.Minute)})
		must.Do(t, err)
		schedule, _, _, err := n.read(t.Context(), made.ID)
		must.Do(t, err)
		id, one := schedule.makes(made.ID, time.Now())
		must.Do(t, c.store.Documents().Create(t.Context(), must.Get(documentOf(id, one, time.Hour))(t)))
		c.await(n, id, done)
		time.Sleep(2 * time.Minute)
		must.Do(t, n.Remove(t.Context(), id, anybody))
		must.Is(t, c.store.Documents().Create(t.Context(), must.Get(documentOf(id, one, time.Hour))(t)), persist.ErrExists)
		time.Sleep(time.Hour)
		must.Code(t, must.Err(n.Get(t.Context(), id)), seqd.CodeUnknownJob)
		must.Equal(t, c.count(n), 1, "the schedule")
	})
}

// After a restore a schedule fails, once, and makes nothing more.
func TestRestoredSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, false)
		made, _, err := c.first.Create(t.Context(), admin.NewJob{BizType: "coupon", Count: 1, Every: "day", At: time.Now().Add(time.Minute)})
		must.Do(t, err)
		c.first.kill()
		synctest.Wait()
		for _, want := range []string{"[" + made.ID + "]", "[]"} {
			must.Equal(t, fmt.Sprint(must.Get(Restored(t.Context(), c.store.Documents(), time.Now()))(t)), want)
		}
		b := c.node("b")
		time.Sleep(2 * time.Minute)
		must.Equal(t, must.Get(b.Get(t.Context(), made.ID))(t).State, failed)
		must.Equal(t, c.count(b), 1, "the schedule")
	})
}

// count returns how many jobs there are.
func (c *cluster) count(n *node) int {
	list, _, err := n.List(c.Context(), "", 100, func(admin.Job) bool { return true })
	must.Do(c, err)
	return len(list)
}

func (c *cluster) jobOf(n *node, id string) *job {
	j, _, _, err := n.read(c.Context(), id)
	must.Do(c, err)
	return j
}

func TestWrongSchedules(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for _, n := range []admin.NewJob{
		{Every: "hour"}, {TimeZone: "UTC"}, {Every: "day", TimeZone: "Europe/Nowhere"}, {Every: "day", At: now.Add(-367 * 24 * time.Hour)},
	} {
		n.BizType, n.Count, n.Format = "coupon", 1, formatText
		must.Code(t, check(n, now), seqd.CodeInvalidRequest, "%+v", n)
	}
}
