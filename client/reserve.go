package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// ReserveOptions says what to reserve.
type ReserveOptions struct {
	// Count is how many numbers, 0 for one.
	Count int
	// Key is the key of a keyed biz type. It is empty for any other; see [Key].
	Key string
	// TTL is how long they are reserved, 1 s to 24 h. 0 leaves it to the biz type
	// (reservationTTL).
	TTL time.Duration
	// IdempotencyKey makes it possible to repeat the call, also after a restart of the program, and
	// get the same reservation. If it is empty, a key is drawn for this call.
	IdempotencyKey string
}

// Reservation is numbers of a gapless biz type that are handed out for a while. Confirm them when
// they were used, or release them. What is neither confirmed nor released in time goes back. Its
// methods are safe for concurrent use.
type Reservation struct {
	BizType   string    `json:"bizType"`
	ID        string    `json:"reservation"`
	IDs       []string  `json:"ids"`       // none if the reset of the biz type was changed since it was made
	ExpiresAt time.Time `json:"expiresAt"` // not before, by the clock of the service
	// State is reserved, confirmed, released or expired, as of the call that returned it.
	State string `json:"state"`

	client *Client
}

// Reserve reserves numbers of a biz type of the strategy gapless. Any other is
// [ErrInvalidRequest].
//
// Every request carries an Idempotency-Key, so that a lost answer reserves nothing twice.
func (c *Client) Reserve(ctx context.Context, bizType string, opts ReserveOptions) (*Reservation, error) {
	if err := checkBizType(bizType); err != nil {
		return nil, err
	}
	if opts.Count == 0 {
		opts.Count = 1
	}
	if opts.IdempotencyKey == "" {
		opts.IdempotencyKey = NewIdempotencyKey()
	}
	switch {
	case opts.Count < 0:
		return nil, &Error{Code: ErrInvalidCount, Detail: fmt.Sprintf("the number of IDs is %d and must be at least 1", opts.Count)}
	case opts.TTL < 0:
		return nil, &Error{Code: ErrInvalidTTL, Detail: fmt.Sprintf("the TTL is %s and must be 1s to 24h", opts.TTL)}
	case !validOnce(opts.IdempotencyKey):
		return nil, errInvalidOnce()
	}
	query := url.Values{"count": {strconv.Itoa(opts.Count)}}
	if opts.TTL > 0 {
		query.Set("ttl", opts.TTL.String())
	}
	if opts.Key != "" {
		if err := checkKey(opts.Key); err != nil {
			return nil, err
		}
		query.Set("key", opts.Key)
	}
	return c.reservation(ctx, &call{
		op: "reserve", bizType: bizType, count: opts.Count, method: http.MethodPost, once: opts.IdempotencyKey, limit: largestAnswer(opts.Count),
		target: seqPath(bizType, "reservations") + "?" + query.Encode(),
	}, "")
}

// Reservation returns a reservation by its ID, for instance after a restart of the program.
func (c *Client) Reservation(ctx context.Context, bizType, id string) (*Reservation, error) {
	if err := checkReservation(bizType, id); err != nil {
		return nil, err
	}
	return c.reservation(ctx, &call{op: "reservation", bizType: bizType, method: http.MethodGet, target: seqPath(bizType, "reservations", id), limit: usualLimit}, id)
}

// Confirm makes the numbers issued. After an error that is neither of [ErrReservationExpired],
// [ErrReservationReleased] and [ErrUnknownReservation], call it again: confirming twice is the same
// as once.
func (r *Reservation) Confirm(ctx context.Context) error {
	_, err := r.client.Confirm(ctx, r.BizType, r.ID)
	return err
}

// Release gives the numbers back. Releasing twice is the same as once. Numbers that were confirmed
// are [ErrReservationConfirmed]. Never call Confirm afterwards, also after an error: if an older copy of
// the store has been restored meanwhile, the service cannot know that the numbers may be somebody else's.
func (r *Reservation) Release(ctx context.Context) error {
	return r.client.Release(ctx, r.BizType, r.ID)
}

// Confirm is [Reservation.Confirm] for a reservation of which a program kept the ID only, such as in
// an outbox.
func (c *Client) Confirm(ctx context.Context, bizType, id string) (*Reservation, error) {
	if err := checkReservation(bizType, id); err != nil {
		return nil, err
	}
	return c.reservation(ctx, &call{op: "confirm", bizType: bizType, method: http.MethodPost, target: seqPath(bizType, "reservations", id, "confirm"), limit: usualLimit}, id)
}

// Release is [Reservation.Release] for a reservation of which a program kept the ID only.
func (c *Client) Release(ctx context.Context, bizType, id string) error {
	if err := checkReservation(bizType, id); err != nil {
		return err
	}
	return c.do(ctx, &call{
		op: "release", bizType: bizType, method: http.MethodDelete, target: seqPath(bizType, "reservations", id), repeat: true, limit: usualLimit,
		decode: func(a *answer) error {
			if a.status != http.StatusNoContent {
				return badAnswer("the answer is %s, not 204", statusText(a.status))
			}
			return nil
		},
	})
}

// reservation sends a call that is answered by a reservation: the one with this ID, unless it is
// empty.
func (c *Client) reservation(ctx context.Context, r *call, id string) (*Reservation, error) {
	var got Reservation
	r.repeat, r.accept = true, "application/json"
	r.decode = func(a *answer) error {
		got = Reservation{State: "reserved", client: c}
		if err := decodeJSON(a, &got); err != nil {
			return err
		}
		if err := got.check(r, id); err != nil {
			return err
		}
		return nil
	}
	if err := c.do(ctx, r); err != nil {
		return nil, err
	}
	return &got, nil
}

// check refuses an answer that is not the reservation that was asked for.
func (r *Reservation) check(c *call, id string) error {
	switch {
	case r.BizType != c.bizType:
		return badAnswer("the answer is for another biz type: %.80q", r.BizType)
	case r.ID == "" || id != "" && r.ID != id:
		return badAnswer("the answer is for another reservation: %.80q", r.ID)
	case len(r.IDs) == 0 && c.count == 0:
		return nil
	case c.count > 0 && len(r.IDs) != c.count:
		return badAnswer("the answer has %d IDs, and %d were asked for", len(r.IDs), c.count)
	}
	s := scratches.Get().(*scratch)
	defer s.release()
	return s.check(s.join(r.IDs), len(r.IDs))
}

func checkReservation(bizType, id string) error {
	if err := checkBizType(bizType); err != nil {
		return err
	}
	if id == "" {
		return &Error{Code: ErrUnknownReservation, Detail: "the ID of the reservation is empty"}
	}
	return nil
}
