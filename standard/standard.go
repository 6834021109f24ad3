// Package standard registers every strategy and plugin that comes with seqd. A program that runs the server imports it for its side
// effects, next to packages of its own:
//
//	import (
//		_ "example.com/acme/mystrategy" // calls strategy.Register in an init function
//		_ "github.com/seqd/seqd/standard"
//	)
//
// To add a built-in one, register it in an init function of its package and import that package here.
package standard

import (
	_ "github.com/seqd/seqd/plugin/history"     // history: what was issued, to whom and when, in the store or in files
	_ "github.com/seqd/seqd/strategy/segment"   // segment: ranges of numbers from the store, double-buffered
	_ "github.com/seqd/seqd/strategy/snowflake" // snowflake: time, sequence and a leased machine ID
)
