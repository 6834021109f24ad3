package segment

import (
	"github.com/seqd/seqd/strategy/counters"
	"github.com/seqd/seqd/strategy/segment/cursor"
)

// known is what a process knows of a counter beyond what the store says. It shows that the store
// was restored from an older copy, or that a cursor is behind. 0 is nothing.
type known struct {
	issued int64 // the highest number that this process has issued
	// the highest of those that did not come from the cursor, so that the cursor may be behind it
	alone int64
	ceil  int64 // the highest number that was in the cursor
	// the highest number of a range that a caller issues from later
	beside int64
	// whether the counter cannot be opened because the store has lost it
	refuses bool
}

// Refuses implements [counters.Known].
func (k known) Refuses() bool { return k.refuses }

// with combines what two processes know.
func (k known) with(other known) known {
	return known{issued: max(k.issued, other.issued), alone: max(k.alone, other.alone), ceil: max(k.ceil, other.ceil), beside: max(k.beside, other.beside), refuses: k.refuses}
}

// behind reports whether the cursor may be below numbers that this process has issued.
func (k known) behind() bool { return k.alone > k.ceil }

// Knows implements [counters.Kind].
func (f *family) Knows(name counters.Name, c *Counter) known {
	return c.knows().with(f.Memory.Of(name))
}

// knows returns what is known of the counter, in numbers, so that one with another increment can
// inherit it. It may be called at any time.
func (c *Counter) knows() known {
	k := c.source().knows()
	k.beside = c.besides()
	return k.convert(c.settings.ordinals().number)
}

// inherit takes over what another counter knew. It is called before the counter is used.
func (c *Counter) inherit(k known) {
	k = k.convert(c.settings.ordinals().upTo)
	c.inheritBeside(k)
	c.source().inherit(k)
}

// Knowledge implements [seqd.Learner].
func (c *Counter) Knowledge() any {
	if k := c.knows(); k != (known{}) {
		return k
	}
	return nil
}

// Learn implements [seqd.Learner].
func (c *Counter) Learn(from any) {
	if k, ok := from.(known); ok {
		c.inherit(k)
	}
}

func (s *shared) knows() known {
	var alone int64
	if local := s.local.Load(); local != nil {
		alone = local.issued()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.machine.Known(alone)
	return known{issued: k.Issued, alone: k.Alone, ceil: k.Ceil}
}

func (s *shared) inherit(k known) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.machine.Inherit(cursor.Known{Issued: k.issued, Alone: k.alone, Ceil: k.ceil})
}

// Idle implements [seqd.Idler]. A key that is closed retires its cursor, if that may be behind.
func (f *family) Idle() bool {
	idle := true
	if !f.settings.Keyed {
		f.Each(func(_ counters.Name, c *Counter) { idle = idle && c.Idle() })
	}
	return idle
}
