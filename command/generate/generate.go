// Package generate writes many numbers of one biz type to a file, one ID per line, as a client of a
// running service. It is seqd generate without the command line.
//
// The file grows by whole answers whose lines were counted. What breaks a run (a signal, kill -9, a
// full disk, a lost service) leaves a file that [job.Resume] continues: whole lines stay, a
// partial last line is cut off, and new numbers follow. So no line is lost and none is there twice.
// Numbers of answers that did not reach the file are skipped.
package generate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/seqd/seqd/client"
	"github.com/seqd/seqd/client/admin"
)

// stdout is the name of an Output that is [job].Stdout.
const stdout = "-"

// job says what to generate.
type job struct {
	// BizType is the biz type that the numbers belong to.
	BizType string
	// Count is how many lines the file has in the end, at least 1.
	Count int64
	// Output is the path of the file, or [stdout].
	Output string
	// Stdout takes the lines if Output is [stdout].
	Stdout io.Writer
	// Resume continues a file that an earlier run with the same BizType and Count left incomplete. If
	// there is no file, it begins one.
	Resume bool
	// Force replaces a file that exists.
	Force bool
	// Job is "" to issue at once, [newJob] to issue through a job of the service, and otherwise the ID
	// of a job that is there already.
	Job string
	// Batch is how many IDs one request asks for. 0 takes as many as the service allows, at most
	// [mostBatch].
	Batch int
	// Parallel is how many requests are under way at a time; 0 means [defaultParallel].
	Parallel int
	// Patience is how long a request is repeated while the service is away or refuses for the
	// moment; 0 means [defaultPatience].
	Patience time.Duration
	// Client says where the service is. Patience replaces its Wait.
	Client client.Config
	// Progress is called with the number of lines in the file at the beginning and after each change,
	// never by two goroutines at once. It may be nil.
	Progress func(lines int64)
	// Issued is called with the job as it is now and then. It may be nil.
	Issued func(admin.Job)
	// Waiting is called with what is in the way each time that a request failed and is repeated. It
	// must be safe for concurrent use. It may be nil.
	Waiting func(error)
}

// Defaults and bounds of [job].
const (
	// mostBatch is the largest Batch.
	mostBatch = 1_000_000
	// defaultParallel is enough to keep the service and the file busy.
	defaultParallel = 4
	// mostParallel is the largest Parallel.
	mostParallel = 256
	// mostAtOnce bounds Batch times Parallel, and so the memory of a run.
	mostAtOnce = 4_000_000
	// defaultPatience is longer than a node needs to start.
	defaultPatience = time.Minute

	// firstBatch is what Batch 0 asks for first. The service says what it allows if that is less.
	firstBatch = 100_000
)

// summary says what a run did.
type summary struct {
	BizType string `json:"bizType"`
	Output  string `json:"output"`
	// Lines is how many lines the file has.
	Lines int64 `json:"lines"`
	// Resumed is how many of them were there before.
	Resumed int64 `json:"resumed"`
	// Skipped is how many numbers of this run may have been issued and are not in the file, because
	// their answers were damaged, did not come, or came after the run had to end.
	Skipped int64 `json:"skipped"`
	// TookMS is how long the run took, in milliseconds.
	TookMS float64 `json:"tookMs"`
	// Rate is the number of lines a second that the run added.
	Rate float64 `json:"rate"`
}

// errMistake is wrapped by errors that another try with the same job cannot avoid.
var errMistake = errors.New("")

// mistakef returns an error that wraps [errMistake] and whatever %w names.
func mistakef(format string, args ...any) error {
	return mistake{fmt.Errorf(format, args...)}
}

type mistake struct{ error }

func (m mistake) Unwrap() []error { return []error{m.error, errMistake} }

// resumableError is returned if generate ended early and the file can be continued.
type resumableError struct {
	// Lines is how many lines the file has.
	Lines int64
	// Err is why the run ended.
	Err error
}

func (e *resumableError) Error() string { return e.Err.Error() }
func (e *resumableError) Unwrap() error { return e.Err }

// generate generates the file. It returns after the file is complete and on disk, or with an error.
// If the file can be continued later, the error is a [*resumableError]. The end of ctx stops it.
func generate(ctx context.Context, o job) (summary, error) {
	sum := summary{BizType: o.BizType, Output: o.Output}
	if err := o.complete(); err != nil {
		return sum, err
	}
	began := time.Now()
	from, err := newSource(&o)
	if err != nil {
		return sum, err
	}
	out, err := open(&o)
	if err != nil {
		return sum, err
	}
	sum.Resumed = out.lines()
	if o.Job != "" {
		err = (&background{job: o, out: out, admin: admin.New(from.client)}).run(ctx)
	} else {
		err = (&generator{job: o, out: out, source: from}).run(ctx)
	}
	if err = out.end(err); err != nil && out.resumable() {
		err = &resumableError{Lines: out.lines(), Err: err}
	}
	sum.Lines = out.lines()
	if o.Job == "" {
		sum.Skipped = from.issued.Load() - (sum.Lines - sum.Resumed)
	}
	took := time.Since(began)
	sum.TookMS = float64(took) / float64(time.Millisecond)
	sum.Rate = float64(sum.Lines-sum.Resumed) / max(took.Seconds(), 1e-9)
	return sum, err
}

// complete checks the options and sets defaults.
func (o *job) complete() error {
	switch {
	case o.BizType == "":
		return mistakef("the biz type is missing")
	case o.Count < 1:
		return mistakef("count is %d and must be at least 1", o.Count)
	case o.Output == "":
		return mistakef("the output is missing: name a file, or - for the standard output")
	case o.Batch < 0 || o.Batch > mostBatch:
		return mistakef("batch is %d and must be from 1 to %d, or 0 for as many as the service allows", o.Batch, mostBatch)
	case o.Parallel < 0 || o.Parallel > mostParallel:
		return mistakef("parallel is %d and must be from 1 to %d", o.Parallel, mostParallel)
	case o.Patience < 0:
		return mistakef("patience is %s and must not be negative", o.Patience)
	case o.Resume && o.Force:
		return mistakef("resume continues a file and force replaces it: use one of them")
	case o.Output == stdout && (o.Resume || o.Force):
		return mistakef("the standard output can be neither resumed nor replaced: name a file")
	}
	if o.Parallel == 0 {
		o.Parallel = defaultParallel
	}
	if o.Batch == 0 {
		o.Batch = min(firstBatch, mostAtOnce/o.Parallel)
	}
	if o.Batch*o.Parallel > mostAtOnce {
		return mistakef("batch times parallel is %d and must be at most %d, for the sake of the memory", o.Batch*o.Parallel, mostAtOnce)
	}
	if o.Patience == 0 {
		o.Patience = defaultPatience
	}
	if o.Progress == nil {
		o.Progress = func(int64) {}
	}
	if o.Issued == nil {
		o.Issued = func(admin.Job) {}
	}
	if o.Waiting == nil {
		o.Waiting = func(error) {}
	}
	return nil
}
