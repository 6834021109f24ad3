package docstest

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/seqd/seqd/command"
	"github.com/seqd/seqd/internal/testing/must"
)

// notRun has the programs of shell examples that TestShell does not run, each with the reason.
// Those whose names end with / are folders of programs.
var notRun = map[string]string{
	"curl": "TestExamples", "redis-cli": "TestExamples, and integration tests for what needs more than one node",
	"go": "the tests of the repository do it; PLUGINS.md is followed by examples/customplugin", "scripts/": "each is run by the CI or by hand; it takes minutes", ".ci/": "it is the CI",
	"sudo": "it changes the machine", "docker": "it needs an image, which scripts/image tests", "helm": "it needs a cluster; integration/deploy renders the chart",
	"sleep": "it waits", "deploy/": "it writes into the checkout; deploy's tests run it",
	"export": "of the shell", "cd": "of the shell", "grep": "of the shell", "xargs": "of the shell", "cp": "of the shell",
	"createdb": "integration/invoices has such tables", "pg_ctl": "integration/failover does it",
	"npx": generated, "openapi-python-client": generated, "java": generated,
	"kubectl": "it needs a cluster; integration/deploy reads the manifests", "promtool": "scripts/long runs it",
}

const generated = "scripts/clients generates and runs it"

// ours matches the ways in which examples run seqd.
var ours = regexp.MustCompile(`^(?:sudo (?:-u seqd )?)?(?:\./seqd|seqd|go run -tags nomsgpack \./cmd/seqd)(?: |$)`)

var (
	shellBlock = regexp.MustCompile("(?ms)^ *```(sh|console)\n(.*?)^ *```")
	shellSplit = regexp.MustCompile(` (?:\||&&|&)(?: |$)|; |;$`)
	assignment = regexp.MustCompile(`^(?:[A-Z_]+=(?:"[^"]*"|'[^']*'|\$\([^)]*\)|\S*)(?: +|$))+`)
	redirected = regexp.MustCompile(` \d?>\S+| <\S+`)
	inlineSeqd = regexp.MustCompile("`seqd ([^`\n…]+)`")
	// excused matches what keeps a command that was read from doing something here.
	excused  = regexp.MustCompile(`There is no terminal to ask on|there is no file seqd.db|bolt is of one node|no command "x" in seqd`)
	settings = "store: {bolt: {path: seqd.db}}\nbizTypes:\n- {name: order}\n- {name: invite}\n- {name: invoice, strategy: gapless, reset: yearly, plugins: [{name: format, template: '{date:2006}-{seq}'}]}\n" +
		"- {name: bill, strategy: gapless, reset: yearly, plugins: [{name: format, template: '{date:2006}-{seq}'}]}\n- {name: tenant, keyed: true}\n"
)

// commandsOf returns the commands in the shell examples of a document.
func commandsOf(text string) (list []string) {
	for _, block := range shellBlock.FindAllStringSubmatch(text, -1) {
		here := "" // what ends a here document
		for line := range strings.Lines(strings.ReplaceAll(block[2], "\\\n", "")) {
			line = strings.TrimSpace(line)
			if block[1] == "console" {
				shown := false
				if line, shown = strings.CutPrefix(line, "$ "); !shown {
					continue
				}
			}
			if here != "" {
				if line == here {
					here = ""
				}
				continue
			}
			if _, end, found := strings.Cut(line, "<<"); found {
				here = strings.Trim(end, "'- ")
			}
			line, _, _ = strings.Cut(" "+line, " #")
			for _, part := range shellSplit.Split(line, -1) {
				if part = assignment.ReplaceAllString(strings.TrimSpace(part), ""); part != "" {
					list = append(list, part)
				}
			}
		}
	}
	return list
}

// TestShell runs each command of seqd in the shell examples of the documents, in a folder with a
// store of its own and without a service. None may be a mistake on the command line. Of what is in
// the text it runs the help, which reads the flags. Other programs are in the table above.
func TestShell(t *testing.T) {
	root := must.Get(filepath.Abs("../.."))(t)
	t.Chdir(t.TempDir())
	for _, name := range []string{"seqd.yaml", "bolt.yaml"} {
		must.Do(t, os.WriteFile(name, []byte(settings), 0o600))
	}
	must.Do(t, os.WriteFile("highest.csv", []byte("order,5000\n"), 0o600))
	tried, used := 0, make(map[string]bool)
	for _, pattern := range documents {
		for _, document := range must.Get(filepath.Glob(filepath.Join(root, pattern)))(t) {
			text := read(t, document)
			commands := commandsOf(text)
			if strings.Contains(document, "/docs/operations/") {
				commands = nil // integration/handbook runs them
			}
			for _, line := range commands {
				if found := ours.FindString(line); found != "" {
					tried++
					tryCommand(t, root, document, strings.TrimPrefix(line, found))
					continue
				}
				program, _, _ := strings.Cut(line, " ")
				if folder, _, inFolder := strings.Cut(program, "/"); inFolder && notRun[folder+"/"] != "" {
					program = folder + "/"
				}
				if used[program] = true; notRun[program] == "" {
					t.Errorf("%s: nothing says why %q is not run: %s", filepath.Base(document), program, line)
				}
			}
			if filepath.Base(document) == "CONTRIBUTING.md" {
				continue // it makes up a command
			}
			for _, found := range inlineSeqd.FindAllStringSubmatch(text, -1) {
				tried++
				tryCommand(t, root, document, found[1]+" x --help") // x may be the value of the last flag
			}
		}
	}
	if tried < 100 {
		t.Errorf("only %d commands were tried", tried)
	}
	for program := range notRun {
		if !used[program] {
			t.Errorf("no example uses %s", program)
		}
	}
}

// tryCommand runs a command line without the name of the program.
func tryCommand(t *testing.T, root, document, line string) {
	t.Helper()
	var args []string
	for _, m := range word.FindAllStringSubmatch(redirected.ReplaceAllString(" "+line, ""), -1) {
		arg := m[1] + m[2]
		if file := filepath.Join(root, arg); len(args) > 0 && args[len(args)-1] == "--config" && strings.Contains(arg, "/") {
			arg = file
		}
		args = append(args, arg)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if len(args) == 0 || strings.HasPrefix(args[0], "--") || !strings.Contains(line, "--config") {
		cancel() // it would run for ever, or wait for a service
	}
	var errs strings.Builder
	env := []string{"SEQD_CLIENT_ADDR=http://127.0.0.1:1", "SEQD_CLIENT_DSN=a:b@tcp(127.0.0.1:1)/c", "SEQD_LOG_LEVEL=error"}
	code := command.Run(ctx, args, io.Discard, &errs, command.WithEnv(env), command.WithInput(strings.NewReader("")))
	if code != command.ExitOK && (code == command.ExitConfig || strings.HasSuffix(line, "--help")) && !excused.MatchString(errs.String()) {
		t.Errorf("%s: seqd %s: %s", filepath.Base(document), line, &errs)
	}
}
