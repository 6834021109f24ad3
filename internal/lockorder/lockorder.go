// Package lockorder has two kinds of mutexes, whose order a build for tests asserts. A goroutine
// locks an [Outer] while it holds neither kind, and an [Inner] while it holds no other Inner. So
// two goroutines never wait for each other.
//
// In the default build both are [sync.Mutex]. A build with the tag seqd_lockorder ends the process,
// with the stack, where a goroutine breaks the order. scripts/simulate --locks builds it.
package lockorder
