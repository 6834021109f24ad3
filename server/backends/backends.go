// Package backends opens what a node stores numbers in and coordinates by, the store and Redis, and
// watches whether they answer.
//
//   - store.go: opening the store, and starting without it
//   - gate.go: a store that must not be used yet
//   - client.go: the client of Redis
//   - watch.go: whether Redis answers
//
// The package depends on the drivers of stores, the scripts that check Redis, and the sections
// store and redis of the configuration. What is kept in the back ends it does not know. A new store
// is a driver below persist and a case in [NewStore].
package backends

import "time"

// RetryPause is the pause between two attempts to reach a store that is away.
const RetryPause = time.Second
