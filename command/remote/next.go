package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/seqd/seqd/client"
	"github.com/seqd/seqd/command/clitool"
)

// largestRequest is how many numbers one request asks for: the default of server.maxCount.
const largestRequest = 10_000

func nextCommand(env *clitool.Env) *cobra.Command {
	var n int
	var key, once string
	cmd := &cobra.Command{
		Use: "next BIZTYPE [-n COUNT]", Short: "Issue numbers of a biz type",
		Long: `Issue numbers of a biz type, one on each line. Above 10,000 numbers (or server.maxCount of the
service) it sends several requests. What was printed is issued, also if a later request fails.`,
		Example: `  seqd next order
  seqd next order -n 5
  seqd next order -n 1000000 >orders.txt
  seqd next invoice --idempotency-key payment-4711 --json
  seqd next ticket --key tenant-42`,
		Args: nextOperands, ValidArgsFunction: first(env.CompleteBizTypes),
		RunE: withClient(env, func(cmd *cobra.Command, c *client.Client, args []string) error {
			switch {
			case n < 1:
				return clitool.Usage("-n %d: at least 1 is needed", n)
			case cmd.Flags().Changed("idempotency-key") && n > largestRequest:
				return clitool.Usage("--idempotency-key is for one request, so for %d numbers at most", largestRequest)
			}
			i := issue{client: c, env: env, bizType: args[0]}
			if cmd.Flags().Changed("idempotency-key") {
				i.opts, i.single = append(i.opts, client.IdempotencyKey(once)), true
			}
			if cmd.Flags().Changed("key") {
				i.opts = append(i.opts, client.Key(key))
			}
			return i.run(cmd.Context(), n)
		}),
	}
	cmd.Flags().IntVarP(&n, "count", "n", 1, "how many numbers")
	cmd.Flags().StringVar(&key, "key", "", "`KEY` of a keyed biz type")
	cmd.Flags().StringVar(&once, "idempotency-key", "", "name of what needs the numbers: the same `KEY` gives the same ones again")
	return cmd
}

// nextOperands checks the operands of seqd next.
func nextOperands(cmd *cobra.Command, args []string) error {
	if len(args) == 2 {
		if _, err := strconv.Atoi(args[1]); err == nil {
			return clitool.Usage("unexpected argument %q; for %[1]s numbers say -n %[1]s", args[1])
		}
	}
	return clitool.Operands("BIZTYPE")(cmd, args)
}

// issue is one seqd next.
type issue struct {
	client  *client.Client
	env     *clitool.Env
	bizType string
	opts    []client.Option
	single  bool // it is one request, which is not to be split
}

// run prints n numbers.
func (i *issue) run(ctx context.Context, n int) error {
	done := 0
	var text []byte
	for most := min(n, largestRequest); done < n; {
		count := min(most, n-done)
		var err error
		text, err = i.client.AppendText(ctx, text[:0], i.bizType, count, i.opts...)
		switch {
		case errors.Is(err, client.ErrInvalidCount) && most > 1 && !i.single:
			most = (most + 1) / 2 // server.maxCount is smaller; the refused request issued nothing
			continue
		case err != nil && done > 0:
			return breakOff(i.env, true, fmt.Errorf("after %d of %d numbers: %w", done, n, err))
		case err != nil:
			return err
		}
		if err := i.print(text, done == 0); err != nil {
			return err
		}
		done += count
	}
	return i.end()
}

// print writes the numbers of one request.
func (i *issue) print(text []byte, first bool) error {
	if !i.env.JSON {
		_, err := i.env.Out.Write(text)
		return err
	}
	var b bytes.Buffer
	if first {
		fmt.Fprintf(&b, "{\"bizType\":%s,\"ids\":[", quoted(i.bizType))
	}
	for id := range bytes.Lines(text) {
		if !first {
			b.WriteByte(',')
		}
		b.WriteString(quoted(string(bytes.TrimSuffix(id, []byte("\n")))))
		first = false
	}
	_, err := i.env.Out.Write(b.Bytes())
	return err
}

// end writes what follows the last number.
func (i *issue) end() error {
	if !i.env.JSON {
		return nil
	}
	return i.env.Printf("]}\n")
}
