package metrics

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/issuer"
)

// Source provides what is collected at a scrape. Every field may be nil. No function may block.
type Source struct {
	// Issuer has the biz types; nil while the service is starting.
	Issuer *issuer.Issuer
	// HTTP returns the state of the HTTP server.
	HTTP func() HTTP
	// RESPConnections returns how many connections of the Redis protocol are open.
	RESPConnections func() int64
	// Backends reports whether each back end answered last time.
	Backends func(tell func(name string, up bool))
	// Pools reports the state of the pool of connections to each back end that has one.
	Pools func(tell func(backend string, p ConnPool))
	// Disks tells, by what it is for, the free space and the size of each disk that seqd writes to, in bytes. Of that
	// of the store, which is a file then, it tells how large its files are.
	Disks func(tell func(kind string, files, free, size int64))
	// Snapshots returns what is known of scheduled snapshots. ok is false if there are none.
	Snapshots func() (s Snapshots, ok bool)
	// Certificate returns until when the certificate of the service is valid, how often it could not
	// be read again, and whether that is so now.
	Certificate func() (until time.Time, failures int64, stale bool)
	// ClientCertificates tells until when each certificate is valid that seqd shows to servers, in
	// seconds since 1970, by the key of its file.
	ClientCertificates func(tell func(key string, until int64))
	// FailedOver returns why an operator has to look at the store, nil if nobody has to. ok is
	// false if the store cannot fail over.
	FailedOver func() (why *seqd.Error, ok bool)
	// StoreCreated returns when the store was new. ok is false if that is not known.
	StoreCreated func() (at time.Time, ok bool)
	// Mixed returns why an operator has to look at where the definitions of nodes come from, nil if
	// nobody has to.
	Mixed func() *seqd.Error
	// Leading reports whether this node does what one node of the cluster does.
	Leading func() bool
	// Handlers reports what the rejection handlers measure, by the name of the handler.
	Handlers func(tell func(handler string, m seqd.Measurement))
	// Feed returns the number of the newest announced change, how many attempts to read changes
	// failed, and how many messages were ignored.
	Feed func() (number, failures, ignored int64)
	// AnswerBytes returns how many bytes the answers to requests with an Idempotency-Key take on all
	// nodes, and how many they may take, 0 for any number.
	AnswerBytes func() (bytes, most int64)
	// Workers tells what this node measures of each pool of worker IDs.
	Workers func(tell func(pool string, p Pool))
	// Jobs returns what this node measures of jobs.
	Jobs func() Jobs
	// Deliveries are what this node measures of subscriptions.
	Deliveries func() Deliveries
	// ReloadFailures counts configurations that could not be read again.
	ReloadFailures func() int64
	// Configuration returns when the configuration was read, whether a later one could not be read, and
	// whether a part of it needs a restart.
	Configuration func() (readAt time.Time, failed, restart bool)
	// LinesDropped and LinesSkipped count log lines, SpansDropped counts spans that were left out.
	LinesDropped, LinesSkipped, SpansDropped func() int64
}

// ConnPool is the state of a pool of connections.
type ConnPool struct {
	InUse, Most int
	// Waits and Waited are totals.
	Waits  int64
	Waited time.Duration
}

// Snapshots is what a node knows of scheduled snapshots.
type Snapshots struct {
	Every time.Duration
	// Newest is when the newest one was begun; zero if the node knows none.
	Newest time.Time
	// Failures is a total.
	Failures int64
}

// HTTP is the state of the HTTP server.
type HTTP struct {
	// InFlight and Connections are current values.
	InFlight, Connections int64
	// Shed, Refused, Displaced, Silent, and the outcomes of requests with an Idempotency-Key are
	// totals.
	Shed, Refused, Displaced, Silent int64
	Issued, Replayed, Failed         int64
}

// Deliveries are what a node measures of subscriptions: totals by outcome, and how much those have now
// for which it sends.
type Deliveries struct {
	Delivered, Failed, Dead, Gone int64
	Subscriptions, Pending, Kept  int64
}

// Pool is what a node measures of a pool of worker IDs. Held and Free count only if Seen.
type Pool struct {
	Held, Free            int64
	Seen                  bool
	StandingBy            int64
	Leased, Renewed, Lost int64
}

// Jobs is what a node measures of jobs.
type Jobs struct{ Running, Waiting, Done, Failed, Cancelled, Numbers int64 }

// Describe implements [prometheus.Collector].
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, f := range families {
		to <- f.desc
	}
}

// Collect implements [prometheus.Collector]. It sends counters first, so that they are shown even
// if a strategy panics when its state is read.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.scrape.Lock()
	defer m.scrape.Unlock()
	defer func() {
		if p := recover(); p != nil {
			m.opts.Log.Error("panic while collecting metrics", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
	}()
	s := m.opts.Source()
	m.collectRoutes(to)
	m.collectCommands(to)
	for _, t := range []*timings{m.latencies, m.requests, m.stores, m.syncs, m.redis, m.waits} {
		t.collect(to)
	}
	m.collectCounts(to)
	m.collectProcess(to, s)
	collectBackends(to, s)
	collectWorks(to, s)
	m.collectState(to, s)
}

// send sends one value. It skips a value that cannot be shown.
func (f *family) send(to chan<- prometheus.Metric, v float64, labels ...string) {
	if metric, err := prometheus.NewConstMetric(f.desc, f.value, v, labels...); err == nil {
		to <- metric
	}
}

// collectCounts sends what observers reported. Counters of events and refusals are only sent if they
// are not 0: each biz type has few kinds of them, and the others would be two thirds of all series.
func (m *Metrics) collectCounts(to chan<- prometheus.Metric) {
	for _, c := range append(m.bizTypes.all(), &m.other) {
		issuedTotal.send(to, float64(c.issued.Load()), c.bizType)
		for i := range reasons {
			if n := c.rejected[i].Load(); n > 0 {
				rejectedTotal.send(to, float64(n), c.bizType, string(reasons[i].Code))
			}
		}
		for i, e := range events {
			if n := c.times[i].Load(); e.times != nil && n > 0 {
				e.times.send(to, float64(n), c.bizType)
			}
			if n := c.numbers[i].Load(); e.numbers != nil && n > 0 {
				e.numbers.send(to, float64(n), c.bizType)
			}
		}
	}
	machineIDsLost.send(to, float64(m.machineIDsLost.Load()))
	clockRollbacks.send(to, float64(m.clockRollbacks.Load()))
}

// collectProcess sends the metrics of the process.
func (m *Metrics) collectProcess(to chan<- prometheus.Metric, s Source) {
	buildInfo.send(to, 1, m.opts.Version, m.opts.Revision, runtime.Version())
	startTime.send(to, float64(m.started.UnixMilli())/1000)
	for f, count := range map[*family]func() int64{linesDropped: s.LinesDropped, linesSkipped: s.LinesSkipped, spansDropped: s.SpansDropped, reloadFailures: s.ReloadFailures} {
		if count != nil {
			f.send(to, float64(count()))
		}
	}
	if s.Configuration != nil {
		readAt, failed, restart := s.Configuration()
		configRead.send(to, float64(readAt.UnixMilli())/1000)
		configFailed.send(to, truth(failed))
		configRestart.send(to, truth(restart))
	}
	if s.HTTP != nil {
		h := s.HTTP()
		requestsInFlight.send(to, float64(h.InFlight))
		requestsShed.send(to, float64(h.Shed))
		connectionsOpen.send(to, float64(h.Connections))
		connectionsRefused.send(to, float64(h.Refused))
		connectionsClosed.send(to, float64(h.Displaced), "displaced")
		connectionsClosed.send(to, float64(h.Silent), "silent")
		idempotentTotal.send(to, float64(h.Issued), "issued")
		idempotentTotal.send(to, float64(h.Replayed), "replayed")
		idempotentTotal.send(to, float64(h.Failed), "failed")
	}
	if s.AnswerBytes != nil {
		bytes, most := s.AnswerBytes()
		answerBytes.send(to, float64(bytes))
		answerBytesMax.send(to, float64(most))
	}
	if s.RESPConnections != nil {
		respConnections.send(to, float64(s.RESPConnections()))
	}
	if s.Mixed != nil {
		definitionsMixed.send(to, truth(s.Mixed() != nil))
	}
	if s.Leading != nil {
		leader.send(to, truth(s.Leading()))
	}
	if s.Feed != nil {
		number, failures, ignored := s.Feed()
		feedNumber.send(to, float64(number))
		feedFailures.send(to, float64(failures))
		feedIgnored.send(to, float64(ignored))
	}
}

// collectBackends sends the metrics of the store, of Redis, and of files.
func collectBackends(to chan<- prometheus.Metric, s Source) {
	if s.Backends != nil {
		s.Backends(func(name string, up bool) { backendUp.send(to, truth(up), name) })
	}
	if s.FailedOver != nil {
		if why, ok := s.FailedOver(); ok {
			storeFailedOver.send(to, truth(why != nil))
		}
	}
	if s.StoreCreated != nil {
		if at, ok := s.StoreCreated(); ok {
			storeCreated.send(to, float64(at.UnixMilli())/1000)
		}
	}
	if s.Pools != nil {
		s.Pools(func(backend string, p ConnPool) {
			poolInUse.send(to, float64(p.InUse), backend)
			poolMost.send(to, float64(p.Most), backend)
			poolWaits.send(to, float64(p.Waits), backend)
			poolWaited.send(to, p.Waited.Seconds(), backend)
		})
	}
	if s.Disks != nil {
		s.Disks(func(kind string, files, free, size int64) {
			if files > 0 {
				storeFile.send(to, float64(files))
			}
			diskFree.send(to, float64(free), kind)
			diskSize.send(to, float64(size), kind)
		})
	}
	if s.Snapshots != nil {
		if known, ok := s.Snapshots(); ok {
			at := 0.0
			if !known.Newest.IsZero() {
				at = float64(known.Newest.UnixMilli()) / 1000
			}
			snapshotNewest.send(to, at)
			snapshotEvery.send(to, known.Every.Seconds())
			snapshotFailures.send(to, float64(known.Failures))
		}
	}
	if s.Certificate != nil {
		until, failures, stale := s.Certificate()
		certificateEnd.send(to, float64(until.Unix()), "server.tls.certFile")
		certificateFailures.send(to, float64(failures))
		certificateStale.send(to, truth(stale))
	}
	if s.ClientCertificates != nil {
		s.ClientCertificates(func(key string, until int64) { certificateEnd.send(to, float64(until), key) })
	}
}

// collectWorks sends the metrics of jobs and subscriptions.
func collectWorks(to chan<- prometheus.Metric, s Source) {
	if s.Jobs != nil {
		j := s.Jobs()
		jobsRunning.send(to, float64(j.Running))
		jobsWaiting.send(to, float64(j.Waiting))
		jobsEnded.send(to, float64(j.Done), "done")
		jobsEnded.send(to, float64(j.Failed), "failed")
		jobsEnded.send(to, float64(j.Cancelled), "cancelled")
		jobNumbers.send(to, float64(j.Numbers))
	}
	if s.Deliveries != nil {
		d := s.Deliveries()
		deliveries.send(to, float64(d.Delivered), "delivered")
		deliveries.send(to, float64(d.Failed), "failed")
		deliveries.send(to, float64(d.Dead), "dead")
		deliveries.send(to, float64(d.Gone), "gone")
		subscriptions.send(to, float64(d.Subscriptions))
		deliveriesPending.send(to, float64(d.Pending))
		deliveriesDead.send(to, float64(d.Kept))
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
