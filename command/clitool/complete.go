package clitool

import (
	"context"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seqd/seqd/client/admin"
)

const (
	// completionPatience bounds a completion: somebody waits for it at a prompt.
	completionPatience = time.Second
	// mostCompleted is how many names a completion offers at most.
	mostCompleted = 200
)

// CompleteBizTypes completes an operand or flag by the names of biz types of the running service. It
// offers nothing if that fails.
func (e *Env) CompleteBizTypes(cmd *cobra.Command, _ []string, begin string) ([]string, cobra.ShellCompDirective) {
	return e.complete(cmd, begin, func(ctx context.Context, a *admin.Admin, page admin.Page) (names []string, err error) {
		list, _, err := a.BizTypes(ctx, page)
		for _, b := range list {
			names = append(names, b.Name)
		}
		return names, err
	})
}

// CompleteTokens completes an operand or flag by the names of tokens of the running service. It
// offers nothing if that fails.
func (e *Env) CompleteTokens(cmd *cobra.Command, _ []string, begin string) ([]string, cobra.ShellCompDirective) {
	return e.complete(cmd, begin, func(ctx context.Context, a *admin.Admin, page admin.Page) (names []string, err error) {
		list, _, err := a.Tokens(ctx, page)
		for _, t := range list {
			names = append(names, t.Name)
		}
		return names, err
	})
}

// CompletePools completes an operand by the names of pools of the running service. It offers nothing
// if that fails.
func (e *Env) CompletePools(cmd *cobra.Command, _ []string, begin string) ([]string, cobra.ShellCompDirective) {
	return e.complete(cmd, begin, func(ctx context.Context, a *admin.Admin, page admin.Page) (names []string, err error) {
		list, _, err := a.WorkerPools(ctx, page)
		for _, p := range list {
			names = append(names, p.Pool)
		}
		return names, err
	})
}

// CompleteSubscriptions completes an operand by the names of subscriptions. It offers nothing if that
// fails.
func (e *Env) CompleteSubscriptions(cmd *cobra.Command, _ []string, begin string) ([]string, cobra.ShellCompDirective) {
	return e.complete(cmd, begin, func(ctx context.Context, a *admin.Admin, page admin.Page) (names []string, err error) {
		list, _, err := a.Subscriptions(ctx, page)
		for _, s := range list {
			names = append(names, s.Name)
		}
		return names, err
	})
}

// complete returns the names of a list that begin with a text.
func (e *Env) complete(cmd *cobra.Command, begin string, list func(context.Context, *admin.Admin, admin.Page) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	const only = cobra.ShellCompDirectiveNoFileComp
	c, err := e.Client()
	if err != nil {
		return nil, only
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionPatience)
	defer cancel()
	all, err := list(ctx, admin.New(c), admin.Page{After: before(begin), Limit: mostCompleted})
	if err != nil {
		return nil, only
	}
	var names []string
	for _, name := range all {
		if strings.HasPrefix(name, begin) && completable.MatchString(name) {
			names = append(names, name)
		}
	}
	return names, only
}

// completable are names that shells take as they are: a hostile service could have a command run.
var completable = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:@+-]{0,127}$`)

// before returns a text below every name that begins with begin, and above nearly all others below
// it: names are ASCII, without ~.
func before(begin string) string {
	last := len(begin) - 1
	if last < 0 || begin[last] <= ' ' || begin[last] >= 0x7f {
		return ""
	}
	return begin[:last] + string(rune(begin[last]-1)) + "~"
}
