// Package gate is what every protocol asks before it issues: whether the service has started, who
// may call, how much may be under way at once. The HTTP API and the Redis protocol share one
// [Gate], so that a limit holds for both together and nothing is checked in one of them only.
//
// A protocol, for each connection and request:
//
//  1. [connections.Table]: server.maxConnections
//  2. [Gate.Allow]: the caller's token
//  3. [Places.Enter]: server.maxInFlight
//  4. [Life.Issuer]: the issuer, or why there is none
//  5. [Gate.CheckCount], and [Room.Borrow] for a large answer: server.maxInFlightBytes
package gate

import (
	"cmp"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/fewlines"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/connections"
)

// Options are the options of [New].
type Options struct {
	// MaxCount is the largest number of numbers in a request.
	MaxCount int
	// MaxInFlight is how many requests are answered at once; 0 means no limit. Further requests are
	// refused at once with [seqd.CodeOverloaded].
	MaxInFlight int
	// MaxInFlightBytes is how much memory large answers may take in total; 0 means no limit.
	// Further requests for large answers are refused as those above MaxInFlight are.
	MaxInFlightBytes int64
	// MaxConnections is how many connections may be open at once; 0 means no limit. FirstRequest is
	// how long one may be open without an answered request, until its caller is known; 0 means no
	// limit. See package connections.
	MaxConnections int
	FirstRequest   time.Duration
	// Guard decides who may call. If it is nil, everybody may.
	Guard Guard
	// AccessLog says which requests are logged: "on" all, "refused" those with a status of 400 or
	// above, "off" or "" none. Per second at most AccessLogPerSecond are logged, and as many failed
	// ones. If that is 0, there is no bound.
	AccessLog          string
	AccessLogPerSecond int
	// Log is for operators.
	Log *slog.Logger
}

// Guard decides who may call. It is safe for concurrent use.
type Guard interface {
	// Allow checks the values of a request's Authorization header. scope is what the request needs:
	// [access.ScopeIssue] for the counter, [access.ScopeRead], [access.ScopeAdmin], or "" if any
	// token will do. counter is the name of a biz type, or with a key what [seqd.CounterOf]
	// returns. It returns who calls, with an error too if the token is known.
	Allow(authorization []string, scope, counter string) (who access.Identity, err error)
	// AllowDigest is Allow for a caller whose secret has this digest.
	AllowDigest(digest *access.Digest, scope, counter string) (who access.Identity, err error)
}

var _ Guard = (*access.Tokens)(nil)

// Gate is what the protocols of a service share. It is safe for concurrent use.
type Gate struct {
	Life
	// Requests are the places of requests that are being answered.
	Requests *Places
	// Room is the memory of large answers.
	Room *Room
	// Connections are the open connections of all protocols, and Closed counts those that it
	// closed.
	Connections *connections.Table
	Closed      Closed
	// IDs are the IDs of requests.
	IDs *IDs
	// AccessLog decides which requests are logged.
	AccessLog AccessLog
	// Guard is nil if everybody may call.
	Guard Guard
	// Log is for operators.
	Log *slog.Logger
	// Failures is for lines that a caller can cause with each request.
	Failures *fewlines.Log

	maxCount atomic.Int64
}

// New returns a gate of a service that is starting.
func New(opts Options) *Gate {
	g := &Gate{
		Requests: NewPlaces(opts.MaxInFlight, "server.maxInFlight", opts.Log),
		Room:     newRoom(opts.MaxInFlightBytes, opts.Log),
		IDs:      newIDs(), Guard: opts.Guard,
		Log: opts.Log, Failures: fewlines.New(opts.Log),
	}
	g.Connections, g.Closed = newConnections(opts.MaxConnections, opts.FirstRequest, opts.Log)
	g.begin()
	g.Limit(opts)
	return g
}

// Limit sets the limits and the access log; it ignores the other options. What is under way goes on, also
// if the limits are lower now.
func (g *Gate) Limit(opts Options) {
	g.maxCount.Store(int64(opts.MaxCount))
	g.Requests.Limit(opts.MaxInFlight)
	g.Room.Limit(opts.MaxInFlightBytes)
	g.Connections.Limit(opts.MaxConnections)
	g.AccessLog.Limit(cmp.Or(opts.AccessLog, "off"), opts.AccessLogPerSecond)
}

// MaxCount is the largest number of numbers in a request.
func (g *Gate) MaxCount() int { return int(g.maxCount.Load()) }

// Allow checks the secret of a token, "" for none. It returns who calls, with an error too if the
// token is known. If everybody may call, it returns the zero Identity, and ignores the secret.
func (g *Gate) Allow(secret, scope, counter string) (who access.Identity, err error) {
	digest, _ := access.DigestOfSecret(secret) // no token has the digest of a secret that is none
	return g.AllowDigest(&digest, scope, counter)
}

// AllowDigest is Allow for a caller whose secret has this digest, the zero Digest for none.
func (g *Gate) AllowDigest(digest *access.Digest, scope, counter string) (who access.Identity, err error) {
	if g.Guard == nil {
		return who, nil
	}
	return g.Guard.AllowDigest(digest, scope, counter)
}

// CheckCount returns an error unless n numbers may be requested at once.
func (g *Gate) CheckCount(n int64) error {
	if most := g.maxCount.Load(); n < 1 || n > most {
		return seqd.Errorf(seqd.CodeInvalidCount, "count is %d and must be a whole number from 1 to %d", n, most)
	}
	return nil
}
