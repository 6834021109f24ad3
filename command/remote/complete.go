package remote

import (
	"github.com/spf13/cobra"

	"github.com/seqd/seqd/command/clitool"
)

// first completes the first operand by a function and nothing after it.
func first(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, begin)
	}
}

// bizTypeAndFile completes the name of a biz type, and then that of a file with a definition.
func bizTypeAndFile(env *clitool.Env) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 1 {
			return []string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
		}
		return first(env.CompleteBizTypes)(cmd, args, begin)
	}
}
