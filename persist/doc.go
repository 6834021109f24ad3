// Package persist defines what a store keeps for seqd, and the interfaces that drivers implement.
// The drivers are persist/memory, persist/bolt, persist/mongo, persist/postgres and persist/mysql.
//
// A [Store] has five parts:
//
//   - [Counters]: what ranges of numbers are allocated from;
//   - [Documents]: texts with a revision, changed by compare-and-set;
//   - [SlotStore]: who holds which machine ID, and until when;
//   - [HistoryStore]: what was issued to whom;
//   - [Clock]: the time that all who share the store have in common.
//
// Everything else is kept as documents, so drivers know nothing of it: definitions of biz types,
// tokens, the cluster's ID ([ClusterID]), the shapes of IDs ([ShapesIn]), and which periods exist
// and were removed ([PeriodKind], [PurgedKind]).
//
// Two nodes never issue the same number because [Counters].Allocate gives each number to one caller
// (invariant U1 of docs/DESIGN.md). Test "concurrent allocations never overlap" of package
// persisttest fails on a driver that does not keep this.
//
// # Adding a store
//
// CONTRIBUTING.md has all steps. This is the first one, the driver: write a package persist/NAME
// that imports this one and the client library of the store, and nothing else of this module but
// persist/sqlstore.
// Implement the parts in this order. Run package persisttest after each one, with -run
// TestConformance/Counters and so on:
//
//  1. Counters. Allocate is one atomic, durable statement. It is never repeated if its outcome is
//     unknown, not by the client library either: turn its retries off. A store that can read,
//     compute and write in one transaction uses [Counter.Allocated]. [Epochs] combines the reads of
//     many epochs into one query.
//  2. Documents. Each change names the revision that it follows. Keys are compared as bytes, not by
//     a collation. Purge needs an index on kind and expiry.
//  3. Slots. A swap compares every field that was seen, and changes everything or nothing. A store
//     that writes a registry as a whole uses [Registry.Table] and [Registry.Swapped].
//  4. History. Append ignores records that are there already.
//  5. Clock: the time of the server that takes the writes.
//
// These rules hold for every operation:
//
//   - It is safe for concurrent use, and ends when its context does. A driver that talks to a
//     server gives it a deadline of its own too.
//   - A write is durable when it returns nil, and no failover of the server takes it back.
//   - It returns the errors of this package, wrapped with what they are about. Any other failure
//     that can pass wraps [ErrUnavailable]. After it a write may have happened, or may happen
//     later.
//   - Names, keys and texts are UTF-8 and may contain any character, including NUL. Numbers are
//     0 to [MaxNumber].
//   - Each record carries [FormatVersion]. One of a newer version is refused with [ErrNewer], a
//     damaged one with [ErrInvalid], and neither is changed.
//
// A driver for a server takes a function Admit in its options and calls it before every operation:
// a node that started without its store must not use the store before it has checked that it is the
// right one. persist/memory is the shortest driver, persist/mongo is one for a server. For a
// database that speaks SQL, implement DB and Dialect of persist/sqlstore, as persist/postgres does.
package persist
