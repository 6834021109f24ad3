// Package handbook runs the commands of the handbook, docs/operations, as they stand there, on real servers.
//
// Each page is run from its beginning to its end in a folder with seqd.yaml, once for each world of
// its row in pages. A world is a store, with or without Redis, and the nodes on it. A command shows what the
// page says that it shows, and exits with 0 or with what its comment says ("# exits with 1").
//
// What stands behind ```console limits a block: the names of stores, or redis, to worlds with
// one of them, and "not run" to none.
package handbook

import (
	"bufio"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
)

func TestMain(m *testing.M) { node.Main(m) }

const folder = "../../docs/operations"

// TestHandbook runs every page, in its first world; a long test runs all.
func TestHandbook(t *testing.T) {
	for _, file := range must.Get(filepath.Glob(filepath.Join(folder, "*.md")))(t) {
		if name := filepath.Base(file); len(pages[name].worlds) == 0 {
			t.Errorf("nothing says how %s is run", name)
		}
	}
	for name, page := range pages {
		commands := read(must.Get(os.ReadFile(filepath.Join(folder, name)))(t))
		for i, w := range page.worlds {
			t.Run(name+"/"+w.name(), func(t *testing.T) {
				if i > 0 {
					longtest.Only(t)
				}
				t.Parallel()
				r := w.start(t)
				if out, code := r.run(page.before + "\n"); code != 0 {
					t.Fatalf("before the page: %s\n%s", out, r.log())
				}
				r.follow(commands)
			})
		}
	}
}

// command is a line of a page, what it shows, and how it exits.
type command struct {
	text, want string
	code       int
	needs      []string // it is run in a world that has one of these, or in all
	notRun     bool
}

var (
	block = regexp.MustCompile("(?ms)^( *)```console([^\n]*)\n(.*?)^ *```")
	exits = regexp.MustCompile(`#.*exits with (\d+)`)
)

// read returns the commands of a page.
func read(page []byte) (list []command) {
	for _, b := range block.FindAllStringSubmatch(string(page), -1) {
		indent, limits := "\n"+b[1], strings.TrimSpace(b[2])
		for _, part := range strings.Split(strings.ReplaceAll("\n"+b[3], indent, "\n"), "\n$ ")[1:] {
			c := command{needs: strings.Fields(limits), notRun: limits == "not run"}
			lines := strings.SplitAfter(part, "\n")
			n := 1 // a command goes on after a backslash, and until the end of a here document
			for strings.HasSuffix(lines[n-1], "\\\n") {
				n++
			}
			if strings.Contains(lines[0], "<<'EOF'") {
				n = 1 + slices.IndexFunc(lines, func(line string) bool { return strings.TrimSuffix(line, "\n") == "EOF" })
			}
			c.text, c.want = strings.Join(lines[:n], ""), strings.Join(lines[n:], "")
			if m := exits.FindStringSubmatch(c.text); m != nil {
				c.code, _ = strconv.Atoi(m[1])
			}
			list = append(list, c)
		}
	}
	return list
}

// shell is a bash that stays for a whole page, with the functions of services.sh.
type shell struct {
	*testing.T
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Reader
}

//go:embed services.sh
var services string

// newShell starts a shell in a folder. All that it started ends with the test.
func newShell(t *testing.T, folder string, env []string) *shell {
	t.Helper()
	cmd := exec.Command("bash")
	cmd.Dir, cmd.Env = folder, append(withoutSeqd(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, out := must.Get(cmd.StdinPipe())(t), must.Get(cmd.StdoutPipe())(t)
	cmd.Stderr = os.Stderr
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	s := &shell{t, cmd, in, bufio.NewReader(out)}
	must.Get(io.WriteString(in, services))(t)
	return s
}

func withoutSeqd() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SEQD_") })
}

// end follows the output of a command, before its exit code.
const end = "\x01"

// run runs a command and returns all that it showed, and its exit code.
func (s *shell) run(text string) (output string, code int) {
	s.Helper()
	stuck := time.AfterFunc(2*await.Patience, func() { _ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) })
	defer stuck.Stop()
	must.Get(fmt.Fprintf(s.in, "{ :; %s\n} </dev/null 2>&1; printf '%s%%d%s' $?\n", strings.TrimSuffix(text, "\n"), end, end))(s)
	output, err := s.out.ReadString(end[0])
	exit, _ := s.out.ReadString(end[0])
	if code, _ = strconv.Atoi(strings.TrimSuffix(exit, end)); err != nil {
		s.Fatalf("%s: the shell ended: %v: %s", text, err, output)
	}
	return strings.TrimSuffix(output, end), code
}

var (
	// looks matches commands that change nothing. What they look for may take a moment, so they are repeated.
	looks   = regexp.MustCompile(`^(curl -?\S* ?\S+/(readyz|metrics)|curl -H [^|]*/(history|audit)\?|ls|seqd (doctor|nodes|counters|failover --config|tokens list|audit|history show))`)
	comment = regexp.MustCompile(`(?m)\s+#.*$`)
	space   = regexp.MustCompile(`\s+`)
)

// follow runs the commands of a page.
func (r *running) follow(commands []command) {
	r.Helper()
	tried := 0
	for _, c := range commands {
		if c.notRun || len(c.needs) > 0 && !slices.ContainsFunc(c.needs, func(what string) bool { return slices.Contains(r.has, what) }) {
			continue
		}
		tried++
		text := r.addrs.Replace(c.text)
		if does := r.does[strings.TrimSpace(comment.ReplaceAllString(c.text, ""))]; does != nil {
			does()
			continue
		}
		want := shown(r.addrs.Replace(c.want))
		for begin := time.Now(); ; time.Sleep(100 * time.Millisecond) {
			got, code := r.run(text)
			if code == c.code && want.MatchString(space.ReplaceAllString(got, "")) {
				break
			}
			if !looks.MatchString(text) || time.Since(begin) > await.Patience {
				r.Fatalf("$ %sexited with %d\n%s\nwant %d\n%s\nlog:\n%s", text, code, got, c.code, c.want, r.log())
			}
		}
	}
	if tried == 0 {
		r.Error("the page has no command for this world")
	}
}

// shown matches what a page shows, without regard to space. The sign … stands for anything.
func shown(want string) *regexp.Regexp {
	var parts []string
	for _, part := range strings.Split(space.ReplaceAllString(want, ""), "…") {
		parts = append(parts, regexp.QuoteMeta(part))
	}
	return regexp.MustCompile("(?s)^" + strings.Join(parts, ".*") + "$")
}
