package seqd

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"
)

// episodeGap is how long a biz type must have no refusal with one code before the next one starts a
// new episode.
const episodeGap = time.Minute

// LogRejected returns the default rejection handler. It logs the first refusal of an episode (one
// biz type, one code) and then one line per minute with the number of refusals since the last line,
// so that a store that is down for an hour does not write a million lines. It does not log callers
// that went away, nor defects ([CodeInternal], [CodePluginPanic]): the issuer logs them with
// their causes, whatever the handler.
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

	mu       sync.Mutex // guards what follows
	episodes map[episodeKey]*episode
	most     int // if there are as many, those that are over are removed
}

// fewEpisodes is the least value of most.
const fewEpisodes = 1000

// Rejected logs or counts one refusal.
func (h *logRejected) Rejected(ctx context.Context, call *Call, err *Error) {
	if err.Code == CodeCanceled || err.Code.Defect() {
		return
	}
	if suppressed, ok := h.due(episodeKey{call.BizType, err.Code}); ok {
		h.log.WarnContext(ctx, "rejected", "bizType", call.BizType, "code", string(err.Code), "count", call.Count,
			"requestId", call.Caller.RequestID, "alsoRefused", suppressed, "error", err)
	}
}

// due reports whether to log a refusal, and how many were not logged since the last one that was.
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

// forget removes episodes that are over, if there are many. mu is held.
func (h *logRejected) forget(now time.Time) {
	if len(h.episodes) < max(h.most, fewEpisodes) {
		return
	}
	maps.DeleteFunc(h.episodes, func(_ episodeKey, e *episode) bool { return now.Sub(e.last) >= episodeGap })
	h.most = 2 * len(h.episodes)
}
