package testenv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/rs/zerolog"
)

// Link is a TCP proxy in front of one address, with faults to switch on and off. When the upstream
// is down it accepts connections and closes them at once; only Cut refuses.
type Link struct {
	*output
	t     testing.TB
	proxy *toxiproxy.Proxy
}

// The faults; each is a toxic of toxiproxy in one direction.
const (
	faultHangUp   = "hang requests"
	faultHangDown = "hang replies"
	faultDrop     = "drop replies"
	faultLatency  = "latency"
)

// hold is a toxic that lets nothing through, neither data nor the end of a connection, and loses
// nothing: what waits passes when it is removed. (Toxiproxy's own "timeout" throws away what it
// gets and closes the connection when it is removed.)
type hold struct{}

func (*hold) Pipe(stub *toxics.ToxicStub) { <-stub.Interrupt }

// GetBufferSize is in chunks. With a buffer the toxic in front of this one stays interruptible, as
// toxiproxy needs it.
func (*hold) GetBufferSize() int { return 1024 }

func init() { toxics.Register("hold", new(hold)) }

// NewLink starts a proxy in front of an address. It ends with the test.
func NewLink(t testing.TB, upstream string) *Link {
	t.Helper()
	l := &Link{output: &output{}, t: t}
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.New(l.output))
	l.proxy = toxiproxy.NewProxy(server, "link to "+upstream, fmt.Sprintf("127.0.0.1:%d", reservePort(t)), upstream)
	// Toxiproxy closes connections without resetting them, unless it has this toxic when they are
	// opened. It must do nothing else.
	l.add("reset", "reset_peer", "upstream", 0, nil)
	l.start()
	t.Cleanup(func() { l.end(faultHangDown, faultHangUp); l.proxy.Stop() })
	showOnFailure(t, l.proxy.Name, l)
	return l
}

// Addr is the address to use instead of the upstream's.
func (l *Link) Addr() string { return l.proxy.Listen }

// Cut resets all connections and refuses new ones, until Restore.
func (l *Link) Cut() { l.proxy.Stop() }

// Switch resets all connections and leads to another address from now on; a link that is cut stays
// so.
func (l *Link) Switch(upstream string) {
	l.t.Helper()
	wasCut := !l.proxy.Enabled
	l.proxy.Stop()
	l.proxy.Upstream = upstream
	if !wasCut {
		l.start()
	}
}

// start opens the port. A process that another test is just starting may still hold the old
// listener, as it has all that was open when it was forked, until it runs its own program.
func (l *Link) start() {
	l.t.Helper()
	await(l.t, "start a link", l, func(context.Context) error {
		err := l.proxy.Start()
		if errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
		must(l.t, l, "start a link", err)
		return nil
	})
}

// Hang lets nothing through in either direction, until Resume. Connections stay, and new ones are
// accepted.
func (l *Link) Hang() {
	l.t.Helper()
	l.add(faultHangDown, "hold", "downstream", 1, nil)
	l.add(faultHangUp, "hold", "upstream", 1, nil)
}

// Resume ends Hang: what was held passes now.
func (l *Link) Resume() { l.end(faultHangDown, faultHangUp) }

// DropReplies lets requests through and throws replies away, until Restore. The connections of then
// are closed with it.
func (l *Link) DropReplies() {
	l.t.Helper()
	l.add(faultDrop, "timeout", "downstream", 1, map[string]int64{"timeout": 0})
}

// Latency makes every reply come later, until Restore or Latency(0).
func (l *Link) Latency(d time.Duration) {
	l.t.Helper()
	l.end(faultLatency)
	if d > 0 {
		l.add(faultLatency, "latency", "downstream", 1, map[string]int64{"latency": d.Milliseconds()})
	}
}

// Restore ends all faults. The address stays the same.
func (l *Link) Restore() {
	l.t.Helper()
	l.end(faultHangDown, faultHangUp, faultDrop, faultLatency)
	await(l.t, "restore a link", l, func(context.Context) error {
		// The listener that Cut closed may still hold the port for a moment.
		if err := l.proxy.Start(); !errors.Is(err, toxiproxy.ErrProxyAlreadyStarted) {
			return err
		}
		return nil
	})
}

// add switches a toxic on. Toxicity is the share of connections it works on.
func (l *Link) add(name, kind, direction string, toxicity float32, attributes map[string]int64) {
	l.t.Helper()
	text, err := json.Marshal(map[string]any{"name": name, "type": kind, "stream": direction, "toxicity": toxicity, "attributes": attributes})
	must(l.t, l, "describe a fault", err)
	_, err = l.proxy.Toxics.AddToxicJson(strings.NewReader(string(text)))
	must(l.t, l, name, err)
}

// end switches toxics off; those that are off stay so.
func (l *Link) end(names ...string) {
	for _, name := range names {
		if l.proxy.Toxics.GetToxic(name) != nil {
			// it fails only when there is none
			_ = l.proxy.Toxics.RemoveToxic(context.Background(), name)
		}
	}
}
