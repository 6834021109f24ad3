package remote

import (
	"cmp"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/seqd/seqd/client/admin"
	"github.com/seqd/seqd/command/clitool"
)

func secretsCommand(env *clitool.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "secrets", Short: "List, add and revoke the secrets of a token",
		Long: `A token can have several secrets, so that a caller gets a new one before the old one is revoked.
They share the scopes of the token, and what the caller made: its reservations, and the answers of
its Idempotency-Keys.`,
		Example: `  seqd tokens secrets create till-7
  seqd tokens secrets list till-7
  seqd tokens secrets revoke till-7 8192cd3ac568`,
	}
	cmd.AddCommand(listSecrets(env), createSecret(env), revokeSecret(env))
	return cmd
}

func listSecrets(env *clitool.Env) *cobra.Command {
	return &cobra.Command{
		Use: "list NAME", Short: "List the secrets of a token",
		Long: "List the IDs and times of the secrets of a token. What callers send is stored nowhere.",
		Example: `  seqd tokens secrets list till-7
  seqd tokens secrets list till-7 --json`,
		Args: clitool.Operands("NAME"), ValidArgsFunction: first(env.CompleteTokens),
		RunE: withAdmin(env, func(cmd *cobra.Command, a *admin.Admin, args []string) error {
			t, err := a.Token(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return env.Show(t.Secrets, func(w io.Writer) error {
				rows := [][]string{{"ID", "CREATED", "CREATED BY", "EXPIRES"}}
				for _, s := range t.Secrets {
					rows = append(rows, []string{s.ID, brief(s.CreatedAt, "-"), cmp.Or(s.CreatedBy, "-"), brief(s.Expires, never)})
				}
				return table(w, rows)
			})
		}),
	}
}

// newSecret is the text about a secret that the service has just made, "" if it made none.
func newSecret(secret string) string {
	if secret == "" {
		return ""
	}
	return "\n\nThe secret is for the caller. It is shown only now and stored nowhere:\n\n  " + clitool.Escape(secret)
}

func createSecret(env *clitool.Env) *cobra.Command {
	var expires string
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Add a secret to a token and show it",
		Long: "Add a secret to a token of the store and show it. The other secrets stay valid.",
		Example: `  seqd tokens secrets create till-7
  seqd tokens secrets create till-7 --expires 720h --json | jq -r .secret`,
		Args: clitool.Operands("NAME"), ValidArgsFunction: first(env.CompleteTokens),
		RunE: withAdmin(env, func(cmd *cobra.Command, a *admin.Admin, args []string) error {
			until, err := expiry(expires)
			if err != nil {
				return err
			}
			s, err := a.CreateSecret(cmd.Context(), args[0], until)
			if err != nil {
				return err
			}
			text := fmt.Sprintf("%s has the secret %s too, expires %s", args[0], s.ID, brief(s.Expires, never))
			return env.ShowText(s, clitool.Escape(text)+newSecret(s.Secret))
		}),
	}
	cmd.Flags().StringVar(&expires, "expires", "", "when it ends: a `TIME` (RFC 3339), a duration from now such as 720h, or never")
	return cmd
}

func revokeSecret(env *clitool.Env) *cobra.Command {
	yes := false
	cmd := &cobra.Command{
		Use: "revoke NAME ID [--yes]", Short: "Revoke a secret of a token",
		Long: `Revoke a secret of a token of the store. Callers who show it are refused. The last secret of a token
cannot be revoked: disable or delete the token. On a terminal it asks first.`,
		Example: `  seqd tokens secrets revoke till-7 8192cd3ac568
  seqd tokens secrets revoke till-7 8192cd3ac568 --yes`,
		Args: clitool.Operands("NAME", "ID"), ValidArgsFunction: first(env.CompleteTokens),
		RunE: withAdmin(env, func(cmd *cobra.Command, a *admin.Admin, args []string) error {
			if err := agreed(env, yes, "Revoke the secret "+args[1]+" of "+args[0]+"? Callers who show it will be refused."); err != nil {
				return err
			}
			if err := a.DeleteSecret(cmd.Context(), args[0], args[1]); err != nil {
				return err
			}
			return showDeletion(env, args[0]+" "+args[1], false)
		}),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

func madeSecrets(env *clitool.Env) *cobra.Command {
	revoke, yes := false, false
	cmd := &cobra.Command{
		Use: "made NAME [--revoke [--yes]]", Short: "List or revoke what a token has made",
		Long: `List the secrets that a token has made, for new tokens and for others. The token may be gone. With
--revoke they are revoked, tokens that have no other secret are deleted, and what these have made is
revoked too. Delete a token that was stolen first, and wait 5 seconds. NAME is ~ for what was made
while nobody was asked for a token. On a terminal --revoke asks first.`,
		Example: `  seqd tokens made boss
  seqd tokens made boss --revoke --yes
  seqd tokens made '~' --json`,
		Args: clitool.Operands("NAME"), ValidArgsFunction: first(env.CompleteTokens),
		RunE: withAdmin(env, func(cmd *cobra.Command, a *admin.Admin, args []string) error {
			list := a.Made
			if revoke {
				list = a.RevokeMade
				if err := agreed(env, yes, "Revoke what "+args[0]+" has made? Callers who show it will be refused."); err != nil {
					return err
				}
			}
			made, err := list(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return env.Show(made, func(w io.Writer) error { return table(w, madeRows(made)) })
		}),
	}
	cmd.Flags().BoolVar(&revoke, "revoke", false, "revoke them")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

func madeRows(made []admin.Made) [][]string {
	rows := [][]string{{"TOKEN", "SECRET", "CREATED", "CREATED BY", "TOKEN IS"}}
	for _, m := range made {
		state := "kept"
		if m.Deleted {
			state = "deleted"
		}
		rows = append(rows, []string{m.Caller, m.ID, brief(m.CreatedAt, "-"), m.CreatedBy, state})
	}
	return rows
}
