// Package ledger decides what becomes of the numbers of one gapless counter. It has no goroutine,
// no lock and no clock, and does no I/O, except that [Command.Execute] and [Look.Do] send to a
// store what the machine asks for.
//
// In the order in which to read:
//
//   - state.go: what the document says
//   - op.go: the operations
//   - apply.go: Apply, and what it does beside: policies, numbers that come back, the outbox
//   - handout.go, settle.go: the operations that hand out numbers, and those that end or void them
//   - runs.go: numbers as runs, and where the next ones come from
//   - records.go: what has left the document, and looking for it
//   - account.go: the gaps
//   - machine.go, run.go: a machine; command.go, keep.go: what it reads, writes and copies; errors.go:
//     when it refuses everything
//   - encode.go, decode.go: the text of documents and records
//   - rules.go: the rules by name, which tests take out
//
// # One document
//
// A [State] is what the document of a counter says. Each number from First to Last is in exactly
// one state: reserved, released, void, or else issued ([State.Check]). [State.Apply] carries out an
// operation on it. The document is changed by compare-and-set on its revision and by nothing else
// (G1). So two nodes, or two machines of one node, never hand out the same number: one of them gets
// a conflict, reads the document and applies its operations again.
//
// # The outbox
//
// What the document cannot hold for ever leaves it in three steps:
//
//  1. The write that makes it true adds an [Entry] to the outbox: a reservation that ended, an answer
//     for a request that may be repeated, or numbers that became void.
//  2. A machine copies the entries that are in the store to records of their own. That can be repeated.
//  3. A later write drops the entries that were copied.
//
// At every moment an entry is in the document, in the records, or in both. Who looks for it must
// know that it left neither unseen: [State.Dropped] is the highest revision whose entries were
// dropped. A look-up that found nothing, and that began when the node knew revision r and did not
// find the entry there either, proves that there is none if Dropped is at most r. An entry that was
// added later would still be in the document. Otherwise it is looked up again ([State.Needs],
// [Looked]).
//
// # The machine
//
// A [Machine] is one counter on one node. It keeps the state, so that a write needs no read before
// it. Callers who arrive while a write is under way share the next one:
//
//	Submit ─► queue ─► Apply ─► Write ─► made ───────────────► Finished
//	            ▲                 │
//	            │ conflict        │ conflict or no answer
//	            └──── Read ◄──────┘ ──► the same revision: Write the same bytes again
//
// After a write without an answer the document is read. It holds the number of the last write of
// each machine ([State.Writers]). If it has the number of this write, the write was made. If it is
// of a later revision without it, the write never will be, and its operations are applied again. If
// the revision is still the one before, the write may come at any time: it is repeated as it was,
// so that it does not matter which of the two comes.
//
// What a caller is told depends on what others have done meanwhile. An operation that changes
// something is proven by its write. One that changes nothing, such as a refusal, is told only if
// the state was read, or written by this machine, after the request came ([RuleFresh]). That is not
// needed for what stays true whatever others write, such as the answer to a request that is
// repeated, unless a failover can lose it ([RuleKnown]).
//
// The state in memory is changed in place. After anything but a success it is thrown away and read,
// so no copy is needed.
//
// # The end of a period
//
// A request with Once may be repeated after its period ended, while its first write is still under
// way. So who looks into the ended period closes its ledger ([Op].Close): either the write comes
// before that and is found, or it conflicts and is not carried out again ([State].Closed). If the
// store's clock was ahead, this closes the present period. An operator opens it by a Raise.
//
// # Clocks
//
// Apply gets the time of the store. It decides when a reservation and a period end, and which time
// is shown. A wrong clock reclaims too early or too late. Who owns a number never depends on it.
package ledger
