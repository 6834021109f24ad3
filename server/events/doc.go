// Package events has a stream of events for each biz type that has any: what happened to its numbers,
// to its definition and to its jobs, in positions 1, 2, 3, … without holes.
//
//	V1 once  every event of a source is in the stream once, and those of one source are in their
//	         order: stream.publish (stream.go)
//
// A source is the document that an event tells of: a ledger, a definition or a job. It counts its
// events.
// This is the way of an event, from a confirmed number of a ledger to a reader, and what happens if
// a node is killed:
//
//  1. The write that makes it true adds an entry to the outbox of the ledger, with the number of the
//     event (State.event and State.tellIssued of package ledger). Before that write nothing
//     happened. The number and its event are in the store together, or neither is.
//  2. The node that wrote it copies the entries to a batch, which is a document of its own
//     ([persist.EventBatch]), after 0.3 s or 128 entries (Machine.keep of package ledger). If the
//     node is killed first, another node that writes the ledger copies them, or any node when they
//     are 30 s old. Two nodes may copy an event: both batches say the same.
//  3. A later write of the ledger drops the entries that were copied (State.Drop). If there is none for
//     30 s, the timer of reservations makes one (sweeper.reclaim of package gapless). If the node is
//     killed first, the entries are copied again, which changes nothing.
//  4. The leader lists the batches each second (publisher.round), and takes the stream of their biz
//     type, which is a work of package terms (publisher.one). If the leader is killed, batches wait
//     until another node leads: 2.3 to 4.3 s.
//  5. stream.publish says what comes next. Before that is written, publisher.keep keeps what it does
//     not have any more: a page that is full, and how far a source is that was silent for long. If
//     the node is killed after that, the next leader finds the same documents.
//     A batch whose predecessor a failover has lost waits for Options.Keep (publisher.late).
//  6. One write adds the events to the stream, and notes the number of the last one of each source
//     (publisher.step). If the answer is lost, the work is taken and read again. A node that is not
//     the owner any more cannot write (K4).
//  7. The batches are deleted (publisher.delete). If the node is killed first, the next leader sees
//     by the noted numbers that their events are in the stream, and only deletes them.
//  8. Every node reads the stream (Streams.Read). Who waits for events shares one look a second
//     (wait.go). Package subscriptions sends them to receivers.
//
// A definition has its last event in its document (tell in package definitions), which replaces
// steps 1 to 3: the writer copies the event, the next change copies it again, and the leader copies
// all of them once an hour (Options.Left).
//
// A stream is pages of 128 events. The open page, the last one, is in the document of the work. Others
// are documents of their own, which expire.
//
// To add a type of event, name it in package persist (event.go), in types of package subscriptions
// and in docs/EVENTS.md, and write it with the change that it tells of. In a ledger it is a kind of
// entry (State.event and Entry.eventType of package ledger). Nothing in this package names a type.
//
// stream.go decides, and does no I/O. publisher.go writes, wait.go waits for others, events.go reads,
// and list.go answers requests.
package events
