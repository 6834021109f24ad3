package seqd

// LatencyObserver is what an [Observer] implements that wants to know how long calls take. Without
// one no clock is read for it.
type LatencyObserver interface {
	// Took is told of each call of [Issuer.Issue] that reached a biz type, issued or refused: the
	// name of its strategy, "" where nothing stands in its place, and how long it took in ns. Like
	// everything of an Observer it is on the hot path.
	Took(strategy string, ns int64)
}

// Gauge names a value that an operator watches.
type Gauge string

// What strategies, plugins and rejection handlers measure. Unless something else is said a value
// belongs to a biz type.
const (
	// GaugeInHand is how many numbers can be issued without the store, as far as this node knows:
	// its buffers; or what waited in the cursor when the node last took from it or looked, with its
	// own standby range. Other nodes take from the cursor too, so a node that is not asked for
	// numbers tells of the past.
	GaugeInHand Gauge = "in_hand"
	// GaugeFill is how full buffer 1 and buffer 2 are together: 0 for empty, 1 for two whole
	// segments. Missing while the step is 0.
	GaugeFill Gauge = "fill"
	// GaugeStep is how many numbers were fetched at once for the segment in use; over a cursor, for
	// the last one that this node brought. 0 before the first.
	GaugeStep Gauge = "step"
	// GaugeHighest is the highest number that this node knows to have left the store; missing until
	// it knows of one.
	GaugeHighest Gauge = "highest"
	// GaugeRate is how many numbers a second leave the store for all nodes, from one refill of this
	// node to the next, at least 10 s. It is 0 until there were two, and goes down to 0 where none
	// follows. Up to twice too high while steps still grow; a counter that was raised by hand shows
	// as a rate until the next refill.
	GaugeRate Gauge = "rate"
	// GaugeLimit is the highest number there can be: of a strategy, or the highest one that a
	// plugin can show as it is meant to.
	GaugeLimit Gauge = "limit"
	// GaugePeriodLeft is for how many seconds numbers of this period are issued; missing where
	// numbers never begin again.
	GaugePeriodLeft Gauge = "period_left"
	// GaugeMachineID is the machine ID that this node holds in a registry; missing while it holds
	// none.
	GaugeMachineID Gauge = "machine_id"
	// GaugeMachineIDsFree and GaugeMachineIDsUsed are how many machine IDs of a registry could be
	// leased now, and how many are leased, as last seen.
	GaugeMachineIDsFree Gauge = "machine_ids_free"
	GaugeMachineIDsUsed Gauge = "machine_ids_used"
	// GaugeLeaseLeft is for how many seconds from now the lease of the machine ID holds; 0 when it
	// has ended.
	GaugeLeaseLeft Gauge = "lease_left"
	// GaugeClockOffset is by how many seconds the clock of this node was ahead of the registry's
	// when they were last compared.
	GaugeClockOffset Gauge = "clock_offset"
	// GaugeTimeLeft is for how many seconds from now the layout of a registry has timestamps.
	GaugeTimeLeft Gauge = "time_left"
	// GaugeQueued and GaugeQueueSize are how many records wait in a queue and how many there is
	// room for. Biz types whose records go into one queue say the same of it.
	GaugeQueued    Gauge = "queued"
	GaugeQueueSize Gauge = "queue_size"
	// GaugeDropped is how many records were dropped since the start: it only grows.
	GaugeDropped Gauge = "dropped"
	// GaugeFallback is 1 while each node limits on its own because the last request could not use
	// Redis, else 0; missing where limits are not shared.
	GaugeFallback Gauge = "fallback"
)

// Measurement is one value as it is now.
type Measurement struct {
	Gauge Gauge
	// Of is what is measured where that is not the biz type: the name of a registry of machine IDs.
	// Biz types that share it say the same of it.
	Of    string
	Value float64
}

// Measurer is what a strategy, a plugin or a rejection handler implements that has values to watch.
type Measurer interface {
	// Measure tells each value as it is now. It does no I/O, waits for nobody who does, takes about
	// a microsecond, for there may be 100,000 biz types, and is safe for concurrent use, also
	// before Init and after Close.
	Measure(tell func(Measurement))
}

// Measure tells what the strategies and plugins of all biz types measure. plugin is "" for what the
// strategy does. The order of biz types is not defined; all of one biz type come one after the
// other. It is safe for concurrent use; tell is called by one goroutine.
func (is *Issuer) Measure(tell func(bizType, plugin string, m Measurement)) {
	for i := range is.serving() {
		if m, ok := i.strategy.(Measurer); ok {
			is.measure(i, "", m, tell)
		}
		for _, l := range i.chain {
			if m, ok := l.Plugin.(Measurer); ok {
				is.measure(i, l.Name, m, tell)
			}
		}
	}
}

// measure survives a panic: what watches must not end what it watches.
func (is *Issuer) measure(i *instance, plugin string, m Measurer, tell func(bizType, plugin string, m Measurement)) {
	var err error
	defer func() {
		if err != nil {
			is.log.Error("measuring failed", "bizType", i.name, "plugin", plugin, "error", err)
		}
	}()
	defer recoverFrom(CodeInternal, "measuring", i.name, &err)
	m.Measure(func(value Measurement) { tell(i.name, plugin, value) })
}
