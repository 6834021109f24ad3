package testenv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/rs/zerolog"
)

// Link is a TCP proxy in front of one address, with faults that can be switched on and off. If the
// upstream is down it accepts connections and closes them at once. Only Cut refuses connections.
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
)

// hold is a toxic that holds back everything, data and the end of a connection, until it is
// removed. (Toxiproxy's own "timeout" discards data, and closes the connection when it is removed.)
type hold struct{}

func (*hold) Pipe(stub *toxics.ToxicStub) { <-stub.Interrupt }

// GetBufferSize is in chunks. With a buffer the previous toxic stays interruptible, which toxiproxy
// needs.
func (*hold) GetBufferSize() int { return 1024 }

func init() { toxics.Register("hold", new(hold)) }

// NewLink starts a proxy in front of an address. It ends with the test.
func NewLink(t testing.TB, upstream string) *Link {
	t.Helper()
	l := &Link{output: &output{}, t: t}
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.New(l.output))
	l.proxy = toxiproxy.NewProxy(server, "link to "+upstream, fmt.Sprintf("127.0.0.1:%d", reservePort(t)), upstream)
	// Toxiproxy resets connections only if they were opened with this toxic. It must do nothing
	// else.
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

// Switch resets all connections and changes the upstream address. A link that is cut stays cut.
func (l *Link) Switch(upstream string) {
	l.t.Helper()
	wasCut := !l.proxy.Enabled
	l.proxy.Stop()
	l.proxy.Upstream = upstream
	if !wasCut {
		l.start()
	}
}

// start opens the port. It retries, because a process that another test is starting inherits the
// old listener and holds it until its exec.
func (l *Link) start() {
	l.t.Helper()
	eventually(l.t, "start a link", func(context.Context) error {
		err := l.proxy.Start()
		if errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
		must(l.t, l, "start a link", err)
		return nil
	})
}

// Hang holds back everything in both directions until Resume. Connections stay open, and new ones
// are accepted.
func (l *Link) Hang() {
	l.t.Helper()
	l.add(faultHangDown, "hold", "downstream", 1, nil)
	l.add(faultHangUp, "hold", "upstream", 1, nil)
}

// Resume ends Hang and forwards what was held back.
func (l *Link) Resume() { l.end(faultHangDown, faultHangUp) }

// DropReplies forwards requests and discards replies until Restore, which closes the connections.
func (l *Link) DropReplies() {
	l.t.Helper()
	l.add(faultDrop, "timeout", "downstream", 1, map[string]int64{"timeout": 0})
}

// Restore ends all faults. The address stays the same.
func (l *Link) Restore() {
	l.t.Helper()
	l.end(faultHangDown, faultHangUp, faultDrop)
	eventually(l.t, "restore a link", func(context.Context) error {
		// The closed listener of Cut may still hold the port for a moment.
		if err := l.proxy.Start(); !errors.Is(err, toxiproxy.ErrProxyAlreadyStarted) {
			return err
		}
		return nil
	})
}

// add switches a toxic on. Toxicity is the share of connections that it affects.
func (l *Link) add(name, kind, direction string, toxicity float32, attributes map[string]int64) {
	l.t.Helper()
	text, err := json.Marshal(map[string]any{"name": name, "type": kind, "stream": direction, "toxicity": toxicity, "attributes": attributes})
	must(l.t, l, "describe a fault", err)
	_, err = l.proxy.Toxics.AddToxicJson(strings.NewReader(string(text)))
	must(l.t, l, name, err)
}

// end switches toxics off. It ignores those that are off.
func (l *Link) end(names ...string) {
	for _, name := range names {
		if l.proxy.Toxics.GetToxic(name) != nil {
			// fails only if the toxic is off
			_ = l.proxy.Toxics.RemoveToxic(context.Background(), name)
		}
	}
}
