package subscriptions

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/seqd/seqd/internal/outbound"
	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/internal/version"
	"github.com/seqd/seqd/persist"
)

const (
	// mostUnanswered is how many attempts of a subscription wait for an answer at once.
	mostUnanswered = 8
	// answerPatience bounds an attempt, and mostAnswer is how much of an answer is read.
	answerPatience = 15 * time.Second
	mostAnswer     = 4 << 10
)

// start begins as many attempts as may be made now.
func (h *held) start() {
	for {
		w := h.next()
		if w == nil {
			return
		}
		h.sending.Go(func() {
			for ; w != nil; w = h.next() {
				h.attempt(w)
				<-h.slots
				h.mu.Lock()
				h.queue.sent(w)
				h.mu.Unlock()
			}
		})
	}
}

// next returns a delivery to send, with a slot for the attempt; nil if there is none.
func (h *held) next() *queued {
	if h.sends.Err() != nil {
		return nil
	}
	select {
	case h.slots <- struct{}{}:
	default:
		return nil
	}
	h.mu.Lock()
	w := h.queue.next(h.opts.Now().UnixMilli(), mostUnanswered)
	h.mu.Unlock()
	if w == nil {
		<-h.slots
	}
	return w
}

// attempt is V2, kept: it sends an event, and removes its document only if the receiver has it.
func (h *held) attempt(w *queued) {
	ctx, cancel := context.WithTimeout(h.sends, storePatience)
	defer cancel()
	doc, v, err := h.delivery(ctx, w)
	if err != nil {
		h.later(w)
		return
	}
	d, err := h.definition(ctx, h.name)
	switch {
	case doc.Revision == 0: // somebody has removed it
		h.forget(w)
		return
	case w.delivered:
		h.delivered(ctx, w, doc)
		return
	case v.Dead || !isDue(doc.Expires, h.opts.Now().UnixMilli()): // another node has sent it meanwhile
		h.due(w, doc.Expires, v.Dead)
		return
	case err != nil || d == nil || !d.Enabled || d.Made != v.Made:
		h.later(w)
		return
	}
	if sabotage.Off(sabotage.DeliveryKept) {
		_ = h.opts.Documents.Delete(ctx, doc.Kind, doc.Key, doc.Revision)
	}
	a := h.post(d, &v)
	if h.sends.Err() != nil && a.err != nil {
		return // this node has cut it off, and another one sends it
	}
	// The receiver may have it, so the store learns that also if this node may not send any more.
	ctx, cancel = context.WithTimeout(context.WithoutCancel(h.sends), storePatience)
	defer cancel()
	h.answered(ctx, w, doc, &v, a)
	if a.gone {
		h.disable(ctx, d)
	}
}

// delivery reads what is to be sent. It returns a document of revision 0 if there is none.
func (h *held) delivery(ctx context.Context, w *queued) (doc persist.Document, v delivery, err error) {
	doc, err = h.opts.Documents.Read(ctx, persist.DeliveryKind, w.key)
	if errors.Is(err, persist.ErrNotFound) {
		return persist.Document{}, v, nil
	}
	if err == nil {
		v, err = deliveryIn(doc)
	}
	return doc, v, err
}

// due notes when a delivery is due.
func (h *held) due(w *queued, at int64, dead bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w.due, w.dead = at, dead
}

// forget notes that a delivery was removed.
func (h *held) forget(w *queued) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.queue.remove(w.key)
}

// later lets a delivery wait for a moment.
func (h *held) later(w *queued) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w.due = h.opts.Now().Add(pauses[0]).UnixMilli()
}

// answered writes what came of an attempt.
func (h *held) answered(ctx context.Context, w *queued, doc persist.Document, v *delivery, a answer) {
	h.mu.Lock()
	h.queue.failing = a.err != nil
	w.delivered = a.err == nil
	h.mu.Unlock()
	if a.err == nil {
		h.counts.delivered.Add(1)
		h.delivered(ctx, w, doc)
		return
	}
	h.counts.failed.Add(1)
	due := v.failed(a, h.opts.Now(), rand.Float64(), h.opts.KeepDead)
	if v.Dead {
		h.counts.dead.Add(1)
		h.opts.Log.Warn("an event was given up", "subscription", h.name, "event", v.Event.ID, "attempts", v.Attempts, "error", v.Error)
	}
	if err := h.update(ctx, doc, v, due); err != nil { // it is read again before it is sent again
		h.later(w)
	}
}

// delivered removes the document of an event that the receiver has. If that fails, it is tried again,
// and the event is not sent again by this node.
func (h *held) delivered(ctx context.Context, w *queued, doc persist.Document) {
	err := h.opts.Documents.Delete(ctx, doc.Kind, doc.Key, doc.Revision)
	if err != nil && !errors.Is(err, persist.ErrNotFound) {
		h.later(w)
		return
	}
	h.forget(w)
}

// post posts an event. The error never has the URL in it.
func (h *held) post(d *definition, v *delivery) (a answer) {
	ctx, cancel := context.WithTimeout(h.sends, answerPatience)
	defer cancel()
	body, now, id := v.payload(), h.opts.Now(), idOf(h.name, v.Event.ID)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.URL, bytes.NewReader(body))
	if err != nil {
		return answer{err: outbound.Quiet(err)}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", version.UserAgent())
	req.Header.Set("webhook-id", id)
	req.Header.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
	req.Header.Set("webhook-signature", d.sign(id, now, body))
	resp, err := outbound.Post(h.opts.Transport, req, mostAnswer)
	if err != nil {
		return answer{err: err}
	}
	return answer{
		err: outbound.Accepted(resp), gone: resp.StatusCode == http.StatusGone,
		wait: outbound.RetryAfter(resp.Header.Get("Retry-After"), now, longestPause),
	}
}

// disable disables the subscription of a receiver that is gone.
func (h *held) disable(ctx context.Context, was *definition) {
	h.counts.gone.Add(1)
	_, err := h.change(ctx, h.name, func(d *definition) error {
		if d.Made != was.Made || d.URL != was.URL || !d.Enabled {
			return errReleased // somebody has changed it
		}
		d.Enabled, d.Reason = false, whyGone
		return nil
	})
	if err == nil {
		h.opts.Log.Warn("a subscription was disabled: the receiver answered 410 Gone", "subscription", h.name)
	}
}
