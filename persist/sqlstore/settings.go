package sqlstore

import (
	"context"
	"errors"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/literal"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/driver"
)

// Settings are those that every driver has beside its connection string.
type Settings struct {
	// Timeout is the bound of every operation.
	Timeout time.Duration `config:"timeout" range:"100ms to 10s"`
	// MaxConnections is the most connections that a node opens.
	MaxConnections int `config:"maxConnections" range:"1 to 1,000"`
	// Failover is what a failover of the server can lose. `lossy`: acknowledged writes; after a
	// failover numbers continue above a gap. `lossless`: nothing, because every commit waits for
	// another server; it is refused if the server is not set up so.
	Failover string `config:"failover" range:"lossy, lossless"`
}

// The values of Failover.
const (
	Lossy    = "lossy"
	Lossless = "lossless"
)

// DefaultSettings returns the default of each.
func DefaultSettings() Settings {
	return Settings{Timeout: 2 * time.Second, MaxConnections: 8, Failover: Lossy}
}

// Check returns what is wrong with the settings. err is what is wrong with the connection string,
// whose key is given.
func (s *Settings) Check(key string, err error) []seqd.Problem {
	var problems seqd.Problems
	problems.Add(key, err)
	problems.Add("timeout", literal.Within(s.Timeout, 100*time.Millisecond, 10*time.Second))
	problems.Check(s.MaxConnections >= 1 && s.MaxConnections <= 1000, "maxConnections", "%d is outside 1 to 1000", s.MaxConnections)
	problems.Check(s.Failover == Lossy || s.Failover == Lossless, "failover", "%q is not one of %q", s.Failover, []string{Lossy, Lossless})
	return problems
}

// Options returns the options of a store with these settings. system is what OpenTelemetry calls
// the kind of server.
func (s *Settings) Options(how driver.How, system string) Options {
	o := Options{
		Timeout: how.Patience(s.Timeout), MaxConnections: s.MaxConnections, Lossless: s.Failover == Lossless, Now: how.Now,
		Unreached: how.Unreached, ReadOnly: how.ReadOnly, Beside: how.Beside, PastShut: how.PastShut, Admit: how.Admit, Trace: traced(how.Trace, system),
	}
	if how.ReadOnly {
		o.MaxConnections = 1
	}
	return o
}

// traced returns a function for [Options.Trace], nil if nothing is traced. That there is no such
// row is an answer, and no failure.
func traced(trace driver.Trace, system string) func(ctx context.Context, statement string) func(error) {
	if trace == nil {
		return nil
	}
	return func(ctx context.Context, statement string) func(error) {
		done := trace(ctx, driver.Command{System: system, Operation: statement})
		if done == nil {
			return func(error) {}
		}
		return func(err error) {
			if errors.Is(err, persist.ErrNotFound) || errors.Is(err, persist.ErrExists) {
				err = nil
			}
			done(err, "error")
		}
	}
}
