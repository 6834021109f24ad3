// Package overload tests the memory of a node whose clients do not read their answers.
package overload

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/node"
)

func TestMain(m *testing.M) { node.Main(m) }

const (
	// clients are nearly as many as server.maxInFlight lets in.
	clients = 4090
	// mostHeld is what the node may hold at once, as in ADR 21.
	mostHeld = 256 << 20
	// most is what it may take from the system, with garbage that is not collected yet. That
	// depends on how busy the machine is; without a bound on answers it takes 1.7 GB and more.
	most = 640 << 20
	// mostSockets is what the system may take for them.
	mostSockets = 128 << 20
	patience    = 2 * time.Minute
)

// attack is what clients ask for whose answers they do not read.
type attack struct {
	bizType string // as its definition says
	first   []string
	request string
	always  bool // not in the long run alone
}

// bizType is a definition whose numbers do not end.
func bizType(plugins string) string {
	return `{"name":"order","step":10000000,"plugins":[` + plugins + `]}`
}

func format(template string) string {
	return bizType(`{"name":"format","template":"` + template + `","check":"luhn"}`)
}

const (
	short   = "INV-{seq:09}{check}"
	get     = "GET /seq/order?count=10000 HTTP/1.1\r\nHost: localhost\r\n"
	keyed   = "POST /seq/order?count=10000 HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: once\r\nContent-Length: 0\r\n"
	history = "GET /biz-types/order/history?limit=1000 HTTP/1.1\r\nHost: localhost\r\n"
)

// Clients that ask for as much as they may and read nothing take no more memory than ADR 21 says,
// of a node with its default configuration. Others are served meanwhile, and everybody once they
// are gone.
func TestClientsThatDoNotRead(t *testing.T) {
	for name, a := range map[string]attack{
		"formatted":        {bizType: format(short), request: get, always: true},
		"long":             {bizType: format(strings.Repeat("LONG", 57) + short), request: get},
		"as text":          {bizType: format(short), request: get + "Accept: text/plain\r\n"},
		"numbers":          {bizType: bizType(""), request: get},
		"answers repeated": {bizType: format(short), first: []string{keyed}, request: keyed},
		"history":          {bizType: bizType(`{"name":"history","flushInterval":"1ms"}`), request: history, always: true},
	} {
		t.Run(name, func(t *testing.T) {
			if !a.always {
				longtest.Only(t)
			}
			a.run(t)
		})
	}
}

func (a attack) run(t *testing.T) {
	needFiles(t)
	n := node.StartReady(t, t.TempDir(), `SEQD_BIZTYPES=[`+a.bizType+`,{"name":"other"}]`)
	if a.request == history {
		fillHistory(t, n)
	}
	for _, request := range a.first {
		open(t, n, request)
	}
	before := socketMemory(t)
	crowd, served := enter(t, n, a.request)
	held := heldMemory(t, n)
	t.Logf("%d of %d were served; the node holds %d MiB and took %d MiB at most, sockets %d MiB",
		served, clients, held>>20, n.PeakMemory()>>20, (socketMemory(t)-before)>>20)
	if served == 0 || served == clients {
		t.Errorf("%d of %d were served, want some", served, clients)
	}
	if grown := socketMemory(t) - before; grown > mostSockets {
		t.Errorf("the system took %d MiB for sockets, want at most %d", grown>>20, mostSockets>>20)
	}
	for _, target := range []string{"/seq/order", "/seq/other", "/seq/other?count=16", "/seq/other?count=100", "/readyz", "/metrics"} {
		if status, body := n.Status(target); status != http.StatusOK {
			t.Errorf("%s meanwhile: %d %s", target, status, body)
		}
	}
	if held > mostHeld {
		t.Errorf("the node holds %d MiB, want at most %d", held>>20, mostHeld>>20)
	}
	if peak := n.PeakMemory(); peak > most {
		t.Errorf("the node took %d MiB, want at most %d", peak>>20, most>>20)
	}
	for _, c := range crowd {
		_ = c.Close()
	}
	n.Await("/seq/order?count=10000", http.StatusOK)
}

// fillHistory issues until the history fills a page.
func fillHistory(t *testing.T, n *node.Node) {
	for range 1100 {
		if _, err := n.Take("order", 3); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		_, body := n.Status("/biz-types/order/history?limit=1000")
		if strings.Count(body, `"first"`) >= 1000 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the history does not fill: %.300s", body)
		}
	}
}

// enter makes all clients send a request at once, and returns them once each has the status of its
// answer, of which it reads nothing else; and how many got a good one.
func enter(t *testing.T, n *node.Node, request string) (crowd []net.Conn, served int64) {
	crowd = make([]net.Conn, clients)
	var entering sync.WaitGroup
	var good, refused atomic.Int64
	for i := range crowd {
		crowd[i] = connect(t, n)
	}
	for _, c := range crowd {
		entering.Go(func() {
			status, err := ask(c, request)
			switch {
			case status == http.StatusOK:
				good.Add(1)
			case status == http.StatusServiceUnavailable:
				refused.Add(1)
			default:
				t.Errorf("status %d, %v", status, err)
			}
		})
	}
	entering.Wait()
	return crowd, good.Load()
}

// open sends a request and reads all of its answer.
func open(t *testing.T, n *node.Node, request string) {
	c := connect(t, n)
	status, err := ask(c, request+"Connection: close\r\n")
	if err == nil {
		_, err = io.Copy(io.Discard, c)
	}
	if status != http.StatusOK || err != nil {
		t.Fatalf("status %d, %v", status, err)
	}
	_ = c.Close()
}

// dialer takes next to nothing of what it does not read: what the clients hold is not to be
// measured.
var dialer = net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
	controlErr := raw.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
	return errors.Join(controlErr, err)
}}

// connect connects for the length of the test.
func connect(t *testing.T, n *node.Node) net.Conn {
	c, err := dialer.Dial("tcp", strings.TrimPrefix(n.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

// ask sends a request and reads the status of its answer.
func ask(c net.Conn, request string) (status int, err error) {
	if _, err := io.WriteString(c, request+"\r\n"); err != nil {
		return 0, err
	}
	begin := make([]byte, len("HTTP/1.1 200"))
	if _, err := io.ReadFull(c, begin); err != nil {
		return 0, err
	}
	return strconv.Atoi(string(begin[len("HTTP/1.1 "):]))
}

// heldMemory returns the bytes of the node's heap and stacks that are in use. Garbage counts, as far
// as it is not collected yet, so the smallest of some looks is returned: each makes garbage too, until
// it is collected.
func heldMemory(t *testing.T, n *node.Node) int64 {
	var held int64
	for range 20 {
		_, body := n.Status("/metrics")
		now := metric(t, body, "go_memstats_heap_alloc_bytes") + metric(t, body, "go_memstats_stack_inuse_bytes")
		if held == 0 || now < held {
			held = now
		}
	}
	return held
}

// metric returns a value of /metrics.
func metric(t *testing.T, body, name string) int64 {
	_, rest, _ := strings.Cut(body, "\n"+name+" ")
	text, _, _ := strings.Cut(rest, "\n")
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatalf("%s in /metrics: %v", name, err)
	}
	return int64(value)
}

// needFiles fails if the system does not let a process have a file for each client.
func needFiles(t *testing.T) {
	var limit syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	if err == nil && limit.Max < clients+300 {
		err = errors.New("run it with more: ulimit -Hn")
	}
	if err != nil {
		t.Fatalf("%d open files are not enough: %v", limit.Max, err)
	}
}

// socketMemory returns the bytes that the system holds for TCP, of all processes.
func socketMemory(t *testing.T) int64 {
	stat, err := os.ReadFile("/proc/net/sockstat")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), "TCP:")
	line, _, _ := strings.Cut(rest, "\n")
	var pages int64
	if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &pages); err != nil {
		t.Fatalf("no memory in %q: %v", line, err)
	}
	return pages * int64(os.Getpagesize())
}
