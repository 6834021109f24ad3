package testenv_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
)

// orphanEnv is the environment variable that makes this test binary the process that is killed.
const orphanEnv = "SEQD_TEST_ORPHANS"

func TestMain(m *testing.M) {
	_ = os.Unsetenv(testenv.MongoEnv) // these are tests of the stand-in
	os.Exit(m.Run())
}

func TestServersEndWithAKilledTest(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	if os.Getenv(orphanEnv) != "" {
		p := testenv.StartPostgres(t)
		_, _ = fmt.Printf("servers %s %s %s %s %s\n", testenv.StartRedis(t).Addr(), testenv.StartMongo(t).Addr(),
			p.Addr(), testenv.StartPgbouncer(t, p.Addr()).Addr(), testenv.StartMariaDB(t).Addr())
		select {} // until it is killed
	}
	command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	command.Env = append(os.Environ(), orphanEnv+"=1", "TMPDIR="+openFolder(t))
	command.Stderr = os.Stderr
	out := must.Get(command.StdoutPipe())(t)
	must.Do(t, command.Start())
	lines := bufio.NewScanner(out)
	var addrs []string
	for lines.Scan() && addrs == nil {
		if rest, found := strings.CutPrefix(lines.Text(), "servers "); found {
			addrs = strings.Fields(rest)
			_ = command.Process.Kill()
		}
	}
	_ = command.Wait() // it was killed
	if len(addrs) != 5 {
		t.Fatalf("the test started %v", addrs)
	}
	for _, addr := range addrs {
		await.Eventually(t, addr+" ends", func() error {
			if conn, err := net.Dial("tcp", addr); err == nil {
				return fmt.Errorf("it lives: %w", conn.Close())
			}
			return nil
		})
	}
}

// openFolder returns a folder that other users can reach.
func openFolder(t *testing.T) string {
	folder := t.TempDir()
	must.Do(t, os.Chmod(filepath.Dir(folder), 0o711))
	return folder
}
