package seqd

// Code is the kind of an [Error]. Callers branch on it, so the meaning of a code never changes.
type Code string

// The codes, with their HTTP status. They are written from the table below: see CONTRIBUTING.md.
const (
	CodeInvalidBizType       Code = "invalid_biz_type"       // 400: This is not a name of a biz type
	CodeInvalidCount         Code = "invalid_count"          // 400: This is not a possible count
	CodeInvalidID            Code = "invalid_id"             // 400: This is not an ID of this biz type
	CodeInvalidKey           Code = "invalid_key"            // 400: The key is wrong or missing
	CodeInvalidTTL           Code = "invalid_ttl"            // 400: This is not a possible time
	CodeInvalidRequest       Code = "invalid_request"        // 400: The request is not valid
	CodeInvalidDefinition    Code = "invalid_definition"     // 400: The definition has problems
	CodeUnauthorized         Code = "unauthorized"           // 401: You are not signed in
	CodeForbidden            Code = "forbidden"              // 403: This is not allowed
	CodeUnknownBizType       Code = "unknown_biz_type"       // 404: There is no biz type of this name
	CodeUnknownReservation   Code = "unknown_reservation"    // 404: There is no such reservation
	CodeUnknownPool          Code = "unknown_pool"           // 404: There is no pool of this name
	CodeUnknownJob           Code = "unknown_job"            // 404: There is no such job
	CodeUnknownSubscription  Code = "unknown_subscription"   // 404: There is no subscription of this name
	CodeNotFound             Code = "not_found"              // 404: There is nothing at this address
	CodeMethodNotAllowed     Code = "method_not_allowed"     // 405: The node does not support this
	CodeConflict             Code = "conflict"               // 409: This does not fit what is there already
	CodeExhausted            Code = "exhausted"              // 409: All numbers are used up
	CodeStoreFailedOver      Code = "store_failed_over"      // 409: The store failed over and may have lost counters
	CodeDisabled             Code = "disabled"               // 409: The biz type is disabled
	CodeTooManyKeys          Code = "too_many_keys"          // 409: There are as many keys as allowed
	CodeTooManyReserved      Code = "too_many_reserved"      // 409: Too many numbers are reserved
	CodeReservationExpired   Code = "reservation_expired"    // 409: The reservation has expired
	CodeReservationReleased  Code = "reservation_released"   // 409: The reservation was released
	CodeReservationConfirmed Code = "reservation_confirmed"  // 409: The reservation is confirmed
	CodeNumberVoid           Code = "number_void"            // 409: The number is void
	CodeLeaseLost            Code = "lease_lost"             // 409: The lease has ended
	CodeJobNotDone           Code = "job_not_done"           // 409: The job has not issued all its numbers yet
	CodeEventsGone           Code = "events_gone"            // 410: These events are not kept any more
	CodeJobEnded             Code = "job_ended"              // 409: The job has ended, perhaps before it had issued all its numbers
	CodePreconditionFailed   Code = "precondition_failed"    // 412: Somebody else changed this meanwhile
	CodeBodyTooLarge         Code = "body_too_large"         // 413: This is too large
	CodeURITooLong           Code = "uri_too_long"           // 414: The address is too long
	CodeUnsupportedMediaType Code = "unsupported_media_type" // 415: The node does not read this kind of text
	CodeIdempotencyKeyReused Code = "idempotency_key_reused" // 422: An Idempotency-Key was used twice
	CodeHeadersTooLarge      Code = "headers_too_large"      // 431: The headers are too large
	CodeRateLimited          Code = "rate_limited"           // 429: Too many requests
	CodeTooManyJobs          Code = "too_many_jobs"          // 429: There are as many jobs as allowed
	CodeTooManyAnswers       Code = "too_many_answers"       // 429: Too much is kept for your Idempotency-Keys and reservations
	CodeAnswersFull          Code = "answers_full"           // 507: Too much is kept for Idempotency-Keys and reservations
	CodeStarting             Code = "starting"               // 503: The node is starting
	CodeStopping             Code = "stopping"               // 503: The node is stopping
	CodeOverloaded           Code = "overloaded"             // 503: The node has too much to do
	CodeStoreUnavailable     Code = "store_unavailable"      // 503: The store does not answer
	CodeNoCoordinator        Code = "no_coordinator"         // 503: The coordinator does not answer
	CodeRedisUnavailable     Code = "redis_unavailable"      // 503: Redis does not answer
	CodeCursorContested      Code = "cursor_contested"       // 503: Nodes take numbers in turns
	CodeClockRollback        Code = "clock_rollback"         // 503: A clock went back
	CodeNoMachineID          Code = "no_machine_id"          // 503: No machine ID is free
	CodeTimeout              Code = "timeout"                // 503: It took too long
	CodeCanceled             Code = "canceled"               // 503: The caller did not wait for the answer
	CodePluginPanic          Code = "plugin_panic"           // 500: A plugin has a defect
	CodeInternal             Code = "internal"               // 500: Something in the node is broken
)

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
	report  = "Look at the log of the node for the request ID, and report what it says."
	anew    = "Reserve new numbers."

	mend = "Correct what you entered, and send it again."
	soon = "Try again in a moment."
	look = "Look at the log of the node, with the request ID."
)

// Meaning says what a code means.
type Meaning struct {
	Code   Code
	Status int    // of HTTP; 500 and above if the service failed and not the request
	Who    string // who can mend it
	What   string // what happened, in a few words, without a full stop
	Todo   string // what they do
	// Console is what somebody does who sees the code in the console.
	Console string
}

// codes has a row for each code. Everything else that lists codes reads it or is written from it:
// see CONTRIBUTING.md.
var codes = [...]Meaning{
	{"invalid_biz_type", 400, caller, "This is not a name of a biz type", correct, mend},
	{"invalid_count", 400, caller, "This is not a possible count", correct, mend},
	{"invalid_id", 400, caller, "This is not an ID of this biz type", "Check that all of the ID was copied, and that it is of this biz type.", "Check that you copied all of it."},
	// A key that is malformed, missing, or given where none is expected.
	{"invalid_key", 400, caller, "The key is wrong or missing", "Give a key to a keyed biz type, and none to others.", "A keyed biz type needs a key; others take none."},
	{"invalid_ttl", 400, caller, "This is not a possible time", "Use 1s to 24h, such as 90s or 10m.", "Enter 1s to 24h, such as 90s or 10m."},
	{"invalid_request", 400, caller, "The request is not valid", correct, mend},
	{"invalid_definition", 400, caller, "The definition has problems", "Correct the settings that problems names.", "Correct the settings that are marked."},
	{"unauthorized", 401, caller, "You are not signed in", "Send a valid token as Authorization: Bearer. Tokens expire.", "Use a valid token. Tokens expire."},
	{"forbidden", 403, caller, "This is not allowed", "Use a token that has the scope, or do what the detail says about Host and web pages.", "Use a token that has the scope."},
	{"unknown_biz_type", 404, caller, "There is no biz type of this name",
		"Check the name. It may be deleted, or so new that this node learns of it within 5 seconds.", "It may be deleted, or so new that this node learns of it within 5 seconds."},
	{"unknown_reservation", 404, caller, "There is no such reservation",
		"Check the name. 24 hours after its end only the account knows its numbers.", "24 hours after its end only the account knows its numbers."},
	{"unknown_pool", 404, caller, "There is no pool of this name", "Check the name, or make the pool: PUT /worker-pools/{pool}.", "Check the name."},
	{"unknown_job", 404, caller, "There is no such job", "Check the ID. The job was removed, or its result has expired: see jobs.resultTTL.", "It was removed, or its result has expired."},
	{"unknown_subscription", 404, caller, "There is no subscription of this name", "Check the name, or make the subscription: PUT /subscriptions/{name}.", "Check the name."},
	{"not_found", 404, caller, "There is nothing at this address",
		"Check the path. What it names may be deleted, or the node may have an older version.", "It may be deleted, or the node may have an older version."},
	{"method_not_allowed", 405, caller, "The node does not support this", "Use a method that the header Allow names.", "It may have an older version."},
	{"conflict", 409, operator, "This does not fit what is there already", "Do what the detail says. The biz type issues again by itself when the cause is gone.", "Nothing was changed."},
	{"exhausted", 409, operator, "All numbers are used up", "Raise the limit of the biz type, or use a new one.", "Raise the limit of the biz type, or use a new one."},
	// A biz type, key or period that cannot begin, or that cannot continue without a gap.
	{"store_failed_over", 409, operator, "The store failed over and may have lost counters",
		"Confirm how far the counters had come: seqd failover --help, and “failover of the store” in the manual.", "An operator has to confirm how far they had come: “failover of the store” in the manual."},
	{"disabled", 409, operator, "The biz type is disabled", "Enable it if numbers should be issued again.", "Enable it if numbers should be issued again."},
	// A new key of a biz type that has as many as its definition allows.
	{"too_many_keys", 409, operator, "There are as many keys as allowed", "Raise maxKeys of the biz type.", "Raise maxKeys of the biz type."},
	{"too_many_reserved", 409, caller, "Too many numbers are reserved", "Confirm or release reservations, or wait until some expire.", "Confirm or release reservations."},
	{"reservation_expired", 409, caller, "The reservation has expired", anew, anew},
	{"reservation_released", 409, caller, "The reservation was released", anew, anew},
	{"reservation_confirmed", 409, caller, "The reservation is confirmed", "Its numbers are issued. They can only be made void.", "Its numbers can only be made void."},
	// A request that is repeated after its number was made void.
	{"number_void", 409, caller, "The number is void", "Use a new Idempotency-Key for a new number.", "Use a new Idempotency-Key."},
	// The worker ID may be somebody else's: the lease has ended, or was never granted.
	{"lease_lost", 409, caller, "The lease has ended", "Stop making numbers with it, and lease a worker ID anew.", "Lease a worker ID anew."},
	{"job_not_done", 409, caller, "The job has not issued all its numbers yet", "Ask for the job until its state is done, then for its result.", "Wait until it is done."},
	{"events_gone", 410, caller, "These events are not kept any more", "Go on with the position that the detail names. What happened since is in the accounts of the biz type.", "They are kept for events.keep."},
	// A job that failed or was cancelled.
	{"job_ended", 409, caller, "The job has ended, perhaps before it had issued all its numbers", "Look at its state. Add partial=true to download what it issued, or make another job.", "Look at its state."},
	// A change whose If-Match names another revision than the current one.
	{"precondition_failed", 412, caller, "Somebody else changed this meanwhile",
		"Nothing was done. Read the present revision, decide again, and send its ETag as If-Match.", "Nothing was done. Look at it, then repeat or cancel."},
	{"body_too_large", 413, caller, "This is too large", "Send less at once.", "Send less at once."},
	{"uri_too_long", 414, caller, "The address is too long", "Use shorter names or a shorter query.", "Use a shorter search or name."},
	{"unsupported_media_type", 415, caller, "The node does not read this kind of text", "Send the Content-Type that the API documents.", "Reload the page."},
	// A request whose Idempotency-Key was used with another request.
	{"idempotency_key_reused", 422, caller, "An Idempotency-Key was used twice", "Use a key of its own for each request. Only the same request may repeat a key.", "Each request needs its own."},
	{"headers_too_large", 431, caller, "The headers are too large", "Send fewer or smaller headers. In a browser, delete the cookies of this host.", "Delete cookies of this host, then reload."},
	{"rate_limited", 429, caller, "Too many requests", later, "Wait, or raise the limit."},
	{"too_many_jobs", 429, caller, "There are as many jobs as allowed", "Remove jobs whose results are not needed any more, or wait until some expire. An operator can raise jobs.most.", "Remove jobs whose results are not needed any more."},
	// A new Idempotency-Key or reservation, or numbers that may become void: what is kept for those
	// of its owner, or for all (answers_full), takes as many bytes as it may. It ends when some do.
	{"too_many_answers", 429, caller, "Too much is kept for your Idempotency-Keys and reservations", "Wait until some end, or issue without a key, unless the biz type has onRelease: void.", "Wait until some end."},
	{"answers_full", 507, operator, "Too much is kept for Idempotency-Keys and reservations",
		"Raise idempotency.maxBytes, or wait. Requests that issue without a key are answered, unless the biz type has onRelease: void.", "Raise idempotency.maxBytes, or wait."},
	{"starting", 503, wait, "The node is starting", later, "Wait a few seconds: it has not reached its store yet."},
	{"stopping", 503, wait, "The node is stopping", "Send the same request to another node.", soon},
	{"overloaded", 503, wait, "The node has too much to do", later + " If it stays so, an operator adds nodes or raises limits.", "If it stays so, add nodes or raise limits."},
	{"store_unavailable", 503, operator, "The store does not answer",
		"Look at the store. Callers try again; only numbers in hand are issued, and nothing can be changed.", "Only numbers in hand are issued, and nothing can be changed. Look at the store."},
	// It is reported, but refuses nothing.
	{"no_coordinator", 503, operator, "The coordinator does not answer",
		"Look at the servers in coordination.addrs. Jobs wait. Numbers are issued, but those of snowflake.registry coordinator only until leases end.", "Look at the coordinator. Jobs wait, and machine IDs if they are leased there."},
	{"redis_unavailable", 503, operator, "Redis does not answer", "Look at Redis. Callers try again; strict order needs Redis.", "Look at Redis. Strict order needs it."},
	// It is reported, but refuses nothing: several cursors of one biz type take turns.
	{"cursor_contested", 503, operator, "Nodes take numbers in turns", "Look at Redis. Numbers are unique, but not in order.", "They are unique, but not in order: see Redis."},
	{"clock_rollback", 503, operator, "A clock went back", "Correct the clock. The node waits, so that no number repeats.", "Correct it. The node waits, so that no number repeats."},
	{"no_machine_id", 503, operator, "No machine ID is free", "Stop spare nodes, or raise bitsMachine.", "Stop spare nodes, or raise bitsMachine."},
	{"timeout", 503, wait, "It took too long", later, soon},
	{"canceled", 503, wait, "The caller did not wait for the answer", later, soon},
	{"plugin_panic", 500, defect, "A plugin has a defect", report, look},
	{"internal", 500, defect, "Something in the node is broken", report, look},
}

var codeIndex = func() map[Code]int {
	index := make(map[Code]int, len(codes))
	for i := range codes {
		index[codes[i].Code] = i
	}
	return index
}()

// Codes returns what each code means.
func Codes() [len(codes)]Meaning { return codes }

// Meaning returns what a code means. A code that is not known comes from foreign code, and means
// what [CodeInternal] does.
func (c Code) Meaning() (m Meaning, known bool) {
	_, known = codeIndex[c]
	return codes[c.Index()], known
}

// Index returns the index of a code in [Codes]: that of [CodeInternal] for foreign code.
func (c Code) Index() int {
	if i, known := codeIndex[c]; known {
		return i
	}
	return codeIndex[CodeInternal]
}

// Defect reports whether a code means a defect of the program or of a plugin.
func (c Code) Defect() bool { return c == CodeInternal || c == CodePluginPanic }
