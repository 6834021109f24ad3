package persist

// The kinds of the documents of gapless counters. Such a counter has no record in [Counters]: one
// document holds its state and is changed by compare-and-set (invariant G1). What that document
// cannot hold for long is copied to documents of their own by [Documents].Keep, before it is
// removed there. Package strategy/gapless/ledger says what the bodies hold.
const (
	// LedgerKind is the state of a gapless counter. The key is the name of the counter, such as
	// invoice, invoice@2026 or invoice/tenant-42@2026. Expires is the earliest moment at which
	// something is due, 0 for none; [Documents].Due finds it. Purge refuses this kind: a ledger
	// that vanished would begin again.
	LedgerKind = "ledger"
	// VoidKind is numbers that became void, with the reason, the caller and the time. It never
	// expires.
	VoidKind = "void"
	// EndedKind is a reservation that ended, until it is forgotten.
	EndedKind = "reservation"
	// AnswerKind is what a request with an Idempotency-Key was given, until it is forgotten.
	AnswerKind = "ledgeranswer"
	// BeatKind is the document by which the nodes record that at least one of them is awake.
	BeatKind = "beat"
)
