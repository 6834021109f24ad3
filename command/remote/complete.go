package remote

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seqd/seqd/client/admin"
	"github.com/seqd/seqd/command/clitool"
)

const (
	// completionPatience bounds a completion: somebody waits for it at a prompt.
	completionPatience = time.Second
	// mostCompleted is how many names a completion offers at most.
	mostCompleted = 200
)

// completeBizTypes completes the first operand by the names of biz types of the running service. It
// offers nothing if that fails. files is whether a file follows.
func completeBizTypes(env *clitool.Env, files bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
		switch {
		case len(args) == 0:
			return CompleteBizTypes(env)(cmd, args, begin)
		case len(args) == 1 && files:
			return []string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteBizTypes completes an operand or flag by the names of biz types of the running service. It
// offers nothing if that fails.
func CompleteBizTypes(env *clitool.Env) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, begin string) ([]string, cobra.ShellCompDirective) {
		return complete(cmd, env, begin, func(ctx context.Context, a *admin.Admin, page admin.Page) (names []string, err error) {
			list, _, err := a.BizTypes(ctx, page)
			for _, b := range list {
				names = append(names, b.Name)
			}
			return names, err
		})
	}
}

// completeTokens completes the first operand by the names of tokens.
func completeTokens(env *clitool.Env) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, env, begin, func(ctx context.Context, a *admin.Admin, page admin.Page) (names []string, err error) {
			list, _, err := a.Tokens(ctx, page)
			for _, t := range list {
				names = append(names, t.Name)
			}
			return names, err
		})
	}
}

// complete returns the names of a list that begin with a text.
func complete(cmd *cobra.Command, env *clitool.Env, begin string, list func(context.Context, *admin.Admin, admin.Page) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	const only = cobra.ShellCompDirectiveNoFileComp
	a, err := newAdmin(env)
	if err != nil {
		return nil, only
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionPatience)
	defer cancel()
	all, err := list(ctx, a, admin.Page{After: before(begin), Limit: mostCompleted})
	if err != nil {
		return nil, only
	}
	var names []string
	for _, name := range all {
		if strings.HasPrefix(name, begin) {
			names = append(names, name)
		}
	}
	return names, only
}

// before returns a text below every name that begins with begin, and above nearly all others below
// it: names are ASCII, without ~.
func before(begin string) string {
	last := len(begin) - 1
	if last < 0 || begin[last] <= ' ' || begin[last] >= 0x7f {
		return ""
	}
	return begin[:last] + string(rune(begin[last]-1)) + "~"
}
