package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/rs/zerolog"
)

// link is a proxy between one seqd and MongoDB, with faults that can be switched on and off.
type link struct {
	proxy *toxiproxy.Proxy
	port  int
}

// The faults of a link; each is a toxic of toxiproxy in one direction.
const (
	hangRequests = "hang requests"
	hangReplies  = "hang replies"
	dropReplies  = "drop replies"
	slowReplies  = "slow replies"
)

// hold is a toxic that holds back everything, data and the end of a connection, until it is
// removed.
type hold struct{}

func (*hold) Pipe(stub *toxics.ToxicStub) { <-stub.Interrupt }

// GetBufferSize is in chunks. With a buffer the previous toxic stays interruptible, which toxiproxy
// needs.
func (*hold) GetBufferSize() int { return 1024 }

func init() { toxics.Register("hold", new(hold)) }

// newLink starts a proxy at a port of the generator's address.
func newLink(port int, upstream string) (*link, error) {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.New(io.Discard))
	l := &link{proxy: toxiproxy.NewProxy(server, "link to "+upstream, fmt.Sprintf("%s:%d", gateway, port), upstream), port: port}
	// Toxiproxy resets connections only if they were opened with this toxic. It must do nothing
	// else.
	return l, inOrder(func() error { return l.add("reset", "reset_peer", "upstream", 0, nil) }, l.proxy.Start)
}

// cut resets all connections and refuses new ones, until restored.
func (l *link) cut() error { l.proxy.Stop(); return nil }

// hang holds back everything in both directions until it ends. Connections stay open.
func (l *link) hang() error {
	return errors.Join(l.add(hangReplies, "hold", "downstream", 1, nil), l.add(hangRequests, "hold", "upstream", 1, nil))
}

// dropReplies forwards requests and discards replies.
func (l *link) dropReplies() error {
	return l.add(dropReplies, "timeout", "downstream", 1, map[string]int64{"timeout": 0})
}

// slow delays every reply.
func (l *link) slow(by time.Duration) error {
	return l.add(slowReplies, "latency", "downstream", 1, map[string]int64{"latency": by.Milliseconds()})
}

// restore ends all faults.
func (l *link) restore() error {
	for _, name := range []string{hangReplies, hangRequests, dropReplies, slowReplies} {
		if l.proxy.Toxics.GetToxic(name) != nil {
			// fails only if the toxic is off
			_ = l.proxy.Toxics.RemoveToxic(context.Background(), name)
		}
	}
	return within(patience, func() error {
		err := l.proxy.Start() // the closed listener of cut may still hold the port
		if errors.Is(err, toxiproxy.ErrProxyAlreadyStarted) {
			return nil
		}
		if err != nil && !errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("restore a link: %w", err)
		}
		return err
	})
}

func (l *link) add(name, kind, direction string, toxicity float32, attributes map[string]int64) error {
	text, err := json.Marshal(map[string]any{"name": name, "type": kind, "stream": direction, "toxicity": toxicity, "attributes": attributes})
	if err == nil {
		_, err = l.proxy.Toxics.AddToxicJson(strings.NewReader(string(text)))
	}
	return named(name, err)
}

// within repeats f until it succeeds, or returns its last error.
func within(patience time.Duration, try func() error) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if err := try(); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
