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
	waitForOther               // a range, and somebody has claimed to bring it, usually another node
	seedIt                     // a seed: it is a stub
	settleEpoch                // an epoch that the node believes in: the store must be asked
	skipSome                   // nothing, but its first numbers must be skipped
	advanceIt                  // numbers above all that this node has issued: it must be advanced
	fillIt                     // a range
	yieldIt                    // nothing: the store itself sequences the counter
)

// remedy decides what a cursor lacks, from a look at it. patient is whether a wanted range is left
// to another node.
func (m *Machine) remedy(now instant, look *rediscursor.Taken, patient bool) remedy {
	switch {
	case m.Yields():
		return yieldIt
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

// below returns how many numbers at the beginning of the cursor must be skipped, because Start or
// what a predecessor issued on its own is above them. It returns 0 if the cursor has no higher
// numbers.
func (m *Machine) below(look *rediscursor.Taken) int64 {
	n := m.floor - look.Next + 1
	if m.highest != m.floor || look.Hand <= n {
		return 0
	}
	return max(n, 0)
}

// mustAdvance reports whether the cursor must be moved up, because a take from it could bring
// numbers that are not above all this node has issued ([RuleAdvanceFirst]; without [RuleGuard] a
// node does not compare the two). This includes a cursor that is used up, if the node has issued on
// its own since: another node could still append an older range ([RuleAheadKept]).
func (m *Machine) mustAdvance(look *rediscursor.Taken) bool {
	if m.without(RuleAdvanceFirst) || m.without(RuleGuard) && !m.outage.ahead {
		return false
	}
	return look.Next <= m.highest && (look.Next > 0 || m.outage.ahead)
}

// refuse lets every caller get reason at once. It logs a reason once.
func (m *Machine) refuse(reason *seqd.Error) {
	if known := m.refusal; known == nil || known.Code != reason.Code || known.Detail != reason.Detail {
		m.log(slog.LevelError, "no numbers", "error", reason)
	}
	m.refusal = reason
	m.emit(Wake{})
}
