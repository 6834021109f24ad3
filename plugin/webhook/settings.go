package webhook

import (
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/outbound"
)

// Settings are the settings of one binding.
type Settings struct {
	// URL is where to post, http or https. It may contain a token and is never logged.
	URL string `config:"url" secret:"true"`
	// Timeout is the bound of each POST.
	Timeout time.Duration `config:"timeout" range:"100ms to 1m"`
	// Queue is how many refusals may wait. Further ones are dropped and counted.
	Queue int `config:"queue" range:"1 to 100,000" unit:"refusals"`
	// Batch is the largest number of refusals in one POST.
	Batch int `config:"batch" range:"1 to 10,000" unit:"refusals"`
	// Retries is how often a POST that failed for a temporary reason is repeated.
	Retries int `config:"retries" range:"0 to 10" zero:"never"`
	// Secret is the key of the signature. Empty signs nothing.
	Secret string `config:"secret" secret:"true"`
}

// DefaultSettings returns the default settings, which have no URL yet.
func DefaultSettings() Settings {
	return Settings{Timeout: 5 * time.Second, Queue: 1000, Batch: 100, Retries: 3}
}

var _ seqd.Validator = (*Settings)(nil)

// Validate implements [seqd.Validator]. Its problems contain neither the URL nor the secret.
func (s *Settings) Validate() []seqd.Problem {
	var problems seqd.Problems
	check := problems.Check
	check(s.URL != "", "url", "it must be set")
	_, err := outbound.ParseURL(s.URL)
	check(s.URL == "" || err == nil, "url", "%v; it is not shown, as it may hold a secret", err)
	check(s.Timeout >= 100*time.Millisecond && s.Timeout <= time.Minute, "timeout", "%s is outside 100ms to 1m", s.Timeout)
	check(s.Queue >= 1 && s.Queue <= 100_000, "queue", "%d is outside 1 to 100000", s.Queue)
	check(s.Batch >= 1 && s.Batch <= 10_000, "batch", "%d is outside 1 to 10000", s.Batch)
	check(s.Retries >= 0 && s.Retries <= 10, "retries", "%d is outside 0 to 10", s.Retries)
	return problems
}
