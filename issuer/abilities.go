package issuer

import "github.com/seqd/seqd"

// This file alone asks strategies and plugins what they can do.

// issuing is what a strategy can do for calls beyond [seqd.Strategy]. Each field is the strategy, nil
// if it cannot.
type issuing struct {
	some        seqd.PartialGenerator
	consecutive seqd.ConsecutiveGenerator
	ranges      seqd.Ranger
	ledger      seqd.Ledger
	parser      seqd.Parser // or the settings, which can read IDs without the strategy
}

// abilities is all that a strategy can do. An instance keeps only its first part, because there may
// be very many biz types.
type abilities struct {
	issuing
	limiter  seqd.CountLimiter
	keys     seqd.KeyLister
	health   seqd.HealthReporter
	degraded seqd.DegradedReporter
	details  seqd.DetailReporter
	measurer seqd.Measurer
	idler    seqd.Idler
	learner  seqd.Learner
}

// abilitiesOf returns what the strategy of a biz type can do. s may be nil.
func abilitiesOf(s seqd.Strategy, settings any) (a abilities) {
	a.some, _ = s.(seqd.PartialGenerator)
	a.consecutive, _ = s.(seqd.ConsecutiveGenerator)
	a.ranges, _ = s.(seqd.Ranger)
	a.ledger, _ = s.(seqd.Ledger)
	a.limiter, _ = s.(seqd.CountLimiter)
	a.keys, _ = s.(seqd.KeyLister)
	if a.parser, _ = s.(seqd.Parser); a.parser == nil {
		a.parser, _ = settings.(seqd.Parser)
	}
	a.health, _ = s.(seqd.HealthReporter)
	a.degraded, _ = s.(seqd.DegradedReporter)
	a.details, _ = s.(seqd.DetailReporter)
	a.measurer, _ = s.(seqd.Measurer)
	a.idler, _ = s.(seqd.Idler)
	a.learner, _ = s.(seqd.Learner)
	return a
}

// skills is what a plugin can do beyond [seqd.Plugin]. Each field is the plugin, nil if it cannot.
type skills struct {
	rejected seqd.RejectedHandler
	reader   seqd.Reader
	resource seqd.Resource
	measurer seqd.Measurer
	idler    seqd.Idler
	closer   seqd.Closer
}

// skillsOf returns what a plugin can do.
func skillsOf(p seqd.Plugin) (s skills) {
	s.rejected, _ = p.(seqd.RejectedHandler)
	s.reader, _ = p.(seqd.Reader)
	s.resource, _ = p.(seqd.Resource)
	s.measurer, _ = p.(seqd.Measurer)
	s.idler, _ = p.(seqd.Idler)
	s.closer, _ = p.(seqd.Closer)
	return s
}
