// Package backends opens the store and Redis, and watches whether they answer.
//
//   - store.go: opening the store, and starting without it
//   - fresh.go: a store that no seqd has run on
//   - gate.go: a store that must not be used yet
//   - fence.go: whether the store failed over
//   - client.go: the client of Redis
//   - watch.go: whether Redis answers
//
// The package depends on the registry of stores, the scripts that check Redis, and the sections
// store and redis of the configuration. It does not know what is kept in them, and names no driver.
package backends

import "time"

// RetryPause is the pause between two attempts to reach a store that is away.
const RetryPause = time.Second
