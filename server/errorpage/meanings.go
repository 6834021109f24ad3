package errorpage

import "github.com/seqd/seqd"

// Who can mend an error.
const (
	caller   = "Whoever wrote the request"
	operator = "An operator of the service"
	wait     = "Nobody has to: the same request may succeed later"
	defect   = "The developers of seqd or of the plugin"
)

// Advice that several codes share.
const (
	correct = "Correct what the detail names, and send the request again."
	later   = "Wait as long as Retry-After says, then send the same request again, with the same Idempotency-Key if it has one."
	log     = "Look at the log of the node for the request ID, and report what it says."
	anew    = "Reserve new numbers."
)

// meanings has a row for each code of package seqd. The console begins with the same What, and has
// advice of its own, for somebody who sits at a page.
var meanings = map[seqd.Code]Meaning{
	seqd.CodeInvalidBizType:       {"This is not a name of a biz type", caller, correct},
	seqd.CodeInvalidCount:         {"This is not a possible count", caller, correct},
	seqd.CodeInvalidID:            {"This is not an ID of this biz type", caller, "Check that all of the ID was copied, and that it is of this biz type."},
	seqd.CodeInvalidRequest:       {"The request is not valid", caller, correct},
	seqd.CodeInvalidDefinition:    {"The definition has problems", caller, "Correct the settings that problems names."},
	seqd.CodeInvalidKey:           {"The key is wrong or missing", caller, "Give a key to a keyed biz type, and none to others."},
	seqd.CodeInvalidTTL:           {"This is not a possible time", caller, "Use 1s to 24h, such as 90s or 10m."},
	seqd.CodeUnauthorized:         {"You are not signed in", caller, "Send a valid token as Authorization: Bearer. Tokens expire."},
	seqd.CodeForbidden:            {"This is not allowed", caller, "Use a token that has the scope, or do what the detail says about Host and web pages."},
	seqd.CodeUnknownBizType:       {"There is no biz type of this name", caller, "Check the name. It may be deleted, or so new that this node learns of it within 5 seconds."},
	seqd.CodeUnknownReservation:   {"There is no such reservation", caller, "Check the name. 24 hours after its end only the account knows its numbers."},
	seqd.CodeNotFound:             {"There is nothing at this address", caller, "Check the path. What it names may be deleted, or the node may have an older version."},
	seqd.CodeMethodNotAllowed:     {"The node does not support this", caller, "Use a method that the header Allow names."},
	seqd.CodePreconditionFailed:   {"Somebody else changed this meanwhile", caller, "Nothing was done. Read the present revision, decide again, and send its ETag as If-Match."},
	seqd.CodeBodyTooLarge:         {"This is too large", caller, "Send less at once."},
	seqd.CodeURITooLong:           {"The address is too long", caller, "Use shorter names or a shorter query."},
	seqd.CodeHeadersTooLarge:      {"The headers are too large", caller, "Send fewer or smaller headers. In a browser, delete the cookies of this host."},
	seqd.CodeUnsupportedMediaType: {"The node does not read this kind of text", caller, "Send the Content-Type that the API documents."},
	seqd.CodeIdempotencyKeyReused: {"An Idempotency-Key was used twice", caller, "Use a key of its own for each request. Only the same request may repeat a key."},
	seqd.CodeReservationExpired:   {"The reservation has expired", caller, anew},
	seqd.CodeReservationReleased:  {"The reservation was released", caller, anew},
	seqd.CodeReservationConfirmed: {"The reservation is confirmed", caller, "Its numbers are issued. They can only be made void."},
	seqd.CodeNumberVoid:           {"The number is void", caller, "Use a new Idempotency-Key for a new number."},
	seqd.CodeTooManyReserved:      {"Too many numbers are reserved", caller, "Confirm or release reservations, or wait until some expire."},
	seqd.CodeTooManyKeys:          {"There are as many keys as allowed", operator, "Raise maxKeys of the biz type."},
	seqd.CodeConflict:             {"This does not fit what is there already", operator, "Do what the detail says. The biz type issues again by itself when the cause is gone."},
	seqd.CodeDisabled:             {"The biz type is disabled", operator, "Enable it if numbers should be issued again."},
	seqd.CodeExhausted:            {"All numbers are used up", operator, "Raise the limit of the biz type, or use a new one."},
	seqd.CodeStoreFailedOver:      {"The store failed over and may have lost counters", operator, "Confirm how far the counters had come: seqd failover --help, and “failover of the store” in the manual."},
	seqd.CodeRateLimited:          {"Too many requests", caller, later},
	seqd.CodeTooManyAnswers:       {"Too much is kept for your Idempotency-Keys and reservations", caller, "Wait until some end, or issue without a key."},
	seqd.CodeAnswersFull:          {"Too much is kept for Idempotency-Keys and reservations", operator, "Raise idempotency.maxBytes, or wait. Requests that issue without a key are answered."},
	seqd.CodeStarting:             {"The node is starting", wait, later},
	seqd.CodeStopping:             {"The node is stopping", wait, "Send the same request to another node."},
	seqd.CodeOverloaded:           {"The node has too much to do", wait, later + " If it stays so, an operator adds nodes or raises limits."},
	seqd.CodeStoreUnavailable:     {"The store does not answer", operator, "Look at the store. Callers try again; only numbers in hand are issued, and nothing can be changed."},
	seqd.CodeRedisUnavailable:     {"Redis does not answer", operator, "Look at Redis. Callers try again; strict order needs Redis."},
	seqd.CodeCursorContested:      {"Nodes take numbers in turns", operator, "Look at Redis. Numbers are unique, but not in order."},
	seqd.CodeClockRollback:        {"A clock went back", operator, "Correct the clock. The node waits, so that no number repeats."},
	seqd.CodeNoMachineID:          {"No machine ID is free", operator, "Stop spare nodes, or raise bitsMachine."},
	seqd.CodeTimeout:              {"It took too long", wait, later},
	seqd.CodeCanceled:             {"The caller did not wait for the answer", wait, later},
	seqd.CodePluginPanic:          {"A plugin has a defect", defect, log},
	seqd.CodeInternal:             {"Something in the node is broken", defect, log},
}
