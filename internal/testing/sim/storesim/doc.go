// Package storesim is a database that simulated nodes share, with everything that can go wrong
// between it and them. It runs in a bubble of testing/synctest: every wait in it is durably blocking.
// It has no randomness: functions of the caller decide.
//
//   - cluster.go: the servers of the database: failover, backup and restore
//   - database.go: what one server does, as package persist/sqlstore has it done
//   - view.go: what happens between one life of a node and the database
//   - client.go, store.go: the client of a node, a persist.Store
//
// # What it stands for
//
// [Lossy] and [Lossless] stand for PostgreSQL and MySQL with one standby. A counter carries the fence
// that it was written under, and a failover changes the fence. The standby applies the writes of the
// primary in order, some writes later. Without fences ([Unfenced]) it stands for MongoDB with write
// concern majority. Operations are atomic, and one at a time.
//
// An operation leaves the node, arrives, is applied, and its answer travels back. Each way takes its
// time, or is cut. The client waits for a limited time, and an operation whose caller has left or
// was killed may still be applied, if its [Fate] says so. What is under way when a server takes over
// is not applied.
//
// # What it does not stand for
//
//   - a former primary that still takes writes, and reads of a standby;
//   - a commit that is visible although its wait for the standby was cancelled, and all else of
//     failover lossless that the operator has to set up;
//   - operations that need several statements: here each of them is one, also Keep;
//   - schemas, settings that are refused, damaged and newer records, limits of connections;
//   - servers that begin a fence of before again, and a restore on another server.
package storesim
