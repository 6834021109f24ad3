// Package seqd is the domain of an ID-issuing service: a caller names a biz type and gets numbers
// that nobody else will ever get.
//
// The walk of one request, always in this direction:
//
//	definition → Before of each plugin → strategy → After of each plugin → rejection, when something refused
//
// [Issuer] does that walk. A [Strategy] makes the numbers, a [Plugin] stands around the making, a
// [RejectedHandler] is told of refusals, an [Observer] counts. Batches are first class: one call
// issues n numbers, as runs, so a batch costs about as much as a single number.
//
// This package imports nothing else of the module. Strategies live in strategy/, stores in
// persist/, the HTTP runtime in server/.
package seqd
