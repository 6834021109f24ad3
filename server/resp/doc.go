// Package resp serves the Redis protocol, so that every Redis client is a client of seqd: INCR
// order answers the next number. It uses the [seqd.Issuer], and no strategy, store or plugin.
//
// [Server] accepts connections. Each has one goroutine, which reads commands, answers them in order
// and reads again; while it waits for numbers it reads nothing. The files:
//
//   - server.go: listening, stopping
//   - conn.go: the life of a connection, its time-outs
//   - input.go: reads commands
//   - commands.go: which commands there are; connect.go: those that clients send when they connect
//   - take.go: requests for numbers; those of one biz type that arrive together share one take
//   - parse.go: reading IDs back
//   - trace.go: spans, and the access log
//   - reply.go, errors.go: the form of answers
//
// To add a command, add it to the table in commands.go.
//
// The package reads commands itself. A parser must know the bounds of a command before it looks at
// its arguments, and continue where it stopped if a command arrives in pieces. The parser of
// tidwall/redcon does neither: it begins again with each piece, loops over the count that a client
// announces, and panics on a length of -2. What must be checked before it may be called is almost a
// parser already. See ADR 33.
package resp
