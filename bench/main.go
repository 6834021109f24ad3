// Command bench measures the figures of docs/PERFORMANCE.md and prints them as Markdown. Each figure
// and its baseline are measured in turn in the same run. The flag -write puts the output into the
// document, and the plots and the raw data into the folder beside it. bench is a separate module so
// that seqd does not depend on the libraries it is compared with. Run it with scripts/bench, which
// installs what is needed and builds seqd.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// options are the flags of the command line.
type options struct {
	rounds    int
	duration  time.Duration
	quick     bool
	list      bool
	binary    string
	oldBinary string
	old       string
	tinyid    string
	commit    string
	only      string
	profiles  string
	json      string
	write     string
	patience  patience
}

func (o *options) parse() {
	flag.IntVar(&o.rounds, "rounds", 9, "rounds of each figure; some have twice as many, those that take long have fewer")
	flag.DurationVar(&o.duration, "duration", 700*time.Millisecond, "length of one load")
	flag.BoolVar(&o.quick, "quick", false, "10,000 biz types instead of a million, and up to 100 connections")
	flag.BoolVar(&o.list, "list", false, "list the figures and end")
	flag.StringVar(&o.binary, "binary", "", "the built seqd")
	flag.StringVar(&o.oldBinary, "oldbinary", "", "an older seqd that is compared with it; scripts/bench -old REVISION builds one")
	flag.StringVar(&o.old, "old", "", "the revision of the older seqd, for the output")
	flag.StringVar(&o.tinyid, "tinyid", "", "the jar of Tinyid's server, which is then a peer of tinyid.segments; it needs Java")
	flag.StringVar(&o.commit, "commit", "unknown", "the commit that is measured, for the output")
	flag.StringVar(&o.only, "only", "", "measure only these figures, separated by commas; the part of a name before a dot stands for all that have it")
	flag.StringVar(&o.json, "json", "", "write the raw data to this file")
	flag.StringVar(&o.write, "write", "", "put the output into this document, between its two bench comments, and the plots and raw data into the folder performance beside it")
	flag.StringVar(&o.profiles, "profiles", "", "instead of figures, write a CPU and an allocation profile of each hot path into this folder")
	flag.DurationVar(&o.patience.each, "wait", 30*time.Second, "wait so long for a quiet machine before each figure")
	flag.DurationVar(&o.patience.all, "waitall", 5*time.Minute, "wait so long in all")
	flag.Parse()
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	switch {
	case len(os.Args) == 2 && os.Args[1] == loadCommand:
		return generate(ctx)
	case len(os.Args) == 3 && os.Args[1] == peerCommand:
		return servePeer(ctx, os.Args[2])
	}
	var o options
	o.parse()
	switch {
	case o.list:
		listFigures(os.Stdout)
		return nil
	case o.profiles != "":
		return writeProfiles(ctx, o)
	case o.binary == "":
		return errors.New("-binary is needed; scripts/bench builds it")
	}
	list, err := chosen(o)
	if err != nil {
		return err
	}
	d := newDocument(ctx, o)
	for _, f := range list {
		if err := d.measure(ctx, &o, f); err != nil {
			return err
		}
	}
	err = d.write(o)
	if len(d.Failed) > 0 {
		err = errors.Join(err, fmt.Errorf("%d figures could not be measured: %s", len(d.Failed), strings.Join(d.Failed, "; ")))
	}
	return err
}

// measure measures a figure and notes what disturbed it. The error is that of ctx; a figure that fails
// is noted.
func (d *document) measure(ctx context.Context, o *options, f figure) error {
	if err := o.patience.await(ctx); err != nil {
		return err
	}
	before, err := readUsage()
	if err != nil {
		return err
	}
	its := *o
	its.rounds = f.roundsOf(o.rounds)
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, f.limit(*o))
	out, failed := f.run(limited, its)
	cancel()
	took := time.Since(began)
	after, err := readUsage()
	if err := errors.Join(err, ctx.Err()); err != nil {
		return errors.Join(err, failed)
	}
	m := measurement{Figure: f.name, Rounds: its.rounds, Took: took.Seconds(), Budget: f.budget.Seconds(), Noise: noiseBetween(before, after)}
	fmt.Fprintln(os.Stderr, m)
	d.add(m, out, failed)
	return nil
}

// limit is how long a figure may take before it fails.
func (f figure) limit(o options) time.Duration {
	longer := max(1, o.duration.Seconds()/0.7) * max(1, float64(o.rounds)/9)
	return time.Duration(4*longer*float64(f.budget)) + time.Minute
}
