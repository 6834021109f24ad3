// Package resp serves the Redis protocol, so that every Redis client is a client of seqd: INCR
// order answers the next number. It uses the [issuer.Issuer], and no strategy, store or plugin.
//
// [Server] accepts connections. Each has one goroutine, which reads commands, answers them in order
// and reads again; while it waits for numbers it reads nothing. The files:
//
//   - server.go: listening, stopping
//   - conn.go: the life of a connection, its time-outs
//   - input.go: reads commands
//   - commands.go: which commands there are; connect.go: those that clients send when they connect
//   - take.go: requests for numbers; those of one biz type that arrive together share one take
//   - options.go: what follows the biz type in a command
//   - reserve.go: what becomes of reserved numbers
//   - parse.go: reading IDs back
//   - trace.go: spans, and the access log
//   - reply.go, errors.go: the form of answers
//
// 64 INCR of one biz type that arrive together become one take so: [conn.answer] reads all
// commands that have arrived; [conn.take] adds each to a [run], as long as it fits; [conn.issue]
// gives the run to [issuer.Issuer.IssueAll] once no more have arrived, another command comes or the
// run is full. That makes 64 numbers with one Generate and moves each of them to one call.
//
// # Adding a command
//
// Write a method of conn, and add it to the table in newCommands. Its name is then known to
// COMMAND, to errors and to the metric seqd_resp_commands_total. CONTRIBUTING.md has the rest.
//
//   - A command that issues numbers adds to the run (conn.take) and appends nothing. It stands
//     before the others in the table; takers is how many such commands there are. issueRun checks
//     its token, the limits, and whether the service is ready.
//   - Every other command appends its answer to c.out, or returns a [seqd.Error]. The token is
//     checked to be valid before, and the scope is not: ask conn.allow, as SEQ.PARSE does.
//     Nothing limits it and no span records it.
//
// The package reads commands itself. A parser must know the bounds of a command before it looks at
// its arguments, and continue where it stopped if a command arrives in pieces. The parser of
// tidwall/redcon does neither: it begins again with each piece, loops over the count that a client
// announces, and panics on a length of -2. What must be checked before it may be called is almost a
// parser already. See ADR 33.
package resp
