// Package remote has the commands that are clients of a running service, except those with a package
// of their own.
package remote

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/seqd/seqd/client"
	"github.com/seqd/seqd/client/admin"
	"github.com/seqd/seqd/command/clitool"
)

// Commands returns the commands.
func Commands(env *clitool.Env) []*cobra.Command {
	commands := []*cobra.Command{
		nextCommand(env), parseCommand(env), reserveCommand(env), confirmCommand(env), releaseCommand(env), gapsCommand(env), voidCommand(env), keysCommand(env),
		nodesCommand(env), bizTypesCommand(env), tokensCommand(env), poolsCommand(env), jobsCommand(env), subscriptionsCommand(env), eventsCommand(env),
		historyCommand(env), auditCommand(env), reportCommand(env), reloadCommand(env), logLevelCommand(env),
	}
	for _, cmd := range commands {
		cmd.GroupID = clitool.GroupClient
		env.AddConnection(cmd)
	}
	return commands
}

// withClient returns what a command does with the client that takes numbers.
func withClient(env *clitool.Env, do func(cmd *cobra.Command, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := env.Client()
		if err != nil {
			return err
		}
		return do(cmd, c, args)
	}
}

// withAdmin is withClient for the client for everything but numbers.
func withAdmin(env *clitool.Env, do func(cmd *cobra.Command, a *admin.Admin, args []string) error) func(*cobra.Command, []string) error {
	return withClient(env, func(cmd *cobra.Command, c *client.Client, args []string) error { return do(cmd, admin.New(c), args) })
}

// breakOff returns err. With --json it ends the document that has begun with a list, and says err
// in it.
func breakOff(env *clitool.Env, begun bool, err error) error {
	if env.JSON && begun {
		_ = env.Printf("\n],\"error\":%s}\n", quoted(env.Explain(err).Error())) // Out keeps its error
	}
	return err
}

// condition are the flags of a change of something that has a version.
type condition struct{ version int64 }

func (c *condition) addTo(cmd *cobra.Command) {
	cmd.Flags().Int64Var(&c.version, "if-match", 0, "change it only if this is its `VERSION`")
}

// check refuses a version that nothing has.
func (c *condition) check(cmd *cobra.Command) error {
	if cmd.Flags().Changed("if-match") && c.version < 1 {
		return clitool.Usage("--if-match %d: versions begin at 1", c.version)
	}
	return nil
}

// deletion is the JSON of a deletion.
type deletion struct {
	Name    string `json:"name"`
	Deleted bool   `json:"deleted"`
}

// showDeletion says that something was deleted, or could be.
func showDeletion(env *clitool.Env, name string, dryRun bool) error {
	done := "deleted"
	if dryRun {
		done = "it can be deleted; nothing was changed"
	}
	return env.ShowText(deletion{name, !dryRun}, name+": "+done)
}

// agreed asks a question unless yes is true, as with the flag --yes. The error is that of
// [clitool.Env.Confirm].
func agreed(env *clitool.Env, yes bool, question string) error {
	if yes {
		return nil
	}
	return env.Confirm(question, "--yes")
}

// table writes columns. The first row has the titles.
func table(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(t, clitool.Row(row))
	}
	return t.Flush()
}

// dash is v, or - for an empty cell.
func dash(v string) string { return cmp.Or(v, "-") }

// stateOf names whether something is enabled.
func stateOf(enabled bool) string {
	if enabled {
		return "enabled"
	}
	return "disabled"
}

// brief returns a time without fractions of a second, or what stands for none.
func brief(t time.Time, none string) string {
	if t.IsZero() {
		return none
	}
	return t.UTC().Format(time.RFC3339)
}

// quoted returns text as a JSON string.
func quoted(text string) string {
	quoted, _ := json.Marshal(text) // text can always be a JSON string
	return string(quoted)
}
