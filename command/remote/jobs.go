package remote

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/seqd/seqd/client/admin"
	"github.com/seqd/seqd/command/clitool"
)

func jobsCommand(env *clitool.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "jobs", Short: "Issue many numbers in the background",
		Long: `Issue up to 1,000,000,000 numbers in the background, and download them. A job survives the loss of
any node.`,
		Example: `  seqd jobs create coupon 1000000
  seqd jobs list`,
		Args: clitool.Operands(),
	}
	cmd.AddCommand(createJob(env), listJobs(env), getJob(env), downloadJob(env), removeJob(env))
	return cmd
}

func createJob(env *clitool.Env) *cobra.Command {
	var r admin.JobRequest
	at := ""
	cmd := &cobra.Command{
		Use: "create BIZTYPE COUNT", Short: "Make a job",
		Long: `Make a job that issues COUNT numbers of a biz type, or with --every a schedule that makes such a job
each day, week or month. It prints the ID.`,
		Example: `  seqd jobs create coupon 1000000 --format csv --name spring
  seqd jobs create coupon 1000000 --at 2026-12-24T00:00:00Z --idempotency-key christmas
  seqd jobs create coupon 1000 --at 2026-12-01T06:00:00+01:00 --every day --time-zone Europe/Berlin`,
		Args: clitool.Operands("BIZTYPE", "COUNT"), ValidArgsFunction: first(env.CompleteBizTypes),
		RunE: withAdmin(env, func(cmd *cobra.Command, a *admin.Admin, args []string) (err error) {
			r.BizType = args[0]
			if r.Count, err = strconv.ParseInt(args[1], 10, 64); err != nil {
				return clitool.Usage("COUNT %q is not a number", args[1])
			}
			if at != "" {
				if r.At, err = time.Parse(time.RFC3339, at); err != nil {
					return clitool.Usage("--at %q is not a time such as 2026-12-24T00:00:00Z", at)
				}
			}
			j, err := a.CreateJob(cmd.Context(), r)
			if err != nil {
				return err
			}
			return env.ShowText(j, j.ID)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&r.Key, "key", "", "`KEY` of a keyed biz type")
	f.StringVar(&r.Format, "format", "text", "`FORMAT` of the result: text, csv or jsonl")
	f.StringVar(&r.Name, "name", "", "a `NAME` for people")
	f.StringVar(&at, "at", "", "when the job begins at the earliest, as a `TIME` (default: now)")
	f.StringVar(&r.Every, "every", "", "make another job each `PERIOD`: day, week or month")
	f.StringVar(&r.TimeZone, "time-zone", "", "the `ZONE` whose clock shows the time of --at each time, such as Europe/Berlin (default: UTC)")
	f.StringVar(&r.Once, "idempotency-key", "", "a `KEY` with which the same command makes no other job")
	return cmd
}

func listJobs(env *clitool.Env) *cobra.Command {
	bizType := ""
	cmd := &cobra.Command{
		Use: "list", Short: "List jobs",
		Long: "List jobs: your own, or all with the scope read.", Example: "  seqd jobs list --biz-type coupon",
		Args: clitool.Operands(), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: withAdmin(env, func(cmd *cobra.Command, a *admin.Admin, _ []string) error {
			l := list[admin.Job]{env: env, field: "jobs", titles: jobTitles, row: jobRow}
			return l.run(cmd.Context(), func(ctx context.Context, p admin.Page) ([]admin.Job, string, error) { return a.Jobs(ctx, bizType, p) })
		}),
	}
	cmd.Flags().StringVar(&bizType, "biz-type", "", "only jobs of this `BIZTYPE`")
	return cmd
}

var jobTitles = []string{"ID", "NAME", "BIZ TYPE", "STATE", "DONE", "COUNT", "LEFT", "FORMAT", "AT", "EXPIRES"}

func jobRow(j admin.Job) []string {
	state, left := j.State, "-"
	if j.Error != nil {
		state += " (" + string(j.Error.Code) + ")"
	}
	if j.SecondsLeft != nil {
		left = (time.Duration(*j.SecondsLeft) * time.Second).String()
	}
	return []string{j.ID, dash(j.Name), j.BizType, state, fmt.Sprint(j.Done), fmt.Sprint(j.Count), left, j.Format, brief(j.At, "-"), brief(j.ExpiresAt, "-")}
}

func getJob(env *clitool.Env) *cobra.Command {
	return &cobra.Command{
		Use: "get JOB", Short: "Show how far a job is",
		Long: "Show how far a job is, and why it failed.", Example: "  seqd jobs get 0123456789abcdef0123456789abcdef --json",
		Args: clitool.Operands("JOB"), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: withAdmin(env, func(cmd *cobra.Command, a *admin.Admin, args []string) error {
			j, err := a.Job(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return env.Show(j, func(w io.Writer) error {
				if err := table(w, [][]string{jobTitles, jobRow(j)}); err != nil || j.Error == nil {
					return err
				}
				_, err := fmt.Fprintln(w, clitool.Escape(j.Error.Detail))
				return err
			})
		}),
	}
}

func downloadJob(env *clitool.Env) *cobra.Command {
	output, wait, partial := "", false, false
	cmd := &cobra.Command{
		Use: "download JOB", Short: "Download the numbers of a job",
		Long: `Download the numbers of a job that is done. A file that is there already is continued where it ends:
so the same command goes on with a download that broke off.`,
		Example: `  seqd jobs download 0123456789abcdef0123456789abcdef --output coupons.csv --wait
  seqd jobs download 0123456789abcdef0123456789abcdef | gzip >coupons.txt.gz`,
		Args: clitool.Operands("JOB"), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: withAdmin(env, func(cmd *cobra.Command, a *admin.Admin, args []string) (err error) {
			id := args[0]
			if wait {
				_, err = a.AwaitJob(cmd.Context(), id, func(admin.Job) {})
			} else { // so that no file is made for a job that is not there
				_, err = a.Job(cmd.Context(), id)
			}
			if err != nil {
				return err
			}
			if output == "" {
				_, err = a.JobResult(cmd.Context(), id, 0, partial, env.Out)
				return err
			}
			f, err := os.OpenFile(output, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
			if err != nil {
				return err
			}
			size, err := f.Seek(0, io.SeekEnd)
			if err == nil {
				w := bufio.NewWriter(f)
				_, err = a.JobResult(cmd.Context(), id, size, partial, w)
				err = cmp.Or(err, w.Flush())
			}
			return cmp.Or(err, f.Close())
		}),
	}
	f := cmd.Flags()
	f.StringVarP(&output, "output", "o", "", "the `FILE` to write (default: standard output)")
	f.BoolVar(&wait, "wait", false, "wait until the job has ended")
	f.BoolVar(&partial, "partial", false, "download what a job that failed or was cancelled has issued")
	return cmd
}

func removeJob(env *clitool.Env) *cobra.Command {
	return &cobra.Command{
		Use: "remove JOB", Short: "Cancel a job, or remove it with its result",
		Long:    "Cancel a job that is queued or running, or end a schedule. One that has ended is removed.",
		Example: "  seqd jobs remove 0123456789abcdef0123456789abcdef",
		Args:    clitool.Operands("JOB"), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: withAdmin(env, func(cmd *cobra.Command, a *admin.Admin, args []string) error {
			if err := a.RemoveJob(cmd.Context(), args[0]); err != nil {
				return err
			}
			return env.ShowText(deletion{args[0], true}, args[0]+": cancelled, or removed")
		}),
	}
}
