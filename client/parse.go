package client

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// Parsed is what an ID says.
type Parsed struct {
	BizType string `json:"bizType"`
	ID      string `json:"id"`
	Number  int64  `json:"number,string"`
	// Valid is false for a wrong check digit.
	Valid bool `json:"valid"`
	// Period is the day, month or year that the number belongs to: 2026-11-20, 2026-11 or 2026. It
	// is empty if the biz type does not reset.
	Period string `json:"period,omitempty"`
	// Key is the key that the ID shows or that was named, "" if there is none.
	Key string `json:"key,omitempty"`
	// At, MachineID and Sequence are what a number of snowflake contains; otherwise the zero time
	// and nil.
	At        time.Time `json:"at,omitzero"`
	MachineID *int64    `json:"machineId,omitempty"`
	Sequence  *int64    `json:"sequence,omitempty"`
}

// Parse returns what an ID says. It tells whether a text has the form of an ID of the biz type, and
// not whether the ID was issued. A text of another form is [ErrInvalidID].
//
// [Key] names the key that the ID belongs to, for a keyed biz type. Some IDs cannot be read without
// it: [ErrInvalidKey]. [IdempotencyKey] is refused: reading can be repeated anyway.
func (c *Client) Parse(ctx context.Context, bizType, id string, opts ...Option) (Parsed, error) {
	if err := checkBizType(bizType); err != nil {
		return Parsed{}, err
	}
	if id == "" {
		return Parsed{}, &Error{Code: ErrInvalidID, Detail: "the ID is empty"}
	}
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	if o.hasOnce {
		return Parsed{}, &Error{Code: ErrInvalidRequest, Detail: "reading an ID takes no idempotency key"}
	}
	var p Parsed
	r := &call{op: "parse", bizType: bizType, method: http.MethodGet, target: seqPath(bizType, "parse", id), accept: "application/json", repeat: true, limit: usualLimit}
	if o.hasKey {
		if err := checkKey(o.key); err != nil {
			return Parsed{}, err
		}
		r.target += "?key=" + o.key
	}
	r.decode = func(a *answer) error {
		if err := decodeJSON(a, &p); err != nil {
			return err
		}
		if p.BizType != bizType || p.ID != id {
			return badAnswer("the answer is for %.80q of %.80q", p.ID, p.BizType)
		}
		return nil
	}
	if err := c.do(ctx, r); err != nil {
		return Parsed{}, err
	}
	return p, nil
}

// decodeJSON reads an answer into v.
func decodeJSON(a *answer, v any) error {
	if err := checkIs(a, "application/json"); err != nil {
		return err
	}
	if err := json.Unmarshal(a.body, v); err != nil {
		return badAnswer("the answer is not the JSON that was asked for, or was cut off")
	}
	return nil
}
