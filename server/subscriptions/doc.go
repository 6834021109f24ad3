// Package subscriptions sends the events of streams to receivers, by HTTP.
//
// A subscription is two documents: what requests change, which is its definition, and a work of
// package terms, whose state has a position in each stream. An event that is sent is a third kind of
// document, a delivery, until the receiver has it.
//
//	V2 kept    a delivery is written before the position (held.makeDeliveries), and removed only
//	           after a 2xx, or a time after it was given up (held.attempt, held.expire). So each
//	           event is sent at least once, whatever node is killed
//	V3 sender  one node sends for a subscription: the one that owns the work (Subscriptions.hold). It
//	           releases the work only after all that it sends is answered (held.release)
//
// This is the way of an event from its stream (package events) to a receiver, and what happens if
// the node that sends is killed:
//
//  1. The leader names a node for each subscription in its manifest (Subscriptions.Wanted). That
//     node takes the work (Subscriptions.hold). If it is killed, the leader names another node after
//     2.3 to 4.3 s (package terms), which goes on from here.
//  2. Each second the node asks how far the streams are (Subscriptions.lasts), and reads what is
//     behind the position (held.fill).
//  3. It writes a delivery for each of these events, and then the position (held.makeDeliveries).
//     If it is killed in between, the next node reads the same events and writes the deliveries
//     again, which changes nothing.
//  4. It sends what is due (queue.next, held.attempt). A node that has just taken the work lists
//     the deliveries that are there (held.list). If a node is killed while it sends, the next one
//     sends the event again.
//  5. After a 2xx it removes the delivery (held.delivered). If it is killed first, the receiver
//     gets the event again, under the same webhook-id.
//  6. After any other answer it writes when the delivery is due next, or that it is dead
//     (delivery.failed). If it is killed first, the attempt does not count.
//  7. It removes dead deliveries after Options.KeepDead (held.expire).
//
// Nothing of V2 depends on the manifest, nor on one sender: two of them would send an event twice, and
// lose none.
//
// A delivery is pending or dead. To add a state, begin with delivery in delivery.go: failed makes it
// dead, shown names its state, and queued and queue.next decide whether it is sent.
//
// definition.go and delivery.go decide and do no I/O. subscriptions.go has what callers use, run.go
// what a node does every second, held.go what it does for one subscription, and attempt.go how it
// sends an event.
package subscriptions
