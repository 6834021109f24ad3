// Package check finds out whether what the fault laboratory recorded is what seqd promises. It
// knows the promises from docs/DESIGN.md and docs/PROMISES.md and the record from package record,
// and imports nothing of seqd.
//
// Each rule is a function whose comment says what it demands, where that is promised, and what it
// excuses. A rule counts all violations and shows the first ones with the calls involved and the
// faults that were on.
//
// Everything works on runs of numbers and sorts them, so what a check costs depends on calls and
// runs and not on numbers: 10^9 numbers in batches of 10,000 are 10^5 runs. Memory is about 700
// bytes a call while it grows, 60 a run, and 24 for each display form whose number cannot be read
// from it; the record itself is read as a stream.
package check
