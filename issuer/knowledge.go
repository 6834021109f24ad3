package issuer

import "github.com/seqd/seqd"

// knowledge returns what the next strategy of a biz type learns (see [seqd.Learner]). It is nil if
// there is nothing to learn.
type knowledge func() any

// knowledgeAfter returns what the strategy after i learns. earlier is what i itself could learn.
func knowledgeAfter(i *instance, earlier knowledge) knowledge {
	if i == nil {
		return earlier
	}
	if learner := ask[seqd.Learner](i.strategy); learner != nil {
		return learner.Knowledge
	}
	return earlier
}

// condense asks for the knowledge now, so that the strategy that has it can be forgotten. A strategy
// that panics is kept and asked again later.
func (k knowledge) condense() (condensed knowledge) {
	if k == nil {
		return nil
	}
	defer func() {
		if recover() != nil {
			condensed = k
		}
	}()
	known := k()
	if known == nil {
		return nil
	}
	return func() any { return known }
}

// teach lets the strategy of i learn. It returns what is left for the next one to learn, beside what
// the strategy of i knows.
func (k knowledge) teach(i *instance) (left knowledge) {
	learner := ask[seqd.Learner](i.strategy)
	if learner == nil {
		return k.condense()
	}
	if k != nil {
		if known := k(); known != nil {
			learner.Learn(known)
		}
	}
	return nil
}
