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
// tokens, the cluster's ID ([ClusterID]), the shapes of IDs ([ShapesIn]), which periods exist and
// were removed ([PeriodKind], [PurgedKind]), gapless counters ([LedgerKind]), and which registry of
// machine IDs in Redis counts.
//
// Two nodes never issue the same number because [Counters].Allocate gives each number to one caller
// (invariant U1 of docs/DESIGN.md). Test "concurrent allocations never overlap" of package
// persisttest fails on a driver that does not keep this.
//
// # Adding a store
//
// CONTRIBUTING.md has all steps. This is the first one, the driver: write a package persist/NAME
// that imports this one and the client library of the store, and nothing else of this module except
// persist/sqlstore. Implement the parts in this order. Run package persisttest after each one, with
// -run TestConformance/Counters and so on:
//
//  1. Counters. Allocate is one atomic, durable step. If its outcome is unknown, nothing repeats
//     it, the client library included: turn its retries off. [Counter.Allocated] is the rule: a
//     store that can read, compute and write in one transaction calls it, another one writes the
//     same rule as one statement. [Epochs] combines the reads of many epochs into one query.
//  2. Documents. Each change names the revision that it follows. Keys are compared as bytes, not by
//     a collation. Due and Purge need an index on kind and expiry. Keep inserts many in one step.
//  3. Slots. A swap compares every field that was seen, and changes everything or nothing. A store
//     that writes a registry as a whole uses [Registry.Table] and [Registry.Swapped].
//  4. History. Append ignores records that are there already.
//  5. Clock: the time of the server that takes the writes.
//
// If a failover of the server can lose what it acknowledged, the store is a [Fenced] too. Then a
// counter's record holds the fence that it was written under, Allocate compares that fence in its
// own step, and SlotTable.Source is the fence. CreateFenced and UpdateFenced compare the fence in
// the statement that writes.
//
// These rules hold for every operation:
//
//   - It is safe for concurrent use, and ends when its context does. A driver that talks to a
//     server gives it a deadline of its own too.
//   - A write is durable when it returns nil: a crash of the server does not take it back. A
//     failover does not take it back either, unless the store is a [Fenced].
//   - It returns the errors of this package, wrapped with what they are about. Any other failure
//     that can pass wraps [ErrUnavailable]. After an ErrUnavailable a write may have happened, or
//     may happen later.
//   - What it reads is not older than what was acknowledged: a server that takes no writes is
//     unavailable, and never answers [ErrNotFound].
//   - Names, keys and texts are UTF-8 and may contain any character, including NUL. Numbers are
//     0 to [MaxNumber].
//   - Each record carries [FormatVersion]. One of a newer version is refused with [ErrNewer], a
//     damaged one with [ErrInvalid], and neither is changed.
//
// A driver for a server takes a function Admit in its options and calls it before every operation:
// a node that started without its store must not use the store before it has checked that it is the
// right one.
//
// persist/memory is the shortest driver, persist/mongo is one for a server. For an SQL database
// implement DB and Dialect of persist/sqlstore, as persist/postgres does: persist/sqlstore then
// implements all parts, and only the statement of Allocate is yours.
package persist
