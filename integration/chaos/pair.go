package chaos

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// pair is a primary and a standby of an SQL server. Nodes reach the primary by a proxy, which a
// failover moves, as operators move an address.
type pair struct {
	port    int
	lossy   bool // the standby is asynchronous
	servers [2]*storeServer
	present int   // which of them is the primary
	front   *link // leads to the primary
}

// create makes the hosts of both servers, and the proxy.
func (p *pair) create(w *world, prefix, size string) (err error) {
	for i := range p.servers {
		if p.servers[i], err = newStoreServer(w, fmt.Sprint(prefix, i+1), 31+i, size); err != nil {
			return err
		}
	}
	p.front, err = newLink(p.port, p.primary().addr(p.port))
	return err
}

func (p *pair) addr() string          { return p.front.proxy.Listen }
func (p *pair) primary() *storeServer { return p.servers[p.present] }
func (p *pair) standby() *storeServer { return p.servers[1-p.present] }

func (p *pair) server(role string) *storeServer {
	if role == primaryRole {
		return p.primary()
	}
	return p.standby()
}

func (p *pair) lag() rule { return incoming(p.standby().host, p.primary().host) }

// failover is the setting of the nodes.
func (p *pair) failover() string {
	if p.lossy {
		return "lossy"
	}
	return "lossless"
}

// swap makes the standby, which was promoted, the primary for nodes, and closes their connections.
func (p *pair) swap() error {
	p.present = 1 - p.present
	p.front.proxy.Stop()
	p.front.proxy.Upstream = p.primary().addr(p.port)
	return within(patience, p.front.proxy.Start)
}

func (s *storeServer) data() string { return filepath.Join(s.disk, "data") }

// readMaxima reads lines of a counter's name and its maximum.
func readMaxima(text string) (map[string]int64, error) {
	all := map[string]int64{}
	for line := range strings.Lines(text) {
		name, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		maximum, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("a counter %q: %w", line, err)
		}
		all[name] = maximum
	}
	return all, nil
}
