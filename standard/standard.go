// Package standard registers every store, strategy, plugin and rejection handler that comes with
// seqd. A program imports it for its side effects, beside packages of its own:
//
//	import (
//		_ "example.com/acme/mystrategy" // calls strategy.Register in an init function
//		_ "github.com/seqd/seqd/standard"
//	)
//
// To add one, register it in an init function of its package and import that package here.
package standard

import (
	_ "github.com/seqd/seqd/persist/bolt"     // bolt: one file, for one process
	_ "github.com/seqd/seqd/persist/memory"   // memory: kept as long as the process lives
	_ "github.com/seqd/seqd/persist/mongo"    // mongo: a MongoDB database that nodes share
	_ "github.com/seqd/seqd/persist/mysql"    // mysql: a MySQL or MariaDB database that nodes share
	_ "github.com/seqd/seqd/persist/postgres" // postgres: a PostgreSQL database that nodes share

	// format: IDs by a template, with dates and check digits
	_ "github.com/seqd/seqd/plugin/format"
	// history: records what was issued, to whom and when, in the store or in files
	_ "github.com/seqd/seqd/plugin/history"
	_ "github.com/seqd/seqd/plugin/obfuscate" // obfuscate: a keyed permutation of the number
	_ "github.com/seqd/seqd/plugin/ratelimit" // rate-limit: a token bucket per caller
	// stats: totals and rates of a biz type, and a route that shows them
	_ "github.com/seqd/seqd/plugin/stats"
	_ "github.com/seqd/seqd/plugin/webhook" // webhook: posts refusals to a URL

	// gapless: every number accounted for: issued, reserved, released or void
	_ "github.com/seqd/seqd/strategy/gapless"
	// segment: ranges of numbers from the store, double-buffered
	_ "github.com/seqd/seqd/strategy/segment"
	_ "github.com/seqd/seqd/strategy/snowflake" // snowflake: time, sequence and a leased machine ID
)
