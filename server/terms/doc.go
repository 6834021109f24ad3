// Package terms says which node does a piece of work, so that no two do it at once. It depends on
// the documents of the store, and on no clock that nodes have in common. Sessions, the work "leader"
// and permits may be in a coordinator instead (place.go, docs/COORDINATION.md); all other works are
// in the store.
//
// A node has a session: a document that it writes every second. Each such write is a beat. A work
// has a document of its own, which names the session that owns the work and a term, a number that
// only rises. Only the owner writes that document, except that [Terms.Edit] asks the owner for
// something in it. One node leads: it owns the work "leader". The leader says in its manifest who
// should do a work. The document of the work says who may.
//
//	K1 self-stop  a node works until the time when it sent its last beat + Life − margin, by a clock
//	              that counts suspension: session.alive (session.go)
//	K2 take       a work gets another owner, at term + 1, only if nobody owns it or the session of
//	              its owner is dead: Owner.taken (owner.go)
//	K3 dead       a session is dead if its document is not where this node's last beat is: without
//	              that beat, the data were lost (place.go). A session is silent if its
//	              beat has not changed for Life + drift after another node received it. That node then
//	              deletes the document, if it still has that revision: it declares the session dead,
//	              which is final. After a gap in its own reads a node starts to watch anew:
//	              watch.receive (watch.go)
//	K4 fence      each write of a work replaces the revision that names its owner and its term, under
//	              the fence of the store that its session began under: Work.write (work.go)
//	K5 advice     safety does not depend on the manifest of the leader: nothing in this package reads
//	              it, except to make the next one (leader.go)
//	K6 plan       loads differ by one at most, and as few works move as possible: plan (plan.go)
//	K7 permits    at most so many hold a permit, and what a session holds ends with it: Permits.take
//	              (permits.go)
//
// This happens if a node is killed while it does a work:
//
//  1. For 2.3 to 4.3 s nothing happens: its last beat must stay unchanged for 3.3 s after others
//     received it, up to a second late, and then they read at once (watch.untilSilent). A node that is
//     shut down deletes its session, so then it is a second (Terms.leave).
//  2. The leader declares the session dead (Terms.declare). If the leader was killed, the others do
//     that, and the first of them to take the work "leader" leads (Terms.findLeader). It starts to
//     watch all other sessions then, so works of a node that was killed with the leader wait some
//     seconds more.
//  3. The leader names another session for the work in its manifest at once (Terms.advise). A node
//     reads the manifest every second. Works that need no manifest, such as jobs, begin on the node
//     that declared the session dead at once (Terms.Death), and on others when they look for works.
//  4. Package terms starts no work. What does works on that node calls Terms.Take, which reads the
//     document of the work and that of its owner's session, and writes term + 1 (Work.take). Any
//     node that has watched for 3.3 s (watch.settled) may do that from step 2 on.
//
// No two nodes write the work. Before step 2 nobody can take it. If the node was only paused, it
// has stopped by then (K1), and the store refuses a write that still arrives after step 4, because
// it replaces a revision that is no longer there (K4).
//
// A session may go on after a pause: if its beat succeeds, its document was there, so nobody took
// what it owns. Only a session that was declared dead never returns, because its key is used once.
//
// session.go, watch.go, owner.go, permits.go and plan.go decide: they do no I/O, and get the time
// as an argument. terms.go, leader.go, work.go and acquire.go read, write and lock. ADR 70 has the
// reasons, and what remains after a failover of the store that lost something.
package terms
