package issuer

import "github.com/seqd/seqd"

// ask returns a strategy or plugin as one of its abilities, nil if it has not this one. of may be
// nil. Package seqd asks for those that others need too: see abilities.go there.
func ask[Ability any](of any) (a Ability) {
	a, _ = of.(Ability)
	return a
}

// issuing is what a strategy can do for calls beyond [seqd.Strategy]. Each field is the strategy,
// nil if it cannot. Nothing else is kept in an instance, because there may be very many biz types.
type issuing struct {
	some        seqd.PartialGenerator
	consecutive seqd.ConsecutiveGenerator
	ranges      seqd.Ranger
	ledger      seqd.Ledger
	parser      seqd.Parser // or the settings, which can read IDs without the strategy
}

// issuingOf returns what the strategy of a biz type can do for calls. s may be nil.
func issuingOf(s seqd.Strategy, settings any) issuing {
	can := issuing{
		ask[seqd.PartialGenerator](s), ask[seqd.ConsecutiveGenerator](s), ask[seqd.Ranger](s), ask[seqd.Ledger](s), ask[seqd.Parser](s),
	}
	if can.parser == nil {
		can.parser = ask[seqd.Parser](settings)
	}
	return can
}
