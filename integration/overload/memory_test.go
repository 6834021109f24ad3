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

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
)

func TestMain(m *testing.M) { node.Main(m) }

const (
	// clients is slightly below server.maxInFlight.
	clients = 4090
	// mostHeld is the memory that the node may use at once, as in ADR 21.
	mostHeld = 256 << 20
	// most is the memory that it may take from the system, including garbage that is not collected
	// yet. The actual value depends on how busy the machine is. Without a limit on answers it is
	// 1.7 GB and more.
	most = 640 << 20
	// mostSockets is the memory that the system may use for sockets.
	mostSockets = 128 << 20
)

// attack is a request of clients that do not read their answers.
type attack struct {
	bizType string // its definition
	first   []string
	request string
	always  bool // also if long tests do not run
}

// bizType returns a definition with an unlimited supply of numbers.
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

// Clients that request the largest answers and read nothing cost a node with its default
// configuration at most as much memory as ADR 21 says. Other callers are served meanwhile, and all
// are served once the clients are gone.
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
	t.Logf("%d of %d were served; the node uses %d MiB and took %d MiB at most, sockets %d MiB",
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
		t.Errorf("the node uses %d MiB, want at most %d", held>>20, mostHeld>>20)
	}
	if peak := n.PeakMemory(); peak > most {
		t.Errorf("the node took %d MiB, want at most %d", peak>>20, most>>20)
	}
	for _, c := range crowd {
		_ = c.Close()
	}
	n.Await("/seq/order?count=10000", http.StatusOK)
}

// fillHistory issues numbers until the history fills a page.
func fillHistory(t *testing.T, n *node.Node) {
	for range 1100 {
		must.Get(n.Take("order", 3))(t)
	}
	await.True(t, "the history fills a page", func() bool {
		_, body := n.Status("/biz-types/order/history?limit=1000")
		return strings.Count(body, `"first"`) >= 1000
	})
}

// enter makes all clients send a request at once and waits for the status of each answer. It reads
// nothing else. It returns the clients, and how many got a good answer.
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

// open sends a request and reads the whole answer.
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

// dialer has a tiny receive buffer, so that the memory of the clients does not count.
var dialer = net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
	controlErr := raw.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
	return errors.Join(controlErr, err)
}}

// connect connects until the end of the test.
func connect(t *testing.T, n *node.Node) net.Conn {
	c := must.Get(dialer.Dial("tcp", strings.TrimPrefix(n.URL, "http://")))(t)
	t.Cleanup(func() { _ = c.Close() })
	must.Do(t, c.SetDeadline(time.Now().Add(await.Patience)))
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

// heldMemory returns the bytes of the node's heap and stacks in use. That includes garbage that is
// not collected yet, so it returns the smallest of several values. If that is too much, a busy
// machine may have had no time to collect: heldMemory goes on until two collections have ended.
func heldMemory(t *testing.T, n *node.Node) int64 {
	var held, collected int64
	await.True(t, "garbage is collected", func() bool {
		var body string
		for range 100 {
			_, body = n.Status("/metrics")
			now := metric(t, body, "go_memstats_heap_alloc_bytes") + metric(t, body, "go_memstats_stack_inuse_bytes")
			if held == 0 || now < held {
				held = now
			}
		}
		count := metric(t, body, "go_gc_duration_seconds_count")
		if collected == 0 {
			collected = count + 2
		}
		return held <= mostHeld || count >= collected
	})
	return held
}

// metric returns a value of /metrics.
func metric(t *testing.T, body, name string) int64 {
	_, rest, _ := strings.Cut(body, "\n"+name+" ")
	text, _, _ := strings.Cut(rest, "\n")
	value := must.Get(strconv.ParseFloat(text, 64))(t)
	return int64(value)
}

// needFiles fails if a process may not open a file for each client.
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

// socketMemory returns the bytes that the system uses for TCP, for all processes.
func socketMemory(t *testing.T) int64 {
	stat := must.Get(os.ReadFile("/proc/net/sockstat"))(t)
	_, rest, _ := strings.Cut(string(stat), "TCP:")
	line, _, _ := strings.Cut(rest, "\n")
	var pages int64
	if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &pages); err != nil {
		t.Fatalf("no memory in %q: %v", line, err)
	}
	return pages * int64(os.Getpagesize())
}
