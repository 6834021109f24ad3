// Package terms says which node does a piece of work, so that no two do it at once. It depends on
// the documents of the store, and on no clock that nodes have in common.
//
// A node has a session: a document that it writes every second, its beat. A work has a document of
// its own, which names the session that owns it and a term, a number that only rises. The owner
// writes that document, and nobody else does. One node leads: it owns the work "leader". The leader
// says who should do a work. The document of the work says who may.
//
//	K1 self-stop  a node works until the time when it sent its last beat + Life − margin, by a clock
//	              that counts suspension: session.alive (session.go)
//	K2 take       a work gets another owner, at term + 1, only if nobody owns it or the session of
//	              its owner is gone: Owner.taken (owner.go)
//	K3 dead       a session is dead that was received with the same revision for Life·(1 + drift).
//	              That is final: who declares it deletes its document, if it is still of that
//	              revision. After a gap in its own reads a node starts to watch anew: watch.look
//	              (watch.go)
//	K4 fence      each write of a work replaces the revision that names its owner and its term, under
//	              the fence of the store that its session began under: Work.write (work.go)
//	K5 advice     safety does not depend on the manifest of the leader: nothing in this package reads
//	              it, except to make the next one (leader.go)
//	K6 plan       loads differ by one at most, and as few works move as possible: plan (plan.go)
//	K7 permits    at most so many hold a permit, and what a session holds ends with it: Permits.take
//	              (permits.go)
//
// A session may go on after a pause: if its beat succeeds, its document was there, so nobody took
// what it owns. Only a session that was declared dead never returns, because its key is used once.
//
// session.go, watch.go, owner.go, permits.go and plan.go decide: they do no I/O, and get the time as
// an argument. terms.go, leader.go and work.go read, write and lock. ADR 70 has the reasons, and what
// remains after a failover of the store that lost something.
package terms
