package load

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/seqd/seqd/internal/testing/record"
)

// Owner is a caller with a token of its own. A token that is deleted and made again under its name
// is another owner.
type Owner struct {
	Name   string
	Made   int // how often the token was made; 0 for an owner that has none
	Secret string
	id     string // of Secret
}

// String is how the record names the owner.
func (o Owner) String() string { return fmt.Sprint(o.Name, ".", o.Made) }

type ownerKey struct{}

// as returns a context whose calls are the owner's.
func as(ctx context.Context, o Owner) context.Context { return context.WithValue(ctx, ownerKey{}, o) }

// by notes who makes a call. Each owner has keys of its own.
func by(ctx context.Context, c *record.Call) {
	if o, is := ctx.Value(ownerKey{}).(Owner); is {
		if c.Caller = o.String(); c.Key != "" {
			c.Key += " of " + c.Caller
		}
	}
}

// Authorized sends tokens: those of owners, and Token for all others.
type Authorized struct {
	*http.Transport
	Token string
}

var _ http.RoundTripper = Authorized{}

// RoundTrip implements [http.RoundTripper].
func (a Authorized) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Header.Get("Authorization") == "" {
		secret := a.Token
		if o, is := req.Context().Value(ownerKey{}).(Owner); is {
			secret = o.Secret
		}
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+secret)
	}
	return a.Transport.RoundTrip(req)
}

// owned is a reservation, and who made it.
type owned struct {
	by  Owner
	got *record.Call
}

// own makes calls of two owners with the same keys, about their own reservations and those of
// others, while their secrets are replaced and their tokens deleted and made again.
func (l *Load) own(ctx context.Context, d *Dice) {
	owners := []*Owner{{Name: "shop"}, {Name: "till"}}
	var known []owned
	for ctx.Err() == nil {
		r := d.Next()
		pause := UpTo(r, 40*time.Millisecond)
		o, key := Pick(r, owners), fmt.Sprint("owned-", r.IntN(12))
		switch roll := r.IntN(100); {
		case o.Secret == "" || roll < 3:
			l.makeAnew(ctx, r, o)
		case roll < 7:
			l.rotate(ctx, r, o)
		case roll < 40:
			l.Ask(as(ctx, *o), Pick(r, l.Nodes), Question{BizType: Pick(r, []string{"order", "bulk"}), Key: key})
		case roll < 65 || len(known) == 0:
			if r.IntN(3) == 0 {
				key = ""
			}
			if c := l.Reserve(as(ctx, *o), Pick(r, l.Nodes), Question{BizType: "bill", Key: key}, "30s"); c.Status == http.StatusCreated {
				known = append(known, owned{*o, c})
			}
		default: // an owner with a new secret is the same; a stranger is refused
			v, who := Pick(r, known), *o
			if r.IntN(2) == 0 {
				for _, other := range owners {
					if other.Name == v.by.Name {
						who = *other
					}
				}
			}
			node, kind := Pick(r, l.Nodes), Pick(r, []string{record.Confirm, record.Confirm, record.Release, record.Find})
			if kind != record.Confirm || l.mayConfirm(v.got.Reservation) {
				l.Settle(as(ctx, who), node, v.got, kind)
			}
		}
		if len(known) > mostBookings {
			known = known[1:]
		}
		l.rest(ctx, pause)
	}
}

// makeAnew makes the token of an owner, after it was deleted.
func (l *Load) makeAnew(ctx context.Context, r *rand.Rand, o *Owner) {
	n := Pick(r, l.Nodes)
	if status, _ := l.manage(ctx, n, http.MethodDelete, "/tokens/"+o.Name, ""); status != http.StatusNoContent && status != http.StatusNotFound {
		return
	}
	o.Secret = "" // it may be made although no answer says so
	status, made := l.manage(ctx, n, http.MethodPost, "/tokens", `{"name":"`+o.Name+`","scopes":["issue:*"]}`)
	if status == http.StatusCreated && len(made.Secrets) == 1 {
		o.Made, o.Secret, o.id = o.Made+1, made.Secret, made.Secrets[0].ID
	}
}

// rotate gives an owner a new secret, and takes the one before back. If the token lacks that, a restore
// has brought back an earlier token of this name, which is another owner: it is made anew.
func (l *Load) rotate(ctx context.Context, r *rand.Rand, o *Owner) {
	n, secrets := Pick(r, l.Nodes), "/tokens/"+o.Name+"/secrets"
	status, added := l.manage(ctx, n, http.MethodPost, secrets, "")
	if status != http.StatusCreated {
		return
	}
	before := o.id
	if _, now := l.manage(ctx, n, http.MethodGet, secrets, ""); !now.has(before) || !now.has(added.ID) {
		o.Secret = ""
		return
	}
	o.Secret, o.id = added.Secret, added.ID
	l.manage(ctx, n, http.MethodDelete, secrets+"/"+before, "")
}

// managed is what an answer about a token says.
type managed struct {
	secret
	Secrets []secret
}

// secret has its text only in the answer of the call that made it.
type secret struct{ ID, Secret string }

// has reports whether the token has a secret.
func (m managed) has(id string) bool {
	return slices.ContainsFunc(m.Secrets, func(s secret) bool { return s.ID == id })
}

// manage makes a call about tokens.
func (l *Load) manage(ctx context.Context, n Node, method, path, body string) (status int, said managed) {
	status, _, text, err := l.sendTo(ctx, n, method, path, body, "")
	if err != nil {
		return 0, managed{}
	}
	_ = json.Unmarshal(text, &said) // answers of 204 are empty
	return status, said
}
