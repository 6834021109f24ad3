// Package lease is seqd lease: it runs a command with a worker ID that is leased for it ([run]).
package lease

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/seqd/seqd/client"
	"github.com/seqd/seqd/command/clitool"
)

// exitLost is the exit code if the lease was lost: EX_TEMPFAIL of sysexits.h. Another try may
// succeed.
const exitLost = clitool.Exit(75)

// standBy is how long one request waits while all worker IDs are held.
const standBy = 20 * time.Second

// New returns the command.
func New(env *clitool.Env) *cobra.Command {
	var instance string
	var wait time.Duration
	cmd := &cobra.Command{
		Use: "lease POOL -- COMMAND [ARG]...", Short: "Run a command with a leased worker ID", GroupID: clitool.GroupClient,
		Long: `Lease a worker ID of a pool, and run COMMAND with WORKER_ID, WORKER_POOL, WORKER_AFTER and
WORKER_UNTIL in its environment: for programs that make IDs of the form of snowflake and take a
worker ID as a number. No other holder of the pool has this worker ID while COMMAND runs. The lease
is renewed, so WORKER_UNTIL is only where it first ends. While all worker IDs are held, it stands
by.

COMMAND begins once the clock has passed WORKER_AFTER, so it repeats no ID of an earlier holder. It
gets SIGINT, SIGTERM and SIGHUP. If the lease is lost, or cannot be renewed for two thirds of its
time, COMMAND gets SIGTERM, and SIGKILL before the lease ends. It must not leave other processes
behind: in a shell script begin the last line with exec. While seqd alone is stopped (SIGSTOP),
nobody ends COMMAND; if seqd is killed, only Linux does. Only one generator in one process of
COMMAND may use WORKER_ID: a server that forks workers needs a lease for each of them.

A program that takes only a number is protected over restarts, but not over pauses: one that is
stopped beyond the end of its lease together with seqd, such as with its virtual machine, may make
IDs of the next holder before it is ended. The same is true if its clock is set back. The Go client
checks the time of each ID, and is protected.

It exits with the code of COMMAND, or 128 and the number of the signal that ended it; with 75 if the
lease was lost.`,
		Example: `  seqd lease shop -- ./shop --port 8080
  seqd lease shop --instance shop.8080.10.0.0.7 --wait 5m -- ./shop
  seqd lease shop -- sh -c 'exec java -DworkerId=$WORKER_ID -jar shop.jar'`,
		Args: operands,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveDefault // the files of COMMAND
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := exec.LookPath(args[1])
			switch {
			case err != nil:
				return clitool.Usage("%s: %w", args[1], errors.Unwrap(err))
			case wait < 0:
				return clitool.Usage("--wait %s: it must not be negative", wait)
			case !cmd.Flags().Changed("wait"):
				wait = -1
			}
			c, err := env.Client()
			if err != nil {
				return err
			}
			if instance == "" {
				host, _ := os.Hostname() // without one the rest has to do
				instance = fmt.Sprintf("%s.%d@%s", filepath.Base(path), os.Getpid(), host)
			}
			signals := make(chan os.Signal, 8)
			signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
			if !signal.Ignored(syscall.SIGHUP) { // by nohup, which COMMAND is to have too
				signal.Notify(signals, syscall.SIGHUP)
			}
			defer signal.Stop(signals)
			l, err := acquire(cmd.Context(), env, c, args[0], instance, wait)
			if err != nil {
				return err
			}
			run := exec.Command(path, args[2:]...)
			run.Args[0] = args[1]
			r := runner{env: env, cmd: run, now: time.Now, signals: signals}
			return r.run(cmd.Context(), l)
		},
	}
	cmd.Flags().StringVar(&instance, "instance", "", "`NAME` of the holder, for people (default: COMMAND.pid@host)")
	cmd.Flags().DurationVar(&wait, "wait", 0, "how long to stand by while all worker IDs are held (default: until there is one)")
	env.AddConnection(cmd)
	return cmd
}

func operands(cmd *cobra.Command, args []string) error {
	if len(args) < 2 || cmd.ArgsLenAtDash() != 1 {
		return clitool.Usage("lease needs POOL -- COMMAND, with -- between them")
	}
	return nil
}

// acquire leases a worker ID. If all are held, it stands by: at most for wait, unless that is
// negative.
func acquire(ctx context.Context, env *clitool.Env, c *client.Client, pool, instance string, wait time.Duration) (*client.WorkerLease, error) {
	opts := client.LeaseOptions{Instance: instance}
	began := time.Now()
	for stood := false; ; stood = true {
		l, err := c.LeaseWorker(ctx, pool, opts)
		if err == nil {
			return l, nil
		}
		left := wait - time.Since(began)
		var refused *client.Error
		held := errors.Is(err, client.ErrNoMachineID)
		if ctx.Err() != nil { // also if the answer came just before
			return nil, ctx.Err()
		}
		if again := held || stood && errors.As(err, &refused) && refused.Temporary(); !again || wait >= 0 && left <= 0 {
			return nil, err
		}
		if !stood {
			fmt.Fprintf(env.Errs, "seqd: %v; standing by\n", env.Explain(err))
		}
		if opts.Wait = standBy; wait >= 0 {
			opts.Wait = min(standBy, left)
		}
		if stood || !held {
			select {
			case <-time.After(lookAgain):
			case <-ctx.Done():
			}
		}
	}
}

// runner runs a command under a lease.
type runner struct {
	env     *clitool.Env
	cmd     *exec.Cmd
	now     func() time.Time
	signals <-chan os.Signal
	tenure
}

// renewal is how a renewal ended.
type renewal struct {
	lease *client.WorkerLease
	err   error
}

// run runs the command until it ends. The end of the context only keeps it from beginning.
func (r *runner) run(ctx context.Context, l *client.WorkerLease) error {
	runtime.LockOSThread() // the command ends with the thread that began it
	defer runtime.UnlockOSThread()
	r.granted(l, r.now())
	renewals, exited := make(chan renewal, 1), make(chan struct{})
	own, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	interrupted := ctx.Done()
	for {
		what, wait := r.next(r.now())
		switch what {
		case start:
			if err := r.start(exited); err != nil {
				return errors.Join(err, r.lease.Release(own, r.lease.After))
			}
			interrupted = nil
		case renew:
			go func(l *client.WorkerLease) {
				l, err := l.Renew(own)
				renewals <- renewal{l, err}
			}(r.lease)
		case terminate, kill:
			if err := r.end(what); err != nil {
				return err
			}
		}
		select {
		case <-time.After(wait):
		case <-exited:
			return r.exit(own)
		case <-interrupted:
			return errors.Join(ctx.Err(), r.lease.Release(own, r.lease.After))
		case got := <-renewals:
			r.renewed(got.lease, got.err, r.now())
		case sig := <-r.signals:
			// a terminal sends Ctrl-C to the command itself
			if r.started && (sig != os.Interrupt || !r.env.Terminal(r.env.In)) {
				_ = r.cmd.Process.Signal(sig) // it may have ended
			}
		}
	}
}

// start starts the command. exited is closed when it has ended.
func (r *runner) start(exited chan<- struct{}) error {
	l := r.lease
	r.cmd.Stdin, r.cmd.Stdout, r.cmd.Stderr = r.env.In, bare(r.env.Out), bare(r.env.Errs)
	r.cmd.Env = append(r.env.Environ,
		fmt.Sprintf("WORKER_ID=%d", l.WorkerID), "WORKER_POOL="+l.Pool, "WORKER_AFTER="+atTime(l.After), "WORKER_UNTIL="+atTime(l.Until))
	endTogether(r.cmd)
	if err := r.cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = r.cmd.Wait() // ProcessState says how it ended
		close(exited)
	}()
	return nil
}

func atTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// bare returns the stream below others, so that a command has the terminal or the file itself.
func bare(w io.Writer) io.Writer {
	for {
		wrapped, ok := w.(interface{ Unwrap() io.Writer })
		if !ok {
			return w
		}
		w = wrapped.Unwrap()
	}
}

// end ends the command because the lease is lost. The error is for a command that has not begun.
func (r *runner) end(how act) error {
	if how == kill {
		fmt.Fprintf(r.env.Errs, "seqd: the lease of worker ID %d is about to end: %s is killed\n", r.lease.WorkerID, r.cmd.Args[0])
		_ = r.cmd.Process.Kill() // it may have ended
		return nil
	}
	why := "the clock is beyond its time, or this process was paused"
	if r.err != nil {
		why = r.env.Explain(r.err).Error()
	}
	fmt.Fprintf(r.env.Errs, "seqd: the lease of worker ID %d is lost: %s; ending %s\n", r.lease.WorkerID, why, r.cmd.Args[0])
	if !r.started {
		return exitLost
	}
	if r.cmd.Process.Signal(syscall.SIGTERM) != nil {
		_ = r.cmd.Process.Kill() // of systems without SIGTERM
	}
	return nil
}

// exit releases the lease of a command that has ended, and returns its exit code. The command may
// have used all times until now.
func (r *runner) exit(ctx context.Context) error {
	if r.ending {
		return exitLost
	}
	last := r.passed(r.now())
	if last.Before(r.lease.After) {
		last = r.lease.After
	}
	if last.After(r.lease.Until) {
		last = time.Time{} // all of the lease
	}
	if err := r.lease.Release(ctx, last); err != nil {
		fmt.Fprintf(r.env.Errs, "seqd: worker ID %d stays held until %s: %v\n", r.lease.WorkerID, atTime(r.lease.Until), r.env.Explain(err))
	}
	code := r.cmd.ProcessState.ExitCode()
	if status, ok := r.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		code = 128 + int(status.Signal())
	}
	if code == 0 {
		return nil
	}
	return clitool.Exit(code)
}
