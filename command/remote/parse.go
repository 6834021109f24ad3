package remote

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seqd/seqd/client"
	"github.com/seqd/seqd/command/clitool"
)

func parseCommand(env *clitool.Env) *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use: "parse BIZTYPE ID", Short: "Show what an ID says",
		Long: `Show what an ID says: its number, and its period, time, machine ID and sequence if it has them. It
is valid if it has the form of an ID; that does not say whether it was issued.

--key names the key that the ID belongs to, for a keyed biz type. Some IDs cannot be read without
it.`,
		Example: `  seqd parse order 105
  seqd parse user 482910567281934336 --json
  seqd parse ticket 59610386 --key tenant-42`,
		Args: clitool.Operands("BIZTYPE", "ID"), ValidArgsFunction: first(env.CompleteBizTypes),
		RunE: withClient(env, func(cmd *cobra.Command, c *client.Client, args []string) error {
			var opts []client.Option
			if cmd.Flags().Changed("key") {
				opts = append(opts, client.Key(key))
			}
			p, err := c.Parse(cmd.Context(), args[0], args[1], opts...)
			if err != nil {
				return err
			}
			return env.Show(p, func(w io.Writer) error { return printParsed(w, p) })
		}),
	}
	cmd.Flags().StringVar(&key, "key", "", "`KEY` of a keyed biz type")
	return cmd
}

// printParsed writes one line for each thing that the ID says.
func printParsed(w io.Writer, p client.Parsed) error {
	var b strings.Builder
	add := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-11s %s\n", name, clitool.Escape(value))
		}
	}
	add("biz type", p.BizType)
	add("ID", p.ID)
	add("number", fmt.Sprint(p.Number))
	add("valid", fmt.Sprint(p.Valid))
	add("key", p.Key)
	add("period", p.Period)
	if !p.At.IsZero() {
		add("at", p.At.UTC().Format(time.RFC3339Nano))
	}
	if p.MachineID != nil {
		add("machine ID", fmt.Sprint(*p.MachineID))
	}
	if p.Sequence != nil {
		add("sequence", fmt.Sprint(*p.Sequence))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
