package server

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/version"
	"github.com/seqd/seqd/server/config"
)

// Option changes how a Server works.
type Option func(*options)

type options struct {
	log      *slog.Logger
	logTo    io.Writer
	version  string
	revision string
	now      func() time.Time
	observer seqd.Observer
	rejected seqd.RejectedHandler
	onListen func(net.Addr)
	// onListenResp is onListen for resp.addr.
	onListenResp func(net.Addr)
	// certLook is the pause between two looks at the files of the certificate.
	certLook time.Duration
	hurry    context.Context
	// load reads the configuration again, and askedToReload waits until a signal asks for that, or returns
	// false if ctx ends. Both are nil without a reload.
	load          func() (*config.Config, error)
	askedToReload func(ctx context.Context) bool
}

func newOptions(opts []Option) options {
	o := options{logTo: os.Stderr, now: time.Now, certLook: 5 * time.Second, hurry: context.Background()}
	for _, opt := range opts {
		opt(&o)
	}
	if o.observer == nil {
		o.observer = seqd.NopObserver{} // it is called without asking
	}
	return o
}

// WithLogger uses log instead of one made from the configuration.
func WithLogger(log *slog.Logger) Option { return func(o *options) { o.log = log } }

// WithLogOutput writes the log to w instead of standard error. If w blocks or fails, lines are
// dropped, and nothing else happens. But a program whose standard output or error is a pipe must
// ignore SIGPIPE: otherwise Go ends it when the reader has ended.
func WithLogOutput(w io.Writer) Option { return func(o *options) { o.logTo = w } }

// WithClock uses now wherever the time of day matters. It is meant for tests.
func WithClock(now func() time.Time) Option { return func(o *options) { o.now = now } }

// WithHurry shortens a stop when hurry ends: drainDelay ends, and requests that still run a second
// later are cut off. Numbers are given back as in any other stop.
func WithHurry(hurry context.Context) Option { return func(o *options) { o.hurry = hurry } }

// patient returns a context that ends after patience, or a second after the end of hurry.
func (o *options) patient(patience time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	stop := context.AfterFunc(o.hurry, func() { time.AfterFunc(time.Second, cancel) })
	return ctx, func() { stop(); cancel() }
}

// WithVersion says what is running, in /metrics, /nodes and traces, instead of what the program was
// built from.
func WithVersion(version string) Option { return func(o *options) { o.version = version } }

// WithRevision says which commit is running, if the program does not know it: one that is built
// without its repository does not. "" says nothing.
func WithRevision(revision string) Option { return func(o *options) { o.revision = revision } }

// WithObserver calls observer with what happens, in addition to what /metrics shows.
func WithObserver(observer seqd.Observer) Option { return func(o *options) { o.observer = observer } }

// WithRejected calls handler with refusals instead of the default, which logs them.
func WithRejected(handler seqd.RejectedHandler) Option {
	return func(o *options) { o.rejected = handler }
}

// WithOnListen calls f with the address as soon as the port is open.
func WithOnListen(f func(net.Addr)) Option { return func(o *options) { o.onListen = f } }

// WithOnListenResp calls f with the address for Redis clients as soon as that port is open, if
// there is one. It is called before the function of [WithOnListen].
func WithOnListenResp(f func(net.Addr)) Option { return func(o *options) { o.onListenResp = f } }

// build is the version of the program, and what it was built from if that is known.
func (o *options) build() string {
	number, revision := o.built()
	return strings.TrimSpace(number + " " + revision)
}

// built returns the version of the program and the revision that it was built from.
func (o *options) built() (number, revision string) {
	return version.Of(o.version), version.Revision(o.revision)
}
