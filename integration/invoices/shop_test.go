package invoices

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
	"github.com/seqd/seqd/internal/testing/testlog"
)

func TestMain(m *testing.M) { node.Main(m) }

// build compiles the example and returns its path.
func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "invoices")
	cmd := exec.Command("go", "build", "-o", program, "./examples/invoices")
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the example: %v\n%s", err, out)
	}
	return program
}

// shop is one process of the example. It keeps its address over restarts.
type shop struct {
	t    *testing.T
	addr string
	args []string
	path string
	cmd  *exec.Cmd
	log  testlog.Text
}

// newShop returns a shop that runs.
func newShop(t *testing.T, program string, args ...string) *shop {
	t.Helper()
	s := &shop{t: t, addr: testenv.ReserveAddr(t), path: program, args: args}
	t.Cleanup(func() {
		s.kill()
		if t.Failed() {
			text := s.log.String()
			t.Logf("shop %s wrote\n%s", s.addr, text[max(0, len(text)-6000):])
		}
	})
	s.start()
	return s
}

// start starts the process and waits until it listens.
func (s *shop) start() {
	s.t.Helper()
	s.cmd = exec.Command(s.path, append([]string{"-listen", s.addr}, s.args...)...)
	s.cmd.Stderr = &s.log
	must.Do(s.t, s.cmd.Start())
	await.Eventually(s.t, "the shop listens", func() error {
		conn, err := net.Dial("tcp", s.addr)
		if err == nil {
			_ = conn.Close()
		}
		return err
	})
}

// kill ends the process as kill -9 does. It may have been killed.
func (s *shop) kill() {
	_ = s.cmd.Process.Kill() // fails only if it has ended
	_ = s.cmd.Wait()
}

// invoice is the answer of a shop.
type invoice struct {
	Number, Order string
	Cents         int64
}

var callers = &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 16}}

// post asks for the invoice of an order. The status is 0 without an answer.
func (s *shop) post(order string, cents int64) (status int, got invoice) {
	body := fmt.Sprintf(`{"order":%q,"cents":%d}`, order, cents)
	resp, err := callers.Post("http://"+s.addr+"/invoices", "application/json", strings.NewReader(body))
	if err != nil {
		return 0, got
	}
	defer resp.Body.Close()
	if resp.StatusCode > http.StatusCreated {
		return resp.StatusCode, got
	}
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		return 0, got // it was killed while it answered
	}
	return resp.StatusCode, got
}
