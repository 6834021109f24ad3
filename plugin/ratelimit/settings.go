package ratelimit

import (
	"math"
	"time"

	"github.com/seqd/seqd"
)

// Settings are the settings of one binding.
type Settings struct {
	// Rate is how many tokens a second a caller's bucket gets.
	Rate float64 `config:"rate" range:"above 0, at most 1,000,000,000" unit:"tokens a second"`
	// Burst is how many tokens a full bucket has: what a caller may use at once. A bucket must fill
	// within a year.
	Burst int64 `config:"burst" range:"0 to 1,000,000,000" unit:"tokens" zero:"the rate, rounded up"`
	// Scope is `local` (each node has buckets of its own) or `cluster` (all nodes share buckets in
	// Redis).
	Scope string `config:"scope" range:"local, cluster"`
	// Per is what costs a token: a `request`, or a `number` (a request costs its count).
	Per string `config:"per" range:"request, number"`
}

// Values of Scope.
const (
	Local   = "local"
	Cluster = "cluster"
)

// Values of Per.
const (
	PerRequest = "request"
	PerNumber  = "number"
)

const (
	most        = 1_000_000_000
	longestFill = 366 * 24 * time.Hour // keeps every duration far from overflow
)

// DefaultSettings returns the default settings, which have no rate yet.
func DefaultSettings() Settings { return Settings{Scope: Local, Per: PerRequest} }

var (
	_ seqd.Validator = (*Settings)(nil)
	_ seqd.HasTraits = (*Settings)(nil)
)

// Validate implements [seqd.Validator].
func (s *Settings) Validate() []seqd.Problem {
	var problems seqd.Problems
	check := problems.Check
	rated := s.Rate > 0 && s.Rate <= most
	check(rated, "rate", "%v is not above 0 and at most %d; it is in tokens per second", s.Rate, most)
	bounded := s.Burst >= 0 && s.Burst <= most
	check(bounded, "burst", "%d is outside 1 to %d", s.Burst, most)
	if rated && bounded {
		check(float64(s.size()) <= s.Rate*longestFill.Seconds(), "rate", "%v is too low: a bucket of %d would need more than a year to fill", s.Rate, s.size())
	}
	check(s.Scope == Local || s.Scope == Cluster, "scope", "%q is not one of %q", s.Scope, []string{Local, Cluster})
	check(s.Per == PerRequest || s.Per == PerNumber, "per", "%q is not one of %q", s.Per, []string{PerRequest, PerNumber})
	return problems
}

// Traits implements [seqd.HasTraits].
func (s *Settings) Traits() (t seqd.Traits) {
	if s.Scope == Cluster {
		t.Redis = "scope"
	}
	return t
}

// size returns how many tokens a full bucket has.
func (s *Settings) size() int64 {
	if s.Burst > 0 {
		return s.Burst
	}
	return int64(math.Ceil(s.Rate))
}

// cost returns what a request for count numbers costs.
func (s *Settings) cost(count int) int64 {
	if s.Per == PerNumber {
		return int64(count)
	}
	return 1
}
