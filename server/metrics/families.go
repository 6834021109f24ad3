package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/seqd/seqd"
)

// Family is a metric as docs/METRICS.md describes it.
type Family struct {
	Name string
	// Type is counter, gauge or histogram.
	Type   string
	Help   string
	Labels []string
}

// family is a Family and how to fill it.
type family struct {
	Family
	desc  *prometheus.Desc
	value prometheus.ValueType
	worst worst
}

// worst says how the values of biz types without a label of their own are combined.
type worst int

const (
	sum worst = iota // for counters
	least
	most
)

// families are all families, in the order of their description. They are added below and nowhere
// else.
var families []*family

// Families returns every metric of this package, in the order of docs/METRICS.md. It leaves out
// those of the Go runtime and of the process (go_…, process_…).
func Families() []Family {
	list := make([]Family, len(families))
	for i, f := range families {
		list[i] = f.Family
	}
	return list
}

func newFamily(kind string, value prometheus.ValueType, worst worst, name, help string, labels []string) *family {
	f := &family{
		Family: Family{Name: name, Type: kind, Help: help, Labels: labels},
		desc:   prometheus.NewDesc(name, help, labels, nil), value: value, worst: worst,
	}
	families = append(families, f)
	return f
}

func counter(name, help string, labels ...string) *family {
	return newFamily("counter", prometheus.CounterValue, sum, name, help, labels)
}

func gauge(worst worst, name, help string, labels ...string) *family {
	return newFamily("gauge", prometheus.GaugeValue, worst, name, help, labels)
}

func histogram(name, help string, labels ...string) *family {
	return newFamily("histogram", prometheus.UntypedValue, sum, name, help, labels)
}

// HTTP.
var (
	requestSeconds     = histogram("seqd_http_request_seconds", "Duration of requests by route, from their headers to the end of the answer.", "route")
	requestsTotal      = counter("seqd_http_requests_total", "Answered requests, by route, method and HTTP status; of what a drop-in refused, the status of the error code.", "route", "method", "code")
	requestsInFlight   = gauge(most, "seqd_http_requests_in_flight", "Requests that are being answered, without probes and scrapes.")
	requestsShed       = counter("seqd_http_requests_shed_total", "Requests that were refused because of server.maxInFlight or server.maxInFlightBytes.")
	connectionsOpen    = gauge(most, "seqd_http_connections", "Connections that are open.")
	connectionsRefused = counter("seqd_http_connections_refused_total", "Connections that were closed at once because of server.maxConnections.")
	connectionsClosed  = counter("seqd_http_connections_closed_total", "Connections that were closed: displaced to make room below server.maxConnections, or silent, without an answered request for server.readHeaderTimeout.", "reason")
	idempotentTotal    = counter("seqd_idempotent_requests_total", "Requests with an Idempotency-Key: issued, replayed (answered as before) or failed.", "outcome")
	answerBytes        = gauge(most, "seqd_idempotency_bytes", "About how many bytes are kept for Idempotency-Keys and reservations, on all nodes.")
	answerBytesMax     = gauge(most, "seqd_idempotency_max_bytes", "idempotency.maxBytes; 0 for no bound.")
)

// The Redis protocol.
var (
	commandsTotal   = counter("seqd_resp_commands_total", "Answered commands of the Redis protocol, by command and error code; ok for good answers.", "command", "code")
	respConnections = gauge(most, "seqd_resp_connections", "Connections of the Redis protocol that are open.")
)

// Issuing.
var (
	issuedTotal   = counter("seqd_ids_issued_total", "Numbers that were handed to callers.", "biz_type")
	rejectedTotal = counter("seqd_ids_rejected_total", "Requests for numbers that were refused, by error code.", "biz_type", "reason")
	issueSeconds  = histogram("seqd_issue_seconds", "Duration of calls that reached a biz type, issued or refused, without HTTP.", "strategy")
	waitSeconds   = histogram("seqd_take_wait_seconds", "How long the first caller of each take had waited when it was sent to the sequencer, redis or store: for the take before, or until takes may be sent again.", "sequencer")
)

// Back ends.
var (
	storeSeconds        = histogram("seqd_store_operation_seconds", "Duration of the operations of the store, also of those that failed.", "operation")
	syncSeconds         = histogram("seqd_store_sync_seconds", "How long writing a transaction of bolt to its file and syncing it took.")
	redisSeconds        = histogram("seqd_redis_command_seconds", "Duration of commands and pipelines of Redis, also of those that failed.", "command")
	poolInUse           = gauge(most, "seqd_pool_connections_in_use", "Connections to a back end (store or redis) that are in use.", "backend")
	poolMost            = gauge(least, "seqd_pool_connections_max", "Connections to it that there may be.", "backend")
	poolWaits           = counter("seqd_pool_waits_total", "Operations that waited for a connection.", "backend")
	poolWaited          = counter("seqd_pool_wait_seconds_total", "How long they waited in all.", "backend")
	storeFile           = gauge(most, "seqd_store_file_bytes", "Size of the files of a store that is a file, without those of answers.")
	diskFree            = gauge(least, "seqd_disk_free_bytes", "Free space of a disk that seqd writes to, by what it is for: store (bolt, with its history and answers), snapshots (`snapshots.folder`) or bizTypeFolder, if it is set (history in files).", "kind")
	diskSize            = gauge(least, "seqd_disk_bytes", "Size of it.", "kind")
	certificateEnd      = gauge(least, "seqd_certificate_expiry_time_seconds", "Until when a certificate is valid, in seconds since 1970, by the setting that names its file: that of the service, and those that seqd shows to Redis and to the coordinator; missing without one.", "key")
	certificateFailures = counter("seqd_certificate_failures_total", "Times the certificate of the service could not be read again; the previous one stays in use.")
	certificateStale    = gauge(most, "seqd_certificate_stale", "1 while it cannot be read again, so that the previous one is in use, else 0; missing without one.")
	snapshotNewest      = gauge(most, "seqd_snapshot_newest_time_seconds", "When the newest scheduled snapshot that this node knows was begun, in seconds since 1970; 0 if it knows none. Missing without snapshots.every.")
	snapshotEvery       = gauge(most, "seqd_snapshot_every_seconds", "snapshots.every; missing without it.")
	snapshotFailures    = counter("seqd_snapshot_failures_total", "Times a scheduled snapshot could not be saved, or an old one not be removed; missing without snapshots.every.")
)

// eventFamilies are the counters of one kind of event: how often it happened, and how many numbers
// it affected. Either may be nil.
type eventFamilies struct {
	kind           seqd.EventKind
	times, numbers *family
}

// events are the kinds of events that are counted by biz type.
var events = [...]eventFamilies{
	{seqd.EventRefilled, counter("seqd_refills_total", "Ranges that were fetched from the store.", "biz_type"),
		counter("seqd_refilled_numbers_total", "Numbers in the ranges that were fetched.", "biz_type")},
	{seqd.EventRefillFailed, counter("seqd_refill_failures_total", "Attempts to fetch a range that failed.", "biz_type"), nil},
	{seqd.EventAbandoned, counter("seqd_ranges_abandoned_total", "Ranges, or remainders of ranges, that will never be issued.", "biz_type"),
		counter("seqd_numbers_abandoned_total", "Numbers that will never be issued.", "biz_type")},
	{seqd.EventGivenBack, nil, counter("seqd_numbers_given_back_total", "Numbers that were given back to the store at a clean stop or a change.", "biz_type")},
	{seqd.EventSeeded, counter("seqd_reseeds_total", "Cursors in Redis that were started with a range because they were new, lost or no longer valid.", "biz_type"), nil},
	{seqd.EventAdvanced, counter("seqd_advances_total", "Cursors that were moved above numbers that a node had issued on its own.", "biz_type"), nil},
	{seqd.EventFenced, counter("seqd_fence_mismatches_total", "Ranges that the cursor refused; they are skipped.", "biz_type"), nil},
	{seqd.EventGuard, counter("seqd_guard_alarms_total", "Times the cursor offered numbers not above all that this node had issued; they are skipped.", "biz_type"), nil},
	{seqd.EventCursorContested, counter("seqd_cursor_contests_total", "Times this node replaced a live cursor of another epoch, from the third time on, each within a minute of the previous one.", "biz_type"), nil},
	{seqd.EventOutOfOrder, counter("seqd_out_of_order_ranges_total", "Ranges of the store below numbers already seen; they are refused.", "biz_type"), nil},
	{seqd.EventStoreBehind, counter("seqd_store_behind_total", "Times the store was found to be behind numbers already seen.", "biz_type"), nil},
	{seqd.EventStoreFailedOver, counter("seqd_store_failovers_total", "Counters that were continued above a gap because the store had failed over and may have lost ranges of them.", "biz_type"), nil},
	{seqd.EventStoreAway, counter("seqd_store_outages_total", "Times the store stopped giving ranges.", "biz_type"), nil},
	{seqd.EventRedisAway, counter("seqd_redis_outages_total", "Times Redis stopped serving the cursor.", "biz_type"), nil},
	{seqd.EventReservationExpired, counter("seqd_reservations_expired_total", "Reservations that were neither confirmed nor released in time.", "biz_type"),
		counter("seqd_reservation_numbers_expired_total", "Numbers of these reservations.", "biz_type")},
	{seqd.EventNearlyExhausted, counter("seqd_nearly_exhausted_total", "Times less than a hundredth of all numbers was found to be left.", "biz_type"), nil},
}

// Events of the node.
var (
	machineIDsLost = counter("seqd_machine_ids_lost_total", "Machine IDs that this node lost because another node holds them or their record is gone.")
	clockRollbacks = counter("seqd_clock_rollbacks_total", "Times the clock was set back further than snowflake.maxWait.")
)

// State.
var (
	bizTypes         = gauge(most, "seqd_biz_types", "Biz types that this node holds and that are ready, degraded, unready or disabled.", "state")
	degraded         = gauge(most, "seqd_biz_type_degraded", "1 for a biz type that issues, but not as it should; missing for others.", "biz_type")
	unready          = gauge(most, "seqd_biz_type_unready", "1 for a biz type that cannot issue for a reason of this node or its back ends; missing for others.", "biz_type")
	numbersLeft      = gauge(least, "seqd_numbers_left_ratio", "Share of all numbers that is left, 0 to 1; of those that a plugin can display if that is less. Missing for snowflakes, and until it is known.", "biz_type")
	backendUp        = gauge(least, "seqd_backend_up", "1 if a back end (store, redis or coordinator) answered last time, else 0.", "backend")
	storeFailedOver  = gauge(most, "seqd_store_failed_over", "1 while the store has failed over, may have lost counters, and no operator has confirmed that, else 0; missing if the store cannot fail over.")
	storeCreated     = gauge(most, "seqd_store_created_time_seconds", "When the store was new, in seconds since 1970: the first seqd started on it then. Missing for a store in memory, and until it is known.")
	definitionsMixed = gauge(most, "seqd_definitions_mixed", "1 while some nodes follow the definitions of the store and others those of their configuration, else 0; missing if no other node can use the store.")
	leader           = gauge(most, "seqd_leader", "1 at the node that does what one node of the cluster does, such as the removal of what has expired, else 0.")
	feedNumber       = gauge(most, "seqd_feed_change_number", "Number of the newest announced change of definitions and tokens that this node knows.")
	feedFailures     = counter("seqd_feed_failures_total", "Failed attempts to read the changes of other nodes.")
	feedIgnored      = counter("seqd_feed_messages_ignored_total", "Messages on the Redis channel of changes that named nothing, or were more than a node follows.")
)

// Segments.
var (
	inHand           = gauge(least, "seqd_segment_numbers_in_hand", "Numbers that can be issued without the store, as far as this node knows.", "biz_type")
	inHandSeconds    = gauge(least, "seqd_segment_in_hand_seconds", "Time until these are used up at the current rate; +Inf at rate 0. Missing if nothing is fetched ahead, as with sequencer: store.", "biz_type")
	fill             = gauge(least, "seqd_segment_buffer_fill_ratio", "How full both buffers are together, 0 to 1.", "biz_type")
	step             = gauge(most, "seqd_segment_step", "Size of the segment in use.", "biz_type")
	rate             = gauge(most, "seqd_segment_rate", "Numbers per second that leave the store, for all nodes.", "biz_type")
	highest          = gauge(most, "seqd_segment_highest", "The highest number known to have left the store.", "biz_type")
	exhaustion       = gauge(least, "seqd_segment_exhaustion_seconds", "Time until the last number at the current rate; +Inf at rate 0, or if the period ends first.", "biz_type")
	serialExhaustion = gauge(least, "seqd_serial_exhaustion_seconds", "The same until the last number that a plugin can display as configured.", "biz_type", "plugin")
)

// Keys.
var (
	openKeys = gauge(most, "seqd_open_keys", "Keys of a keyed biz type that this node has open.", "biz_type")
	keys     = gauge(most, "seqd_keys", "Keys that a keyed biz type has at most, in the present period if numbers reset, as far as this node knows.", "biz_type")
	maxKeys  = gauge(least, "seqd_max_keys", "Keys that a keyed biz type may have.", "biz_type")
)

// Gapless numbers.
var (
	gaplessReserved = gauge(most, "seqd_gapless_reserved", "Numbers that are reserved, of the counters that are open on this node.", "biz_type")
	gaplessReleased = gauge(most, "seqd_gapless_released", "Numbers that wait to be handed out again, of the counters that are open on this node.", "biz_type")
	gaplessVoids    = gauge(most, "seqd_gapless_voids", "Numbers that are void, of the counters that are open on this node.", "biz_type")
	gaplessShare    = gauge(most, "seqd_gapless_reserved_ratio", "Reserved and released numbers of the counter that has the most, as a share of maxReserved.", "biz_type")
	gaplessAge      = gauge(most, "seqd_gapless_released_age_seconds", "How long the number that was released first has waited to be handed out again; 0 if none waits.", "biz_type")
)

// Snowflakes.
var (
	timestampExhaustion = gauge(least, "seqd_timestamp_exhaustion_seconds", "Time until the last timestamp of the layout.", "registry")
	machineID           = gauge(most, "seqd_machine_id", "The machine ID that this node holds; missing while it holds none.", "registry")
	machineIDsFree      = gauge(least, "seqd_machine_ids_free", "Machine IDs that could be leased when the registry was last seen.", "registry")
	machineIDsUsed      = gauge(most, "seqd_machine_ids_used", "Machine IDs that were leased when the registry was last seen.", "registry")
	leaseSeconds        = gauge(least, "seqd_machine_id_lease_seconds", "Time until the lease of this node's machine ID ends.", "registry")
	clockOffset         = gauge(most, "seqd_registry_clock_offset_seconds", "By how much this node's clock was ahead of the registry's.", "registry")
)

// Worker IDs that other programs lease.
var (
	workersHeld    = gauge(most, "seqd_worker_ids_held", "Worker IDs of a pool that programs held when this node last saw all of its registry; missing if that says little any more.", "pool")
	workersFree    = gauge(least, "seqd_worker_ids_free", "Worker IDs that could be leased then.", "pool")
	workersStandby = gauge(most, "seqd_worker_requests_standing_by", "Requests for a worker ID that wait at this node.", "pool")
	workersLeased  = counter("seqd_worker_leases_total", "Leases of worker IDs that this node granted.", "pool")
	workersRenewed = counter("seqd_worker_renewals_total", "Leases that this node renewed.", "pool")
	workersLost    = counter("seqd_worker_leases_lost_total", "Renewals and releases that this node refused because the lease had ended.", "pool")
)

// Jobs.
var (
	jobsRunning = gauge(most, "seqd_jobs_running", "Jobs that this node runs.")
	jobsWaiting = gauge(most, "seqd_jobs_waiting", "Jobs that were due and had not begun when this node last looked, at most 100.")
	jobsEnded   = counter("seqd_jobs_ended_total", "Jobs that ended on this node: done, failed or cancelled.", "state")
	jobNumbers  = counter("seqd_job_numbers_total", "Numbers that this node issued for jobs.")
)

// Subscriptions.
var (
	subscriptions     = gauge(most, "seqd_subscriptions", "Subscriptions that this node sends events for.")
	deliveries        = counter("seqd_deliveries_total", "Attempts of this node to send an event to its receiver: delivered; failed; dead, the last one failed too; or gone, it answered 410.", "outcome")
	deliveriesPending = gauge(most, "seqd_deliveries_pending", "Events of these subscriptions that their receivers do not have yet.")
	deliveriesDead    = gauge(most, "seqd_deliveries_dead", "Events of these subscriptions that were given up and are kept.")
)

// Plugins and rejection handlers. A handler is in plugin, as webhook:1, and its biz_type is empty.
var (
	queueDepth   = gauge(most, "seqd_queue_depth", "Records that wait in a queue.", "biz_type", "plugin")
	queueSize    = gauge(least, "seqd_queue_size", "Records that the queue has room for.", "biz_type", "plugin")
	queueDropped = counter("seqd_queue_dropped_total", "Records that were dropped because the queue was full or its target was away.", "biz_type", "plugin")
	fallback     = gauge(most, "seqd_rate_limit_fallback", "1 while each node limits on its own because Redis cannot be used, else 0; missing if limits are not shared.", "biz_type", "plugin")
)

// The process.
var (
	linesDropped   = counter("seqd_log_lines_dropped_total", "Log lines that were dropped because they could not be written in time.")
	linesSkipped   = counter("seqd_access_log_lines_skipped_total", "Requests without a line in the access log because of server.accessLogPerSecond.")
	spansDropped   = counter("seqd_trace_spans_dropped_total", "Spans that were dropped because they could not be sent in time.")
	reloadFailures = counter("seqd_reload_failures_total", "Times the configuration could not be read again at a reload; it stayed as it was.")
	configRead     = gauge(least, "seqd_config_read_time_seconds", "When the configuration that this node works with was read, in seconds since 1970.")
	configFailed   = gauge(most, "seqd_config_reload_failed", "1 if the last reload failed, and the node works with an earlier configuration than that of its file, else 0.")
	configRestart  = gauge(most, "seqd_config_restart_needed", "1 if the node has read a configuration of which a part needs a restart, else 0.")
	buildInfo      = gauge(most, "seqd_build_info", "Always 1; the labels say what runs.", "version", "revision", "goversion")
	startTime      = gauge(most, "seqd_start_time_seconds", "When this process started to serve, in seconds since 1970.")
)

// measured are the families of what strategies and plugins measure for a biz type.
var measured = map[seqd.Gauge]*family{
	seqd.GaugeInHand: inHand, seqd.GaugeFill: fill, seqd.GaugeStep: step, seqd.GaugeRate: rate, seqd.GaugeHighest: highest,
	seqd.GaugeOpenKeys: openKeys, seqd.GaugeKeys: keys, seqd.GaugeMaxKeys: maxKeys,
	seqd.GaugeReserved: gaplessReserved, seqd.GaugeReleased: gaplessReleased, seqd.GaugeVoids: gaplessVoids,
	seqd.GaugeReservedShare: gaplessShare, seqd.GaugeReleasedAge: gaplessAge,
}

// besides are the families of what plugins and rejection handlers measure for themselves.
var besides = map[seqd.Gauge]*family{
	seqd.GaugeQueued: queueDepth, seqd.GaugeQueueSize: queueSize, seqd.GaugeDropped: queueDropped, seqd.GaugeFallback: fallback,
}

// registries are the families of what strategies measure for a registry of machine IDs.
var registries = map[seqd.Gauge]*family{
	seqd.GaugeMachineID: machineID, seqd.GaugeMachineIDsFree: machineIDsFree, seqd.GaugeMachineIDsUsed: machineIDsUsed,
	seqd.GaugeLeaseLeft: leaseSeconds, seqd.GaugeClockOffset: clockOffset, seqd.GaugeTimeLeft: timestampExhaustion,
}

// reasons are the codes of refusals. Any other code comes from foreign code and counts as the last
// one, which is [seqd.CodeInternal].
var reasons = seqd.Codes()
