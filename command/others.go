package command

import (
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/seqd/seqd/command/clitool"
	"github.com/seqd/seqd/internal/version"
	"github.com/seqd/seqd/server/access"
)

// others are the commands that need neither a configuration nor a service.
func others(p *program, s *settings, env *clitool.Env) []*cobra.Command {
	return []*cobra.Command{s.addIgnored(tokenCommand(env)), s.addIgnored(versionCommand(p, env)), completionCommand()}
}

// newToken is the JSON of seqd token.
type newToken struct {
	Secret string `json:"secret"`
	Sha256 string `json:"sha256"`
}

func tokenCommand(env *clitool.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "token", Short: "Generate a token for the configuration", GroupID: clitool.GroupOther,
		Long: `Generate a secret, and the token for the configuration that belongs to it. It reads no configuration
and changes nothing. For tokens in the store of a running service see seqd tokens.`,
		Example: "  seqd token\n  seqd token --json",
		Args:    clitool.Operands(), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			secret, digest := access.NewSecret()
			return env.Show(newToken{secret, digest.Hex()}, func(w io.Writer) error { return printToken(w, secret, digest) })
		},
	}
	env.AddJSON(cmd)
	return cmd
}

// printToken prints a new token.
func printToken(w io.Writer, secret string, digest access.Digest) error {
	_, err := fmt.Fprintf(w, `The secret is for the caller. It is shown only now and stored nowhere:

  %s

Its SHA-256 is for the configuration. Change name and scopes (issue:<biz type> and lease:<pool> with * for any characters, read, admin):

auth:
  tokens:
    - {name: shop, sha256: "%s", scopes: ["issue:*"]}
`, secret, digest.Hex())
	return err
}

// programVersion is the JSON of seqd version.
type programVersion struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

func versionCommand(p *program, env *clitool.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version", GroupID: clitool.GroupOther,
		Long:    "Print the version of seqd, of Go and of the system; also seqd --version.",
		Example: "  seqd version\n  seqd version --json",
		Args:    clitool.Operands(), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			v := programVersion{version.Of(p.version), version.Revision(p.revision), runtime.Version(), runtime.GOOS, runtime.GOARCH}
			return env.ShowText(v, p.versionText())
		},
	}
	env.AddJSON(cmd)
	return cmd
}

// versionText returns the output of seqd version.
func (p *program) versionText() string {
	return fmt.Sprintf("seqd %s (%s, %s/%s)", version.Of(p.version), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// completionCommand prints the script that lets a shell complete commands.
func completionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "completion bash|zsh|fish|powershell", Short: "Print the completion script of a shell", GroupID: clitool.GroupOther,
		Long: `Print the script that lets a shell complete commands, flags and, if the service of SEQD_CLIENT_ADDR
can be reached, names of biz types. With bash it needs the package bash-completion.`,
		Example: `  source <(seqd completion bash)                                   # this shell
  seqd completion bash >/etc/bash_completion.d/seqd                # every new shell
  seqd completion zsh >"${fpath[1]}/_seqd"
  seqd completion fish >~/.config/fish/completions/seqd.fish`,
		Args: clitool.Operands("SHELL"), ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		RunE: func(cmd *cobra.Command, args []string) error {
			root, w := cmd.Root(), cmd.OutOrStdout()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(w, true)
			case "zsh":
				return root.GenZshCompletion(w)
			case "fish":
				return root.GenFishCompletion(w, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(w)
			}
			return clitool.Usage("no script for %q: want bash, zsh, fish or powershell", args[0])
		},
	}
}
