package sim

import (
	"math/rand/v2"
	"net/http"

	"github.com/seqd/seqd/internal/testing/load"
	"github.com/seqd/seqd/internal/testing/record"
)

// variant is what differs between worlds, besides their faults.
type variant struct {
	target  string // targetDuration of all segments
	live    string // liveBizTypes of the node that drops them
	idle    string // bizTypeIdle; "" for the default
	inStore bool   // most biz types are in no configuration: an operator creates them
}

// fewBits is the width of machine IDs: one more than there are nodes.
const fewBits = 2

// newVariant draws the variant of a world.
func newVariant(seed uint64) variant {
	r := rand.New(rand.NewPCG(seed, 1))
	return variant{
		target: load.Pick(r, []string{"10s", "10s", "1s", "30m"}), live: load.Pick(r, []string{"6", "6", "1", "2"}),
		idle: load.Pick(r, []string{"", "1s", "3s"}), inStore: r.IntN(3) == 0,
	}
}

// vary adapts a biz type.
func (v variant) vary(s *load.Shape) {
	switch s.Strategy {
	case record.Segment:
		s.Setting["targetDuration"] = v.target
	case record.Gapless:
		s.Setting["events"] = true
	case record.Snowflake: // few machine IDs: nodes take over those of others
		s.BitsMachine, s.Setting["bitsMachine"] = fewBits, fewBits
	}
}

// defineAll creates all biz types that are in no configuration.
func (w *World) defineAll() {
	for _, s := range w.load.Shapes {
		if !s.Late {
			w.insist(new(fault), s.Name, http.MethodPut, "", w.load.Definition(s.Name, nil))
		}
	}
}
