package seqd

// Gauge names a value that an operator watches.
type Gauge string

// What strategies, plugins and rejection handlers measure: a value of a biz type, unless stated
// otherwise.
const (
	// GaugeInHand is how many numbers can be issued without the store, as far as this node knows:
	// its buffers; or what the cursor held when the node last took from it or looked, with its own
	// standby range. Other nodes take from the cursor too, so the value of a node without requests
	// is old.
	GaugeInHand Gauge = "in_hand"
	// GaugeFill is how full buffer 1 and buffer 2 are together: 0 for empty, 1 for two whole
	// segments. It is missing while the step is 0.
	GaugeFill Gauge = "fill"
	// GaugeStep is how many numbers were allocated at once for the segment in use; with a cursor,
	// for the last one that this node allocated. It is 0 before the first.
	GaugeStep Gauge = "step"
	// GaugeHighest is the highest number that has left the store, as far as this node knows. It is
	// missing until then.
	GaugeHighest Gauge = "highest"
	// GaugeRate is how many numbers per second leave the store for all nodes, from one refill of
	// this node to the next, at least 10 s. It is 0 before the second refill, and falls to 0 if
	// none follows. It is up to twice too high while steps grow. A counter that was raised shows as
	// a rate until the next refill.
	GaugeRate Gauge = "rate"
	// GaugeLimit is the highest number that a strategy can make, or that a plugin can show.
	GaugeLimit Gauge = "limit"
	// GaugeIncrement is how far numbers are apart: see [Traits]. It is missing if that is 1.
	GaugeIncrement Gauge = "increment"
	// GaugePeriodLeft is how many seconds are left of the period. It is missing if numbers never
	// reset.
	GaugePeriodLeft Gauge = "period_left"
	// GaugeReserved, GaugeReleased and GaugeVoids are how many numbers of the counters that are open
	// on this node are reserved, released and void.
	GaugeReserved Gauge = "reserved"
	GaugeReleased Gauge = "released"
	GaugeVoids    Gauge = "voids"
	// GaugeReservedShare is the number of reserved and released numbers, as a share of how many there
	// may be, of the counter where it is highest: 0 to 1.
	GaugeReservedShare Gauge = "reserved_share"
	// GaugeReleasedAge is for how many seconds the number that was released first has waited to be
	// handed out again, 0 if there is none.
	GaugeReleasedAge Gauge = "released_age"
	// GaugeOpenKeys is how many keys of a keyed biz type this node has open.
	GaugeOpenKeys Gauge = "open_keys"
	// GaugeKeys is how many keys a keyed biz type has at most, in the present period if numbers
	// reset, as far as this node knows; GaugeMaxKeys is how many it may have.
	GaugeKeys    Gauge = "keys"
	GaugeMaxKeys Gauge = "max_keys"
	// GaugeMachineID is the machine ID that this node holds in a registry. It is missing while the
	// node holds none.
	GaugeMachineID Gauge = "machine_id"
	// GaugeMachineIDsFree and GaugeMachineIDsUsed are how many machine IDs of a registry are free
	// and how many are leased, as last seen.
	GaugeMachineIDsFree Gauge = "machine_ids_free"
	GaugeMachineIDsUsed Gauge = "machine_ids_used"
	// GaugeLeaseLeft is how many seconds are left of the lease of the machine ID, 0 after its end.
	GaugeLeaseLeft Gauge = "lease_left"
	// GaugeClockOffset is how many seconds the clock of this node was ahead of that of the registry
	// when they were last compared.
	GaugeClockOffset Gauge = "clock_offset"
	// GaugeTimeLeft is how many seconds are left until the layout of a registry has no more
	// timestamps.
	GaugeTimeLeft Gauge = "time_left"
	// GaugeQueued and GaugeQueueSize are how many records a queue holds, and how many it can hold.
	// Biz types that share a queue have the same values.
	GaugeQueued    Gauge = "queued"
	GaugeQueueSize Gauge = "queue_size"
	// GaugeDropped is how many records were dropped since the start. It never decreases.
	GaugeDropped Gauge = "dropped"
	// GaugeFallback is 1 if each node limits on its own because the last request could not use
	// Redis, else 0. It is missing if limits are not shared.
	GaugeFallback Gauge = "fallback"
)

// Measurement is the current value of a gauge.
type Measurement struct {
	Gauge Gauge
	// Of is the name of the registry of machine IDs that the value belongs to, "" if it belongs to
	// the biz type. Biz types that share a registry have the same values.
	Of    string
	Value float64
}

// Measurer is implemented by strategies, plugins and rejection handlers that have values to watch.
type Measurer interface {
	// Measure calls tell with each current value. It does no I/O and does not wait for any. It
	// takes about a microsecond, because there may be 100,000 biz types. It is safe for concurrent
	// use, also before Init and after Close.
	Measure(tell func(Measurement))
}
