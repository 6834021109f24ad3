package cursor

import (
	"fmt"
	"log/slog"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// redisHealth is the results of calls to Redis.
type redisHealth struct {
	failing  instant // when Redis began to fail, zero while it does not
	failed   instant // when a call failed last
	failures int32   // takes and installs that failed since failing
	spoiled  bool    // the last install failed or met another cursor: the next range may be lost likewise
	// served is when the last take that brought numbers was sent, or a Check that was answered.
	served  instant
	checked instant // when the last Check began
	// unwell is what the last Check found wrong, nil if nothing or if a take brought numbers since.
	unwell *seqd.Error
}

// servedAt notes a take that brought numbers.
func (r *redisHealth) servedAt(sent instant) {
	r.failing, r.failures, r.served, r.unwell = 0, 0, sent, nil
}

// callFailed counts a call to Redis, sent at sent, that failed although looks may work.
func (m *Machine) callFailed(now, sent instant) {
	m.redis.fails(now, sent, sent)
	m.redis.failures++
}

// fails notes that a call to Redis, sent at sent, failed. Redis counts as failing since that time,
// unless it has been for longer.
func (r *redisHealth) fails(now, sent, since instant) {
	if r.failing.never() || sent.sub(r.failed) > oldFailure {
		r.failing, r.failures = since, 0
	}
	r.failed = now
}

// install puts a range into the cursor, once (invariant U2).
func (w *work) install(now instant, in *rediscursor.Install) {
	w.state, w.sent, w.wake = installing, now, 0
	in.Reserve = w.cfg.Reserve
	w.emit(Install{w.id, *in})
}

// installResult notes and reports the result of an install. A Redis that answers looks but fails
// installs counts as away all the same.
func (w *work) installResult(now instant, in *rediscursor.Install, answer rediscursor.Answer, err error) {
	r := in.Range
	if w.redis.spoiled = err != nil || answer.Verdict == rediscursor.Moved; err != nil {
		w.callFailed(now, w.sent)
		if w.mode == Mending {
			w.failure = RedisError(err)
		}
		w.abandonUnknown(in, err)
		return
	}
	w.seeCeil(answer.Ceil)
	switch {
	case answer.Verdict != rediscursor.Installed:
		err := fmt.Errorf("the cursor refused a range: %s", answer.Verdict)
		w.log(slog.LevelDebug, "range refused", "first", r.First, "last", r.Last, "verdict", answer.Verdict)
		w.event(seqd.EventFenced, r.Size(), err)
		w.drop(r, err)
		return
	case in.Mode == rediscursor.Seed:
		w.log(slog.LevelInfo, "the cursor was begun", "first", r.First, "last", r.Last)
		w.event(seqd.EventSeeded, r.Size(), nil)
	case in.Mode == rediscursor.Advance:
		w.log(slog.LevelInfo, "the cursor was moved up", "first", r.First, "last", r.Last)
		w.event(seqd.EventAdvanced, r.Size(), nil)
	}
	w.seeCeil(r.Last)
}

// abandonUnknown drops a range that may or may not be in the cursor (invariant U2,
// [RuleAbandonUnknown]).
func (m *Machine) abandonUnknown(in *rediscursor.Install, err error) {
	if m.without(RuleAbandonUnknown) {
		m.outage.standby = in.Range
		return
	}
	m.drop(in.Range, err)
}
