package doctor

import (
	"maps"
	"slices"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/config"
)

// mostKeysNamed is how many of the counters of keys are named for the same reason: there may be a
// million.
const mostKeysNamed = 10

// keys counts the keys of keyed biz types.
type keys struct {
	defined map[string]seqd.BizType
	// counts is how many keys each biz type has in a period, by the name of the biz type and the
	// digits of the period. Each period has its own limit.
	counts map[[2]string]int64
	few    []string // counters with few numbers left, the first ones
	more   int      // such counters that are not named
}

func newKeys(defined map[string]seqd.BizType) *keys {
	return &keys{defined: defined, counts: make(map[[2]string]int64)}
}

// add counts the counter of a key.
func (k *keys) add(bizType, digits string) { k.counts[[2]string{bizType, digits}]++ }

// left notes a counter of which few numbers are left.
func (k *keys) left(counter string, most, highest int64) {
	switch {
	case most-highest >= most/nearly:
	case len(k.few) < mostKeysNamed:
		k.few = append(k.few, counter)
	default:
		k.more++
	}
}

// report says how many keys there are of those that are allowed.
func (k *keys) report(f *findings) {
	for _, of := range slices.SortedFunc(maps.Keys(k.counts), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		name, n := of[0], k.counts[of]
		if of[1] != "" {
			name += "@" + of[1]
		}
		most, ok := config.Setting[int64](k.defined[of[0]].Settings, "maxKeys")
		switch {
		case ok && n > most-most/nearly:
			f.add(Warn, of[0]+".maxKeys", "set it higher, or look who makes up keys", "%s has %d of at most %d keys; a new key beyond that is refused", name, n, most)
		default:
			f.ok(of[0]+".maxKeys", "%s has %d keys", name, n)
		}
	}
	for _, counter := range k.few {
		f.add(Warn, counter, "plan for more digits, or for a new biz type", "less than a tenth of its numbers are left")
	}
	if k.more > 0 {
		f.add(Warn, "counters", "", "less than a tenth of the numbers are left of %d more counters of keys", k.more)
	}
}
