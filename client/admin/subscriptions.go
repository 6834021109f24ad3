package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/seqd/seqd/client"
)

// SubscriptionRequest is what [Admin.PutSubscription] wants.
type SubscriptionRequest struct {
	// URL is where events are posted to.
	URL string `json:"url"`
	// BizTypes are those whose events are sent, and Types the types of events; nil for all.
	BizTypes []string `json:"bizTypes"`
	Types    []string `json:"types,omitempty"`
	// From is now or oldest, "" for now: where a biz type begins that is new in the subscription.
	From string `json:"from,omitempty"`
	// Disabled is true if nothing is to be sent.
	Disabled bool `json:"-"`
	// Secret is "" for the present one, or to draw the first one; new to draw another one; or one.
	Secret string `json:"secret,omitempty"`
}

// Subscription sends the events of biz types to a receiver.
type Subscription struct {
	Name     string   `json:"name"`
	URL      string   `json:"url"`
	BizTypes []string `json:"bizTypes"`
	Types    []string `json:"types,omitempty"`
	Enabled  bool     `json:"enabled"`
	// Reason is why a node has disabled it.
	Reason    string    `json:"reason,omitempty"`
	Version   int64     `json:"version"`
	UpdatedAt time.Time `json:"updatedAt"`
	// Secret is only set by the request that set it.
	Secret string `json:"secret,omitempty"`
	// State is only set by [Admin.Subscription].
	State *SubscriptionState `json:"state,omitempty"`
}

// SubscriptionState is how far a subscription is.
type SubscriptionState struct {
	// Positions are those up to which each event is sent, pending or dead, by biz type.
	Positions map[string]int64 `json:"positions"`
	// Pending events are not received yet, Dead ones were given up, and Missed ones were removed from
	// their streams before they could be sent.
	Pending int   `json:"pending"`
	Dead    int   `json:"dead"`
	Missed  int64 `json:"missed"`
	// Error is why the last attempt failed of those that are not received.
	Error    string    `json:"error,omitempty"`
	FailedAt time.Time `json:"failedAt,omitzero"`
	// Node is the ID of the node that sends.
	Node string `json:"node,omitempty"`
}

// Delivery is an event that a receiver does not have yet.
type Delivery struct {
	Key      string    `json:"key"`
	ID       string    `json:"id"`
	State    string    `json:"state"`
	Attempts int       `json:"attempts"`
	NextAt   time.Time `json:"nextAt,omitzero"`
	LastAt   time.Time `json:"lastAt,omitzero"`
	Error    string    `json:"error,omitempty"`
	// ExpiresAt is when a dead one is removed.
	ExpiresAt time.Time       `json:"expiresAt,omitzero"`
	Event     json.RawMessage `json:"event"`
}

// Replay says what to send again: all that is dead, or the events of a biz type from a position on.
type Replay struct {
	Dead    bool   `json:"dead,omitempty"`
	BizType string `json:"bizType,omitempty"`
	From    int64  `json:"from,omitempty"`
}

// Subscriptions returns a page of the subscriptions in the order of their names. next is the name to
// continue after, "" on the last page.
func (a *Admin) Subscriptions(ctx context.Context, p Page) (list []Subscription, next string, err error) {
	var page struct {
		Subscriptions []Subscription `json:"subscriptions"`
		Next          string         `json:"next"`
	}
	_, err = a.ask(ctx, client.Request{Op: "list subscriptions", Path: "/subscriptions", Query: p.query()}, &page)
	if err == nil && page.Subscriptions == nil {
		err = errNoList
	}
	return page.Subscriptions, page.Next, err
}

// Subscription returns a subscription, and how far it is.
func (a *Admin) Subscription(ctx context.Context, name string) (s Subscription, err error) {
	_, err = a.ask(ctx, client.Request{Op: "get subscription", Path: named("/subscriptions/", name)}, &s)
	return s, err
}

// PutSubscription makes or replaces a subscription.
func (a *Admin) PutSubscription(ctx context.Context, name string, want SubscriptionRequest, c Change) (s Subscription, created bool, err error) {
	body, err := json.Marshal(struct {
		SubscriptionRequest
		Enabled bool `json:"enabled"`
	}{want, !want.Disabled})
	if err != nil {
		return s, false, err
	}
	status, err := a.change(ctx, "put subscription", http.MethodPut, named("/subscriptions/", name), body, c, &s)
	return s, status == http.StatusCreated, err
}

// DeleteSubscription deletes a subscription with its deliveries.
func (a *Admin) DeleteSubscription(ctx context.Context, name string, c Change) error {
	_, err := a.change(ctx, "delete subscription", http.MethodDelete, named("/subscriptions/", name), nil, c, nil)
	return err
}

// Deliveries returns a page of what the receiver of a subscription does not have yet. state is pending,
// dead, or "" for both. next is the key to continue after, "" on the last page.
func (a *Admin) Deliveries(ctx context.Context, name, state string, p Page) (list []Delivery, next string, err error) {
	var page struct {
		Deliveries []Delivery `json:"deliveries"`
		Next       string     `json:"next"`
	}
	q := p.query()
	if state != "" {
		q.Set("state", state)
	}
	_, err = a.ask(ctx, client.Request{Op: "list deliveries", Path: named("/subscriptions/", name) + "/deliveries", Query: q}, &page)
	if err == nil && page.Deliveries == nil {
		err = errNoList
	}
	return page.Deliveries, page.Next, err
}

// Replay sends events again.
func (a *Admin) Replay(ctx context.Context, name string, r Replay) (s Subscription, err error) {
	body, err := json.Marshal(r)
	if err != nil {
		return s, err
	}
	_, err = a.change(ctx, "replay", http.MethodPost, named("/subscriptions/", name)+"/replay", body, Change{}, &s)
	return s, err
}
