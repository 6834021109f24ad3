package seqd

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"
)

// episodeGap is how long a biz type must not have been refused for one reason until the next
// refusal is a new episode.
const episodeGap = time.Minute

// LogRejected returns the default rejection handler. It logs the first refusal of an episode (one
// biz type, one code) and, while the episode lasts, a line a minute with the number of refusals in
// between; so a store that is down for an hour is not a million lines. A caller who went away is
// not logged, and neither is a defect ([CodeInternal], [CodePluginPanic]): the issuer logs each of
// those, with its cause, for whatever handler.
func LogRejected(log *slog.Logger) RejectedHandler {
	return &logRejected{log: log, now: time.Now, episodes: make(map[episodeKey]*episode)}
}

type episodeKey struct {
	bizType string
	code    Code
}

type episode struct {
	logged, last time.Time
	suppressed   int
}

type logRejected struct {
	log *slog.Logger
	now func() time.Time

	mu       sync.Mutex              // guards what follows
	episodes map[episodeKey]*episode // at most one per biz type and code
	// how many there may be until those that are over are forgotten
	most int
}

// fewEpisodes is how many episodes are kept whether or not they are over.
const fewEpisodes = 1000

// Rejected logs or counts one refusal.
func (h *logRejected) Rejected(ctx context.Context, call *Call, err *Error) {
	if err.Code == CodeCanceled || defect(err.Code) {
		return
	}
	if suppressed, ok := h.due(episodeKey{call.BizType, err.Code}); ok {
		h.log.WarnContext(ctx, "rejected", "bizType", call.BizType, "code", string(err.Code), "count", call.Count,
			"requestId", call.Caller.RequestID, "alsoRejected", suppressed, "error", err)
	}
}

// due reports whether a refusal is to be logged, and how many were not since the last one that was.
func (h *logRejected) due(key episodeKey) (suppressed int, ok bool) {
	now := h.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.episodes[key]
	if e == nil {
		h.forget(now)
		e = &episode{}
		h.episodes[key] = e
	}
	fresh := now.Sub(e.last) >= episodeGap
	e.last = now
	if !fresh && now.Sub(e.logged) < episodeGap {
		e.suppressed++
		return 0, false
	}
	suppressed, e.suppressed, e.logged = e.suppressed, 0, now
	return suppressed, true
}

// forget drops episodes that are over, when there are many: biz types come and go. mu is held.
func (h *logRejected) forget(now time.Time) {
	if len(h.episodes) < max(h.most, fewEpisodes) {
		return
	}
	maps.DeleteFunc(h.episodes, func(_ episodeKey, e *episode) bool { return now.Sub(e.last) >= episodeGap })
	h.most = 2 * len(h.episodes)
}
