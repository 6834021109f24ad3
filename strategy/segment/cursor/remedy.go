package cursor

import (
	"log/slog"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// remedy is what a cursor lacks.
type remedy uint8

const (
	useIt        remedy = iota // nothing: it has numbers above all that this node has issued
	waitForOther               // another node is bringing it
	seedIt                     // a seed
	settleEpoch                // the word of the store on which epoch counts
	skipSome                   // that some numbers are skipped, above which it has others
	advanceIt                  // to be moved up
	fillIt                     // a range
)

// remedy decides what a cursor lacks by what was seen of it. patient is whether what is wanted is
// left to another node.
func (m *Machine) remedy(now instant, look *rediscursor.Taken, patient bool) remedy {
	switch {
	case look.Stub && !m.spareFits(look, m.highest) && (patient || m.belief.awaitsSeed(now)):
		return waitForOther // if the spare range were ready, the claim would be this node's own
	case look.Stub:
		return seedIt
	case look.Other:
		return settleEpoch
	case m.below(look) > 0:
		return skipSome
	case m.mustAdvance(look):
		return advanceIt
	case look.Hand > 0:
		return useIt
	case patient && !m.under(Refill):
		return waitForOther
	}
	return fillIt
}

// below returns how many numbers a cursor begins with that are only below Start or below what a
// predecessor issued on its own, and has higher ones behind; else 0.
func (m *Machine) below(look *rediscursor.Taken) int64 {
	n := m.floor - look.Next + 1
	if look.Next > 0 && n > 0 && m.highest == m.floor && look.Hand > n {
		return n
	}
	return 0
}

// mustAdvance reports whether the cursor must be moved up, because a take from it could bring
// numbers that are not above all this node has issued ([RuleAdvanceFirst]; without [RuleGuard] a
// node does not compare the two). That includes a cursor that is used up, if the node has issued on
// its own since: another node's older range could still be appended before ([RuleAheadKept]).
func (m *Machine) mustAdvance(look *rediscursor.Taken) bool {
	if m.without(RuleAdvanceFirst) || m.without(RuleGuard) && !m.outage.ahead {
		return false
	}
	return look.Next <= m.highest && (look.Next > 0 || m.outage.ahead)
}

// refuse makes every caller get reason at once. A reason is logged once.
func (m *Machine) refuse(reason *seqd.Error) {
	if known := m.refusal; known == nil || known.Code != reason.Code || known.Detail != reason.Detail {
		m.log(slog.LevelError, "no numbers", "error", reason)
	}
	m.refusal = reason
	m.emit(Wake{})
}
