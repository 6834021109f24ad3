package seqd

import (
	"fmt"
	"time"
)

// Problem is one setting that is wrong.
type Problem struct {
	// Key is the name of the setting in the configuration.
	Key string
	// Text says what is wrong and what is allowed.
	Text string
}

// Problems is a list of them. It helps to write a [Validator].
type Problems []Problem

// Check adds a problem with a setting unless ok. The text is formatted as by [fmt.Sprintf].
func (p *Problems) Check(ok bool, key, format string, args ...any) {
	if !ok {
		*p = append(*p, Problem{Key: key, Text: fmt.Sprintf(format, args...)})
	}
}

// Add adds a problem with a setting unless err is nil.
func (p *Problems) Add(key string, err error) { p.Check(err == nil, key, "%v", err) }

// Validator is implemented by settings of strategies and plugins that check themselves.
type Validator interface {
	// Validate returns all problems.
	Validate() []Problem
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

// Traits is what the service, the engine and plugins know of settings whose type they do not know.
// Zero values are those of settings without traits.
type Traits struct {
	// Keyed is whether a strategy counts for each key on its own: then every call names a key,
	// otherwise none does.
	Keyed bool
	// Calendar is when the numbers of a strategy reset, and the time zone of the biz type. The zero
	// value stands for UTC and no reset.
	Calendar Calendar
	// First is the smallest number that a new biz type may issue next, and Last the largest that it
	// may ever issue; 0 if that is not known.
	First, Last int64
	// LeastGap is how many numbers a strategy skips at least above a store that may have lost some; 0
	// if it skips none.
	LeastGap int64
	// Increment and Offset are for a strategy that leaves numbers out evenly: only numbers n with
	// n mod Increment = Offset are issued. An increment of 0 stands for 1, which is every number.
	Increment, Offset int64
	// Sequencer is what keeps the order of a strategy's numbers if nodes share the store.
	Sequencer Sequencer
	// MaxWait is the longest time for which a request may wait for a strategy or a quick plugin. The
	// service must still be able to answer after it.
	MaxWait time.Duration
	// Redis is the key of the setting because of which a strategy or plugin needs Redis, "" if it
	// needs none.
	Redis string
	// Coordinator is the same for a coordinator other than the store.
	Coordinator string
	// Decimal is true if a plugin shows every number as decimal digits and nothing else. Then a
	// plugin that runs later can treat the display as a number, and returns the same digits when it
	// reads an ID. Digits is how many digits it shows, with leading zeros; 0 if it shows no leading
	// zeros.
	Decimal bool
	Digits  int
	// Outside is the file or the environment variable whose content a plugin reads when it is made, ""
	// for none, and OutsideKey is the key of the setting that names it. A dry run reads only what the
	// biz type uses already: its answer would tell what is there.
	Outside, OutsideKey string
	// KeptFor is the age at which a plugin removes its records of a biz type, also if the biz type was
	// deleted; 0 if it keeps none, or removes none.
	KeptFor time.Duration
}

// HasTraits is implemented by settings of strategies and plugins.
type HasTraits interface {
	// Traits returns the traits. It is quick, and does not panic if the settings are not valid.
	Traits() Traits
}
