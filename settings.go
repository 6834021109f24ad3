package seqd

import "time"

// Problem is one setting that is wrong.
type Problem struct {
	// Key is the setting's name as it stands in the configuration.
	Key string
	// Text says what is wrong and what would be right.
	Text string
}

// Validator is what the settings of a strategy or plugin implement to check themselves.
type Validator interface {
	// Validate returns every problem, none for good settings.
	Validate() []Problem
}

// Waiter is what the settings of a strategy or of a quick plugin implement when a request may wait
// there.
type Waiter interface {
	// MaxWait is the longest such wait. The answer must still be writable after it.
	MaxWait() time.Duration
}

// Orderer is what the settings of a strategy implement when they can promise an order over all
// nodes.
type Orderer interface {
	// Strict reports whether numbers shall increase over all nodes.
	Strict() bool
}

// RedisUser is what the settings of a strategy or plugin implement that may need Redis.
type RedisUser interface {
	// UsesRedis returns the key of the setting that needs Redis, "" when none does.
	UsesRedis() (key string)
}

// Dated is what the settings of a strategy implement whose numbers begin again, or whose biz types
// lie in a time zone.
type Dated interface {
	// Calendar says when and where. The settings are valid when it is called.
	Calendar() Calendar
}

// Bounded is what the settings of a strategy implement when the numbers that it will make are known
// to lie between bounds.
type Bounded interface {
	// Bounds returns the first number that may come next on a new biz type, and the last one that
	// may ever come.
	Bounds() (first, last int64)
}

// BoundsOf returns the bounds of a biz type: 1 to [MaxNumber] unless its settings are [Bounded].
func BoundsOf(b BizType) (first, last int64) {
	if bounded, ok := b.Settings.(Bounded); ok {
		return bounded.Bounds()
	}
	return 1, MaxNumber
}

// Decimal is what the settings of a plugin implement when the plugin shows every number as decimal
// digits and nothing else: a plugin that runs after it can then take what it is given for a number,
// and give back the same digits when an ID is read.
type Decimal interface {
	// DisplayWidth is how many digits the plugin shows, at least 1, with zeros in front; 0 when it
	// shows no zeros in front. The settings are valid when it is called.
	DisplayWidth() int
}
