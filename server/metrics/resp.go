package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seqd/seqd"
)

// command counts the answers to one command of the Redis protocol.
type command struct {
	name string
	ok   atomic.Int64
	// refused counts refusals by the index of their code in reasons.
	refused [len(reasons)]atomic.Int64
}

// Command returns the function that counts the answers to a command of the Redis protocol, such as
// INCR. code is "" for good answers. Call Command once for each command that the program has.
func (m *Metrics) Command(name string) (count func(code seqd.Code, n int)) {
	c := &command{name: name}
	m.mu.Lock()
	m.commands = append(m.commands, c)
	m.mu.Unlock()
	return c.count
}

func (c *command) count(code seqd.Code, n int) {
	if code == "" {
		c.ok.Add(int64(n))
		return
	}
	c.refused[code.Index()].Add(int64(n))
}

// collectCommands sends the counters of all commands that are not 0.
func (m *Metrics) collectCommands(to chan<- prometheus.Metric) {
	m.mu.Lock()
	commands := m.commands
	m.mu.Unlock()
	for _, c := range commands {
		if n := c.ok.Load(); n > 0 {
			commandsTotal.send(to, float64(n), c.name, "ok")
		}
		for i := range reasons {
			if n := c.refused[i].Load(); n > 0 {
				commandsTotal.send(to, float64(n), c.name, string(reasons[i].Code))
			}
		}
	}
}
