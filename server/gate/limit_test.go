package gate

import (
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
)

// Limits change while requests are under way: those keep what they have.
func TestLimit(t *testing.T) {
	opts := Options{MaxCount: 10, MaxInFlight: 2, MaxInFlightBytes: 1 << 20, MaxConnections: 3, Log: slog.New(slog.DiscardHandler)}
	g := New(opts)
	for range 2 {
		must.Equal(t, g.Requests.Enter(), true, "two requests have places")
	}
	loan, ok := g.Room.Borrow("order", 1<<20, Numbers) // all there is
	must.Equal(t, ok, true, "a large answer has room")
	var open []io.Closer
	for range 3 {
		open = append(open, closer{})
		g.Connections.Enter(open[len(open)-1])
	}
	now := time.Unix(1_800_000_000, 0)
	_, logged := g.AccessLog.Takes(true, false, now)
	must.Equal(t, logged || g.AccessLog.On(), false, "a request is logged")

	opts.MaxCount, opts.MaxInFlight, opts.MaxInFlightBytes, opts.MaxConnections, opts.AccessLog = 5, 1, 2<<20, 4, "refused"
	g.Limit(opts)
	must.Equal(t, g.CheckCount(5) == nil && g.CheckCount(6) != nil, true, "the largest count is 5")
	g.Requests.Leave()
	must.Equal(t, g.Requests.Enter(), false, "a request enters while another has the only place")
	must.Equal(t, g.Requests.Refusal().Detail, "1 requests are being answered already")
	g.Requests.Leave()
	must.Equal(t, g.Requests.Enter(), true, "the next one enters")
	_, ok = g.Room.Borrow("other", 10_000, Numbers)
	must.Equal(t, ok, true, "another large answer has room now")
	must.Equal(t, strings.Contains(g.Room.Refusal().Detail, "2097152"), true, "the refusal names the limit: %s", g.Room.Refusal().Detail)
	g.Connections.Enter(closer{})
	must.Equal(t, g.Connections.Open(), 4, "open connections")
	g.Connections.Enter(closer{})
	must.Equal(t, g.Connections.Open(), 4, "open connections, one of which made room")
	_, logged = g.AccessLog.Takes(true, false, now)
	must.Equal(t, logged, true, "a refused request is logged")

	opts.MaxInFlight, opts.MaxInFlightBytes, opts.MaxConnections = 0, 0, 0 // no limits
	g.Limit(opts)
	if !g.Requests.Enter() || !g.Room.unbounded() {
		t.Error("there is a limit")
	}
	g.Connections.Enter(closer{})
	must.Equal(t, g.Connections.Open(), 5, "open connections")
	loan.Settle(100, 100)
	loan.End()
}

type closer struct{}

func (closer) Close() error { return nil }
