package seqd

import "time"

// Problem is one setting that is wrong.
type Problem struct {
	// Key is the name of the setting in the configuration.
	Key string
	// Text says what is wrong and what is allowed.
	Text string
}

// Validator is implemented by settings of strategies and plugins that check themselves.
type Validator interface {
	// Validate returns all problems.
	Validate() []Problem
}

// Waiter is implemented by settings of strategies and quick plugins in which a request may wait.
type Waiter interface {
	// MaxWait returns the longest such wait. The service must still be able to answer after it.
	MaxWait() time.Duration
}

// Sequencer is what keeps the order of numbers over the nodes of a shared store.
type Sequencer string

// The sequencers.
const (
	// NoSequencer is for numbers without such an order.
	NoSequencer Sequencer = ""
	// AnySequencer is the one that the counter has already. A new counter gets Redis if the node
	// has Redis, else the store.
	AnySequencer   Sequencer = "auto"
	RedisSequencer Sequencer = "redis"
	StoreSequencer Sequencer = "store"
)

// Sequenced is implemented by settings of strategies that can promise an order over all nodes.
type Sequenced interface {
	// SequencedBy returns what keeps the order if nodes share the store.
	SequencedBy() Sequencer
}

// RedisUser is implemented by settings of strategies and plugins that may need Redis.
type RedisUser interface {
	// UsesRedis returns the key of the setting that needs Redis, "" if none does.
	UsesRedis() (key string)
}

// Dated is implemented by settings of strategies whose numbers can reset, or whose biz types have a
// time zone.
type Dated interface {
	// Calendar returns when the numbers reset, and the time zone. The settings are valid when it is
	// called.
	Calendar() Calendar
}

// Bounded is implemented by settings of strategies whose numbers have known bounds.
type Bounded interface {
	// Bounds returns the smallest number that a new biz type may issue next, and the largest that
	// it may ever issue.
	Bounds() (first, last int64)
}

// Spaced is implemented by settings of strategies that can leave numbers out evenly.
type Spaced interface {
	// Spacing returns increment and offset: only numbers n with n mod increment = offset are issued.
	// increment is 1 or more, and offset from 0 to increment - 1.
	Spacing() (increment, offset int64)
}

// SpacingOf returns the spacing of a biz type: 1 and 0, which is every number, unless its settings
// are [Spaced].
func SpacingOf(b BizType) (increment, offset int64) {
	if spaced, ok := b.Settings.(Spaced); ok {
		return spaced.Spacing()
	}
	return 1, 0
}

// BoundsOf returns the bounds of a biz type: 1 to [MaxNumber] unless its settings are [Bounded].
func BoundsOf(b BizType) (first, last int64) {
	if bounded, ok := b.Settings.(Bounded); ok {
		return bounded.Bounds()
	}
	return 1, MaxNumber
}

// Decimal is implemented by settings of plugins that show every number as decimal digits and
// nothing else. Then a plugin that runs later can treat the display as a number, and return the
// same digits when it reads an ID.
type Decimal interface {
	// DisplayWidth returns how many digits the plugin shows, at least 1, with leading zeros; 0 if
	// it shows no leading zeros. The settings are valid when it is called.
	DisplayWidth() int
}
