// Package client takes numbers from seqd. It needs nothing but the standard library.
//
//	c, err := client.New(client.Config{
//		Addrs: []string{"http://a:8080", "http://b:8080"},
//		Token: os.Getenv("SEQD_CLIENT_TOKEN"),
//	})
//	id, err := c.Next(ctx, "order")          // one ID
//	ids, err := c.NextN(ctx, "order", 100)   // 100 IDs
//
//	b, err := c.Buffer("order", client.BufferOptions{Size: 1000})
//	defer b.Close()
//	id, err = b.Next(ctx)                    // mostly without the network
//
//	id, err = c.Next(ctx, "ticket", client.Key("tenant-42")) // of a keyed biz type
//
//	r, err := c.Reserve(ctx, "invoice", client.ReserveOptions{TTL: time.Minute}) // of a gapless one
//	err = r.Confirm(ctx)                     // or r.Release(ctx)
//
//	s, err := c.Snowflake("shop", client.SnowflakeOptions{}) // IDs made in this process
//	defer s.Close(ctx)
//	number, err := s.Next(ctx)               // never by the network
//
// IDs of the service are text. Keep them as text.
//
// # Nodes
//
// A client asks one node until that fails, and then stays with the next one that answers. A call
// goes on to the next node if
//
//   - a node cannot be reached, gives no answer within Config.Timeout, or its answer is cut off;
//   - a node, or a proxy before it, answers 503, 502 or 504.
//
// If all nodes have failed, the call waits: as long as Retry-After says, or 50 ms at first, doubled
// up to 2 s. It ends when its context ends, and waits no longer than Config.Wait in total. It does
// not begin to wait if the wait would outlast one of the two, but returns the last error at once.
// After 429 it waits too, and asks no other node before that: the limit is the caller's, not the
// node's.
//
// Redirects are not followed, because they would take the token elsewhere.
//
// # What is repeated
//
//   - Next, NextN, AppendText and buffers: always. If an answer was lost, its numbers are skipped.
//     No number is given out twice.
//   - The same with [IdempotencyKey]: always, and without a gap.
//   - LeaseWorker, Renew and Release of a lease, and Snowflake: always. If the answer to LeaseWorker was
//     lost, a worker ID stays held until its lease ends.
//   - Reserve: always, with a key of its own. Confirm, Release, Reservation, Parse: always, because
//     twice is the same as once.
//   - [Client.Do] and package admin: GET always; a change only if it was certainly not made, because
//     the node was not reached, or refused before it did anything. Otherwise the error has the field
//     Unknown set.
//
// # Buffers
//
// A [Buffer] hands out IDs that it fetched earlier. So a program that uses one accepts three
// things:
//
//   - Some IDs are skipped: those in hand when the program ends or calls Close, those older than
//     MaxAge, and those of an answer that was lost. Nobody ever gets them.
//   - Its IDs are in order among themselves only. Another program, another buffer or Next may have
//     handed out a larger one before.
//   - A date in an ID is the day on which the service issued it, in the time zone of the biz type.
//     After midnight a buffer still hands out IDs of yesterday: without MaxAge until it has none
//     left, with MaxAge for that long at most. A biz type that resets daily then begins again at its
//     start, so the numbers fall, and the IDs do not repeat because they contain the day.
//
// A program that needs today's date in every ID, or one order over all programs, uses Next.
//
// # IDs made in the process
//
// A [Snowflake] leases a worker ID of a pool, and makes IDs of the time, a sequence and this worker
// ID. A lease is an interval of times that the service grants once. The Snowflake checks it for the
// very time that goes into an ID, so no two programs make the same ID: not after a pause of one of
// them, not with wrong clocks, not if the network or the service is away. Then there are no IDs
// once the lease has ended.
//
// A program with a library of its own, which takes only a worker ID, gets less from
// [Client.LeaseWorker] or the command seqd lease. It does not share the worker ID with another
// program as long as both run, and if it begins after WorkerLease.After, it repeats no ID of an
// earlier one. But it cannot check the interval for each ID. So one that is paused, for instance
// with its virtual machine, can make some after its lease has ended, when the worker ID is somebody
// else's, and so can one whose clock is set back. If the library takes a function for the time, let
// that function check the interval.
//
// # Errors
//
// Errors of calls are of type [*Error]. Branch on the code: errors.Is(err, client.ErrExhausted). If
// the context ended, errors.Is(err, context.DeadlineExceeded) or context.Canceled holds as well.
//
// An answer is used as a whole or not at all. It must have exactly the IDs that were asked for,
// none of them twice, and belong to the request: a proxy's page, a cut answer or one out of a cache
// is an error, because using its numbers could give a number to two callers.
package client
