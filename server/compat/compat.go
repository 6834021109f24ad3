// Package compat answers as the servers of Leaf, Tinyid and CosId do, so that their clients can use
// seqd: they change the address and nothing else. [Routes] returns the routes, which package
// httpapi serves beside its own.
//
// Each of the three has a file, which begins with what its clients rely on. All of them ask the
// gate and issue through the [issuer.Issuer], as every other protocol does. CONTRIBUTING.md says
// how to add a fourth.
package compat

import (
	"encoding/json"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/literal"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/gate"
	"github.com/seqd/seqd/server/httpapi"
)

// Options are the options of [Routes].
type Options struct {
	// Leaf, Tinyid and CosID say whose clients get an answer.
	Leaf, Tinyid, CosID bool
	// LeafSnowflake is the biz type of Leaf's snowflake routes, "" for none.
	LeafSnowflake string
	// Create is true if clients of CosId create the biz types that they name.
	Create bool
	// MaxBizTypes is how many biz types there may be for them to create another.
	MaxBizTypes int
	// Token is the name of the token whose scopes the clients of Leaf and CosId have.
	Token string
	// Named checks that token. It is used if the gate has a guard.
	Named Named
	Gate  *gate.Gate
	// Now is the time that Leaf's errors show.
	Now func() time.Time
	Log *slog.Logger
}

// Named checks tokens by their names. It is safe for concurrent use.
type Named interface {
	// AllowNamed returns an error if the token of this name does not allow something.
	AllowNamed(name, scope, bizType string) error
}

var _ Named = (*access.Tokens)(nil)

// Routes returns the routes of the servers that the options name.
func Routes(opts Options) (routes []httpapi.Extra) {
	guests := guests{
		gate: opts.Gate, named: opts.Named, token: opts.Token,
		refused: gate.NewEpisodes("clients of Leaf or CosId were refused: compat.token names no token that can be used", opts.Log),
	}
	if opts.Leaf {
		routes = append(routes, leaf{guests: &guests, snowflake: opts.LeafSnowflake, now: opts.Now}.routes()...)
	}
	if opts.Tinyid {
		routes = append(routes, tinyid{opts.Gate}.routes()...)
	}
	if opts.CosID {
		routes = append(routes, cosid{guests: &guests, create: newCreations(opts)}.routes()...)
		routes = append(routes, machines{&guests}.routes()...)
	}
	return routes
}

// guests are clients that send no token.
type guests struct {
	gate    *gate.Gate
	named   Named
	token   string
	refused *gate.Episodes
}

// enter returns the issuer, if clients without a token may use a biz type.
func (g *guests) enter(v *httpapi.Visit, bizType string) (*issuer.Issuer, error) {
	if err := g.admit(v, access.ScopeIssue, bizType, bizType); err != nil {
		return nil, err
	}
	return g.gate.Issuer()
}

// admit returns an error unless clients without a token have a scope for something. bizType is what
// [httpapi.Visit.As] gets.
func (g *guests) admit(v *httpapi.Visit, scope, of, bizType string) error {
	if g.gate.Guard == nil {
		v.As(access.Identity{}, bizType)
		return nil
	}
	if err := g.named.AllowNamed(g.token, scope, of); err != nil {
		v.As(access.Identity{}, bizType) // anybody can cause the audit line
		if seqd.CodeOf(err) == seqd.CodeUnauthorized {
			g.refused.Count()
		}
		return err
	}
	v.As(access.Identity{Name: g.token}, bizType)
	return nil
}

// calls are reused, so that a request allocates little.
var calls = sync.Pool{New: func() any { return new(seqd.Call) }}

// issue issues numbers of a biz type for a request. The caller releases the call.
func issue(v *httpapi.Visit, issuer *issuer.Issuer, bizType string, count int, want seqd.Want) (*seqd.Call, error) {
	v.Counted(count)
	call := calls.Get().(*seqd.Call)
	call.BizType, call.Count, call.Want, call.Caller = bizType, count, want, v.Caller()
	if err := issuer.Issue(v.Context(), call); err != nil {
		release(call)
		return nil, err
	}
	return call, nil
}

// release makes a call free for other requests, unless it was large.
func release(call *seqd.Call) {
	if len(call.Sequence.Runs()) <= gate.Few && !call.Sequence.Shown() {
		call.Caller = seqd.Caller{}
		calls.Put(call)
	}
}

// issuePlain is issue for a biz type whose IDs are its numbers: clients cannot read others.
func issuePlain(v *httpapi.Visit, issuer *issuer.Issuer, bizType string, count int) (*seqd.Call, error) {
	if err := checkPlain(issuer, bizType); err != nil {
		return nil, err
	}
	call, err := issue(v, issuer, bizType, count, seqd.AnyNumbers)
	if err == nil && call.Sequence.Shown() { // the biz type has changed meanwhile
		release(call)
		return nil, notPlain(bizType)
	}
	return call, err
}

// checkPlain returns an error if IDs of a biz type are not its numbers, or if it issues none.
func checkPlain(issuer *issuer.Issuer, bizType string) error {
	form, err := issuer.Form(bizType)
	if err == nil && !form.Plain {
		return notPlain(bizType)
	}
	return err
}

func notPlain(bizType string) *seqd.Error {
	return seqd.Errorf(seqd.CodeInvalidRequest, "a plugin changes the IDs of %s, so they are not numbers, which clients of this route expect: use /seq/%[1]s", bizType)
}

// issueRange takes a run of count numbers, which the client issues from later; 0 means as many
// as the biz type takes from its store at a time.
func issueRange(v *httpapi.Visit, issuer *issuer.Issuer, bizType string, count int) (seqd.Run, error) {
	call, err := issue(v, issuer, bizType, count, seqd.OneRange)
	if err != nil {
		return seqd.Run{}, err
	}
	defer release(call)
	return call.Sequence.Runs()[0], nil
}

// one returns the only value of a parameter, "" if there is none. Its error does not repeat the
// value, which may be a secret.
func one(values url.Values, name string) (string, error) {
	switch list := values[name]; len(list) {
	case 0:
		return "", nil
	case 1:
		return list[0], nil
	}
	return "", seqd.Errorf(seqd.CodeInvalidRequest, "%s is given %d times", name, len(values[name]))
}

// whole returns a parameter that must be a whole number from least to most.
func whole(values url.Values, name string, least, most int64) (int64, error) {
	text, err := one(values, name)
	if err != nil {
		return 0, err
	}
	n, ok := literal.Int(text)
	if !ok || n < least || n > most {
		return 0, seqd.Errorf(seqd.CodeInvalidRequest, "%s is %.40q and must be a whole number from %d to %d", name, text, least, most)
	}
	return n, nil
}

// Content types. Do not modify them.
var (
	textType = []string{"text/plain;charset=UTF-8"}
	jsonType = []string{"application/json"}
	utf8Type = []string{"application/json;charset=UTF-8"}
)

// answerJSON writes a value, which must be encodable.
func answerJSON(v *httpapi.Visit, status int, contentType []string, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	v.Answer(status, contentType, body)
}
