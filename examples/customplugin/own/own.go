// Package own registers what is yours: a plugin (region.go), a rejection handler (shout.go) and a
// strategy (ticket.go), each in an init function.
package own
