package generate

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/seqd/seqd/client/admin"
	"github.com/seqd/seqd/command/clitool"
)

// progress shows how far a run is: a bar on a terminal, and elsewhere a line now and then.
type progress struct {
	env   *clitool.Env
	mu    sync.Mutex // guards what follows, and the order of what is written
	errs  io.Writer
	name  string
	count int64
	of    string // what is shown: name, or a job
	job   string // its ID, if a result can be expected of it
	ended bool   // it has
	began time.Time
	first int64 // lines at the beginning, -1 before the first report
	bars  bool  // on a terminal
	bar   *progressbar.ProgressBar
	next  time.Time // of the next line, without a bar
	now   func() time.Time
	said  time.Time // when the last obstacle was shown
}

// every is the time between two lines.
const every = 5 * time.Second

func newProgress(env *clitool.Env, o *job) *progress {
	p := &progress{env: env, errs: env.Errs, name: o.Output, count: o.Count, now: time.Now}
	p.bars = env.Terminal(env.Errs) && !(o.Output == stdout && env.Terminal(env.Out))
	if o.Output == stdout {
		p.name = o.BizType
	}
	return p
}

// begin begins to show something else.
func (p *progress) begin(of string) {
	p.clear()
	p.of, p.first, p.bar = of, -1, nil
	if p.bars {
		p.bar = progressbar.NewOptions64(p.count,
			progressbar.OptionSetWriter(clitool.Raw(p.env.Errs)), progressbar.OptionSetDescription(clitool.Escape(of)),
			progressbar.OptionSetPredictTime(true), progressbar.OptionShowCount(),
			progressbar.OptionShowIts(), progressbar.OptionSetItsString("lines"),
			progressbar.OptionSetWidth(20), progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionClearOnFinish(), progressbar.OptionUseANSICodes(true))
	}
}

// report shows the number of lines.
func (p *progress) report(lines int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.show(p.name, lines)
}

// issued shows how far the job is.
func (p *progress) issued(j admin.Job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.job = ""; !j.Ended() || j.State == "done" {
		p.job = j.ID
	}
	if p.ended = j.Ended(); !p.ended {
		p.show("job "+j.ID, j.Done)
	}
}

// show shows the number of lines of something.
func (p *progress) show(of string, lines int64) {
	if p.of != of {
		p.begin(of)
	}
	now := p.now()
	if p.first < 0 {
		p.first, p.began, p.next = lines, now, now.Add(every)
		if lines > 0 {
			fmt.Fprintf(p.errs, "%s has %d of %d lines; it continues there\n", of, lines, p.count)
			if p.bar != nil {
				p.bar.ChangeMax64(p.count - lines)
			}
		}
		return
	}
	if p.bar != nil {
		_ = p.bar.Set64(lines - p.first) // an error of the terminal changes nothing
		return
	}
	if now.Before(p.next) {
		return
	}
	p.next = now.Add(every)
	rate := float64(lines-p.first) / now.Sub(p.began).Seconds()
	left := time.Duration(float64(p.count-lines) / rate * float64(time.Second)).Round(time.Second)
	fmt.Fprintf(p.errs, "%s: %d of %d lines, %.0f/s, %s left\n", of, lines, p.count, rate, left)
}

// waiting says what is in the way, now and then.
func (p *progress) waiting(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if !p.said.IsZero() && now.Before(p.said.Add(every)) {
		return
	}
	p.said = now
	p.clear()
	fmt.Fprintf(p.errs, "%s waits: %v\n", p.name, p.env.Explain(err))
}

// end removes the bar.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

func (p *progress) clear() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
