package generate

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seqd/seqd/client"
	"github.com/seqd/seqd/command/clitool"
)

const long = `Write many numbers of a biz type to a file, one ID per line, from a running service.

The answers of the service reach the file whole or not at all. If the command is interrupted, by a
signal, a crash, a full disk or a service that is away for longer than --patience, the same command
with --resume continues: no line is lost, and none is there twice. Numbers that were on their way
are skipped. Until the file is complete, a note is beside it: FILE` + noteSuffix + `.

With --job the service issues the numbers in the background, and then they are downloaded. The job
goes on if the command is interrupted, and no number is skipped: the note names it, and --resume
continues the download where the file ends. --job=ID downloads the numbers of a job that is there.`

// New returns the command seqd generate.
func New(env *clitool.Env) *cobra.Command {
	var o job
	cmd := &cobra.Command{
		Use: "generate BIZTYPE --count N -o FILE", Short: "Write many numbers to a file", Long: long,
		Example: `  seqd generate invite --count 10000000 -o codes.txt
  seqd generate invite --count 10000000 -o codes.txt --resume
  seqd generate invite --count 1000000000 -o codes.txt --job
  seqd generate invite --count 1000 -o - | sort`,
		GroupID: clitool.GroupClient, Args: clitool.Operands("BIZTYPE"), ValidArgsFunction: env.CompleteBizTypes,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.BizType, o.Stdout = args[0], env.Out
			if o.Job == "" && cmd.Flags().Changed("job") {
				return clitool.Usage("--job= names no job: --job alone makes one")
			}
			return run(cmd.Context(), env, o)
		},
	}
	env.AddConnection(cmd)
	f := cmd.Flags()
	f.Int64Var(&o.Count, "count", 0, "`N` lines that the file has in the end")
	f.StringVarP(&o.Output, "output", "o", "", "`FILE`, or - for the standard output")
	f.BoolVar(&o.Resume, "resume", false, "continue a file that is incomplete; begin it if there is none")
	f.BoolVar(&o.Force, "force", false, "replace a file that exists")
	f.StringVar(&o.Job, "job", "", "issue through a job; with `ID` through that one")
	f.Lookup("job").NoOptDefVal = newJob
	f.IntVar(&o.Batch, "batch", 0, "`IDS` that one request asks for (default as many as the service allows)")
	f.IntVar(&o.Parallel, "parallel", defaultParallel, "`REQUESTS` at a time")
	f.DurationVar(&o.Patience, "patience", defaultPatience, "how long to wait for a service that is away")
	cmd.MarkFlagsMutuallyExclusive("job", "batch")
	cmd.MarkFlagsMutuallyExclusive("job", "parallel")
	_ = cmd.MarkFlagRequired("count")
	_ = cmd.MarkFlagRequired("output")
	return cmd
}

// run generates with the connection of env, and shows progress and result.
func run(ctx context.Context, env *clitool.Env, o job) error {
	if o.Output == stdout && env.JSON {
		return clitool.Usage("the standard output takes the numbers or the JSON of --json, not both: name a file")
	}
	conn, err := env.Connection()
	if err != nil {
		return err
	}
	o.Client = client.Config{Addrs: conn.Addrs, Token: conn.Token, Timeout: conn.Timeout}
	shown := newProgress(env, &o)
	o.Progress, o.Issued, o.Waiting = shown.report, shown.issued, shown.waiting
	sum, err := generate(ctx, o)
	shown.end()
	if err != nil {
		return failed(env, &o, shown, err)
	}
	if o.Output == stdout {
		return nil
	}
	return env.ShowText(sum, fmt.Sprintf("%s: %d lines in %.1fs, %.0f/s%s", sum.Output, sum.Lines, sum.TookMS/1000, sum.Rate, sum.remarks()))
}

// remarks says what is not the rule.
func (s *summary) remarks() (text string) {
	if s.Resumed > 0 {
		text += fmt.Sprintf("; %d were there", s.Resumed)
	}
	if s.Skipped > 0 {
		text += fmt.Sprintf("; up to %d numbers were skipped", s.Skipped)
	}
	return text
}

// failed says why a run ended, and how to continue.
func failed(env *clitool.Env, o *job, shown *progress, err error) error {
	if errors.Is(err, errMistake) {
		return clitool.AsUsage(err)
	}
	err = env.Explain(err)
	resumable, ok := errors.AsType[*resumableError](err)
	if !ok && shown.job == "" {
		return err
	}
	why := err.Error()
	if errors.Is(err, context.Canceled) {
		why = "interrupted"
	}
	if ok {
		why += fmt.Sprintf("\n%s has %d of %d lines; the same command with --resume continues", o.Output, resumable.Lines, o.Count)
	} else {
		why += "\nThe same command with --job=" + clitool.Escape(shown.job) + " begins the download again"
	}
	if shown.job != "" && !shown.ended {
		why += fmt.Sprintf("\nThe job goes on meanwhile: seqd jobs remove %s cancels it", clitool.Escape(shown.job))
	}
	return errors.New(why)
}
