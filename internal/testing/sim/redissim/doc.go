// Package redissim is a Redis in memory, for simulations of whole nodes. Its servers speak the Redis
// protocol (RESP2) on any [net.Conn], run the product's own Lua scripts, and fail when a simulation
// says so.
//
// A [Deployment] is one logical Redis: servers that can replicate one another. The simulation decides
// which server an address leads to, so there are neither Sentinels nor a Cluster. Every fault is a
// method of [Server], and does the same whenever it is called in the same state.
//
//	d := redissim.New(redissim.Options{Servers: 2})
//	defer d.Close()
//	primary, replica := d.Server(0), d.Server(1)
//	go primary.Serve(conn)  // conn is the server's end of a connection
//	replica.Hold(true)      // writes wait on their way to the replica
//	primary.Kill()
//	replica.Promote()       // what was on its way is lost
//
// A server behaves as Redis 7.0 with its default settings: replies, texts of errors, what a script
// sees, which commands a replica or a full server refuses, INFO as far as seqd reads it, replication
// IDs. A test of integration/redissim compares it with a real server.
//
// It is not a Redis for other uses. It has the commands that seqd sends, and only database 0; any
// other command fails and is noted, see [Deployment.Unknown]. It has no users, no transactions and
// no commands that wait. A key that expires is gone at once, on replicas as soon as they hear of it.
// In scripts, numbers become texts as Go writes them: use string.format, as the product does.
//
// The library miniredis would do most of this, but not the replication: INFO replication, replicas,
// and errors of writes inside scripts are missing, redis.pcall drops errors, and every run of a script
// compiles it and makes an interpreter, which takes longer than all the rest.
//
// Waits are durable blocks in the sense of [testing/synctest] if reads of the connections are, as
// those of [net.Pipe] are. The clock is the one of the bubble, unless [Options.Clock] is set. A client
// of go-redis must have an IP address, even with a dialer of its own: it looks names up, which blocks.
package redissim
