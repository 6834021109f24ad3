// Package check checks whether a record of the fault laboratory satisfies the promises of seqd. The
// promises are in docs/DESIGN.md and docs/PROMISES.md, and the format of the record in package
// record. The package imports nothing from seqd.
//
// Each rule is a function. Its comment says what it requires, where that is promised, and what it
// excuses. A rule counts all violations, and shows the first ones with the calls involved and the
// faults at that time.
//
// Rules sort runs of numbers, so the cost of a check depends on the calls and runs and not on the
// numbers: 10^9 numbers in batches of 10,000 are 10^5 runs. Memory is about 700 bytes per call, 60
// per run, and 24 for each display form that hides its number. The record is read as a stream.
package check
