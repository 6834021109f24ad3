package admin

import (
	"context"
	"encoding/json"
)

// SubscriptionRequest is what a caller wants of a subscription.
type SubscriptionRequest struct {
	URL      string
	BizTypes []string
	// Types are the types of events that are sent; nil for all.
	Types []string
	// From is now or oldest: which event of a biz type that is new in the subscription is sent first.
	From    string
	Enabled bool
	// Secret is "" to keep the secret, or to draw the first one; "new" to draw another one; or the
	// text of one.
	Secret string
}

// Subscription is a subscription as administrators see it.
type Subscription struct {
	Name     string   `json:"name"`
	URL      string   `json:"url"`
	BizTypes []string `json:"bizTypes"`
	Types    []string `json:"types,omitempty"`
	Enabled  bool     `json:"enabled"`
	// Reason is why a node has disabled it.
	Reason    string `json:"reason,omitempty"`
	Version   int64  `json:"version"`
	UpdatedAt string `json:"updatedAt"`
	// Secret is only set in the answer to the request that set it.
	Secret string `json:"secret,omitempty"`
	// State is only set by Get.
	State *SubscriptionState `json:"state,omitempty"`
}

// SubscriptionState is how far a subscription is.
type SubscriptionState struct {
	// Positions are those of the last events that are sent or pending, by biz type; 0 for none.
	Positions map[string]int64 `json:"positions"`
	// Pending are events that the receiver does not have yet, Dead those that were given up.
	Pending int `json:"pending"`
	Dead    int `json:"dead"`
	// Missed are events that were removed from their stream before they could be sent.
	Missed int64 `json:"missed"`
	// Error is why the last attempt failed of those whose events the receiver does not have yet.
	Error    string `json:"error,omitempty"`
	FailedAt string `json:"failedAt,omitempty"`
	// Node is the ID of the node that sends; "" if none does.
	Node string `json:"node,omitempty"`
}

// Delivery is an event that a receiver does not have yet.
type Delivery struct {
	// Key is the biz type and the position of the event.
	Key string `json:"key"`
	// ID is what the receiver gets as webhook-id.
	ID string `json:"id"`
	// State is pending or dead.
	State    string `json:"state"`
	Attempts int    `json:"attempts"`
	// NextAt is when it is sent again, LastAt when it was last sent, and Error why that failed.
	NextAt string `json:"nextAt,omitempty"`
	LastAt string `json:"lastAt,omitempty"`
	Error  string `json:"error,omitempty"`
	// ExpiresAt is when a dead one is removed.
	ExpiresAt string          `json:"expiresAt,omitempty"`
	Event     json.RawMessage `json:"event"`
}

// Replay says what to send again: all that is dead, or the events of a biz type from a position on.
type Replay struct {
	Dead    bool
	BizType string
	From    int64
}

// Subscriptions send events to receivers. It is safe for concurrent use. Its errors are of type
// [*seqd.Error].
type Subscriptions interface {
	// List returns subscriptions whose names are greater than after, in byte order.
	List(ctx context.Context, after string, limit int) (list []Subscription, more bool, err error)
	// Get returns a subscription and how far it is, or [seqd.CodeUnknownSubscription].
	Get(ctx context.Context, name string) (Subscription, error)
	// Put makes or replaces a subscription if may returns nil for its version, which is 0 if there is
	// none.
	Put(ctx context.Context, name string, want SubscriptionRequest, may func(version int64) error) (Subscription, error)
	// Delete removes a subscription with its deliveries, and returns its last version.
	Delete(ctx context.Context, name string, may func(version int64) error) (version int64, err error)
	// Deliveries returns deliveries whose keys are greater than after, in byte order; those of a state
	// if it is not "".
	Deliveries(ctx context.Context, name, state, after string, limit int) (list []Delivery, more bool, err error)
	// Replay sends events again.
	Replay(ctx context.Context, name string, r Replay) (Subscription, error)
}
