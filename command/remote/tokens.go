package remote

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seqd/seqd/client/admin"
	"github.com/seqd/seqd/command/clitool"
	"github.com/seqd/seqd/internal/literal"
)

func tokensCommand(env *clitool.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "tokens", Short: "Read and change the tokens of the service",
		Long: `Read and change the tokens that a running service keeps in its store. They are valid on all nodes.
With tokens changes need the scope admin, and reading needs read. For a token of the configuration
see seqd token.`,
		Example: `  seqd tokens list
  seqd tokens create till-7 --scope issue:order
  seqd tokens change till-7 --disable
  seqd tokens secrets create till-7`,
	}
	cmd.AddCommand(listTokens(env), getToken(env), createToken(env), changeToken(env), deleteToken(env), secretsCommand(env), madeSecrets(env))
	return cmd
}

func listTokens(env *clitool.Env) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the tokens",
		Long: "List the tokens of the configuration and of the store, without their secrets.",
		Example: `  seqd tokens list
  seqd tokens list --json`,
		Args: clitool.Operands(), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: withAdmin(env, func(cmd *cobra.Command, a *admin.Admin, _ []string) error {
			l := list[admin.Token]{env: env, field: "tokens", titles: []string{"NAME", "VERSION", "STATE", "EXPIRES", "SOURCE", "SCOPES"}}
			l.row = func(t admin.Token) []string {
				version := "-"
				if t.Version > 0 {
					version = fmt.Sprint(t.Version)
				}
				return []string{t.Name, version, stateOf(t.Enabled), brief(t.Expires, never), t.Source, strings.Join(t.Scopes, ",")}
			}
			return l.run(cmd.Context(), a.Tokens)
		}),
	}
}

func getToken(env *clitool.Env) *cobra.Command {
	return &cobra.Command{
		Use: "get NAME", Short: "Show a token",
		Example: `  seqd tokens get till-7
  seqd tokens get till-7 --json`,
		Args: clitool.Operands("NAME"), ValidArgsFunction: first(env.CompleteTokens),
		RunE: withAdmin(env, func(cmd *cobra.Command, a *admin.Admin, args []string) error {
			t, err := a.Token(cmd.Context(), args[0])
			return showToken(env, t, err)
		}),
	}
}

// showToken shows a token, and its secret if the service has just made it.
func showToken(env *clitool.Env, t admin.Token, err error) error {
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%s: %s, scopes %s, expires %s, from %s", t.Name, stateOf(t.Enabled), strings.Join(t.Scopes, ","), brief(t.Expires, never), t.Source)
	if t.Version > 0 {
		text += fmt.Sprintf(", version %d", t.Version)
	}
	if len(t.Secrets) > 1 {
		text += fmt.Sprintf(", %d secrets", len(t.Secrets))
	}
	return env.ShowText(t, clitool.Escape(text)+newSecret(t.Secret))
}

func createToken(env *clitool.Env) *cobra.Command {
	var scopes []string
	var expires string
	var disabled, ownsOpen bool
	cmd := &cobra.Command{
		Use: "create NAME --scope SCOPE", Short: "Create a token and show its secret",
		Long: `Create a token in the store of the service and show its secret, which is stored nowhere. Scopes are
issue:BIZTYPE and lease:POOL, with * for any characters; read; and admin.`,
		Example: `  seqd tokens create till-7 --scope issue:order
  seqd tokens create ops --scope admin,read --expires 2027-12-31T00:00:00Z
  seqd tokens create job --scope 'issue:*' --json | jq -r .secret`,
		Args: clitool.Operands("NAME"), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: withAdmin(env, func(cmd *cobra.Command, a *admin.Admin, args []string) error {
			if len(scopes) == 0 {
				return clitool.Usage("a token needs at least one --scope, such as --scope issue:order")
			}
			until, err := expiry(expires)
			if err != nil {
				return err
			}
			t, err := a.CreateToken(cmd.Context(), admin.NewToken{Name: args[0], Scopes: scopes, Expires: until, Disabled: disabled, OwnsOpen: ownsOpen})
			return showToken(env, t, err)
		}),
	}
	cmd.Flags().StringSliceVar(&scopes, "scope", nil, "what it allows: `SCOPE`; several: repeat it, or put commas between")
	cmd.Flags().StringVar(&expires, "expires", "", "when it ends: a `TIME` (RFC 3339), a duration from now such as 720h, or never")
	cmd.Flags().BoolVar(&disabled, "disabled", false, "create it disabled")
	cmd.Flags().BoolVar(&ownsOpen, "owns-open", false, "it owns the answers and reservations that were made while nobody was asked for a token")
	return cmd
}

// never is the value of --expires for a token that does not expire.
const never = "never"

// expiry returns the time that --expires names, zero for never.
func expiry(text string) (time.Time, error) {
	if text == "" || text == never {
		return time.Time{}, nil
	}
	if after, ok := literal.Duration(text); ok && after > 0 {
		return time.Now().Add(after).UTC().Truncate(time.Second), nil
	}
	if until, ok := literal.Time(text); ok && !until.IsZero() { // which means never
		return until, nil
	}
	return time.Time{}, clitool.Usage("--expires %s: want a time such as 2027-12-31T00:00:00Z, a duration such as 720h, or never", text)
}

func changeToken(env *clitool.Env) *cobra.Command {
	var c condition
	var scopes []string
	var expires string
	var enable, disable bool
	cmd := &cobra.Command{
		Use: "change NAME", Short: "Change a token",
		Long: "Change what a token of the store allows, until when, and whether it is valid. Its secret stays.",
		Example: `  seqd tokens change till-7 --disable
  seqd tokens change till-7 --scope issue:order,issue:refund --if-match 2
  seqd tokens change till-7 --expires never`,
		Args: clitool.Operands("NAME"), ValidArgsFunction: first(env.CompleteTokens),
		RunE: withAdmin(env, func(cmd *cobra.Command, a *admin.Admin, args []string) error {
			patch := admin.TokenPatch{Scopes: scopes}
			if enable || disable {
				patch.Enabled = &enable
			}
			if expires != "" {
				until, err := expiry(expires)
				if err != nil {
					return err
				}
				patch.Expires = &until
			}
			if patch.Scopes == nil && patch.Enabled == nil && patch.Expires == nil {
				return clitool.Usage("there is nothing to change: want --scope, --expires, --enable or --disable")
			}
			if err := c.check(cmd); err != nil {
				return err
			}
			t, err := a.PatchToken(cmd.Context(), args[0], patch, c.version)
			return showToken(env, t, err)
		}),
	}
	cmd.Flags().StringSliceVar(&scopes, "scope", nil, "replace the scopes by `SCOPE`; several: repeat it, or put commas between")
	cmd.Flags().StringVar(&expires, "expires", "", "when it ends: a `TIME` (RFC 3339), a duration from now such as 720h, or never")
	cmd.Flags().BoolVar(&enable, "enable", false, "make it valid")
	cmd.Flags().BoolVar(&disable, "disable", false, "make it invalid")
	cmd.MarkFlagsMutuallyExclusive("enable", "disable")
	c.addTo(cmd)
	return cmd
}

func deleteToken(env *clitool.Env) *cobra.Command {
	var c condition
	yes := false
	cmd := &cobra.Command{
		Use: "delete NAME [--yes]", Short: "Delete a token",
		Long: "Delete a token of the store. Callers who show it are refused. On a terminal it asks first.",
		Example: `  seqd tokens delete till-7
  seqd tokens delete till-7 --yes`,
		Args: clitool.Operands("NAME"), ValidArgsFunction: first(env.CompleteTokens),
		RunE: withAdmin(env, func(cmd *cobra.Command, a *admin.Admin, args []string) error {
			if err := c.check(cmd); err != nil {
				return err
			}
			if err := agreed(env, yes, "Delete the token "+args[0]+"? Callers who show it will be refused."); err != nil {
				return err
			}
			if err := a.DeleteToken(cmd.Context(), args[0], c.version); err != nil {
				return err
			}
			return showDeletion(env, args[0], false)
		}),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	c.addTo(cmd)
	return cmd
}
