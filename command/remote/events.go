package remote

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/seqd/seqd/client/admin"
	"github.com/seqd/seqd/command/clitool"
)

// eventsWait is how long a node waits for events before it answers that there are none: less than a
// client waits for an answer.
const eventsWait = 2 * time.Second

func eventsCommand(env *clitool.Env) *cobra.Command {
	after, follow := int64(admin.Oldest), false
	cmd := &cobra.Command{
		Use: "events BIZTYPE", Short: "Show what happened to a biz type",
		Long: `Show what happened to a biz type whose definition has events: true, one event on a line, with --json
as JSON. It begins with the oldest event that is kept. With tokens it needs the scope read.`,
		Example: `  seqd events invoice --after 1200
  seqd events invoice --follow --json | jq .type`,
		Args: clitool.Operands("BIZTYPE"), ValidArgsFunction: first(env.CompleteBizTypes),
		RunE: withAdmin(env, func(cmd *cobra.Command, a *admin.Admin, args []string) error {
			if after < 0 && cmd.Flags().Changed("after") {
				return clitool.Usage("--after %d is below 0", after)
			}
			wait := time.Duration(0)
			if follow {
				wait = eventsWait
			}
			for {
				list, next, err := a.Events(cmd.Context(), args[0], after, pageSize, wait)
				if err != nil {
					return err
				}
				for _, e := range list {
					if err := printEvent(env, e); err != nil {
						return err
					}
				}
				if len(list) == 0 && !follow {
					return nil
				}
				after = next
			}
		}),
	}
	f := cmd.Flags()
	f.Int64Var(&after, "after", admin.Oldest, "begin after this `POSITION` (default: with the oldest event)")
	f.BoolVar(&follow, "follow", false, "go on, and print events when they happen")
	return cmd
}

func printEvent(env *clitool.Env, e admin.Event) (err error) {
	if env.JSON {
		return json.NewEncoder(env.Out).Encode(e)
	}
	_, err = fmt.Fprintln(env.Out, e.Position, e.At.UTC().Format(time.RFC3339Nano), e.Type, dash(clitool.Escape(e.Key)), dash(e.Period), clitool.Escape(string(e.Data)))
	return err
}
