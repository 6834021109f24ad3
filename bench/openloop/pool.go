package openloop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// pool has the connections of a load and the loop that serves them. Times are in ns since begin.
type pool struct {
	job    Job
	begin  time.Time
	epoll  int
	timer  int
	conns  []*conn
	idle   []*conn // a ring; the one that has been idle longest is at first
	first  int
	idles  int
	since  int64 // when the ring last became non-empty
	events []event
	next   int // the next request that is due, and so the number sent
	keyAt  int // offset of the key's digits in a request, 0 for none
	pathAt int // offset of the path's digits, 0 for none
}

// conn is one connection and the answer that it waits for.
type conn struct {
	fd      int
	request []byte
	header  []byte // the part that has arrived
	body    bool   // the header is complete
	missing int    // bytes of the body that have not arrived
	at      int    // index of the event
	status  int
}

// The longest header of an answer, and the digits of a number in a request's key and path.
const (
	longestHeader = 8 << 10
	keyDigits     = 12
	pathDigits    = 6
)

func open(target *url.URL, job Job) (p *pool, err error) {
	p = &pool{job: job, epoll: -1, timer: -1}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if p.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return p, err
	}
	if p.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC); err != nil {
		return p, err
	}
	if err := p.watch(p.timer, -1); err != nil {
		return p, err
	}
	addr, err := netip.ParseAddrPort(target.Host)
	if err != nil {
		return p, err
	}
	for i := range job.Connections {
		c, err := dial(addr)
		if err != nil {
			return p, err
		}
		p.conns = append(p.conns, c)
		c.request, p.pathAt, p.keyAt = request(target, job)
		if err := p.watch(c.fd, i); err != nil {
			return p, err
		}
	}
	p.idle, p.idles = slices.Clone(p.conns), len(p.conns)
	p.events = make([]event, 0, int(job.Rate*(job.Warm+job.Duration).Seconds())+1)
	return p, nil
}

// dial connects without Go's poller, because the loop of the pool does its work.
func dial(addr netip.AddrPort) (*conn, error) {
	if !addr.Addr().Is4() {
		return nil, fmt.Errorf("%s is not an IPv4 address", addr)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	c := &conn{fd: fd, header: make([]byte, 0, longestHeader)}
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		unix.Connect(fd, &unix.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()}),
		unix.SetNonblock(fd, true))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connect to %s: %w", addr, err), unix.Close(fd))
	}
	return c, nil
}

// request returns the bytes of a request, and the offsets of the digits in its path and its key.
func request(target *url.URL, job Job) (text []byte, pathAt, keyAt int) {
	method := job.Method
	if method == "" {
		method = "GET"
	}
	text = fmt.Appendf(nil, "%s %s", method, target.RequestURI())
	if job.Spread > 0 {
		pathAt = len(text) - pathDigits
	}
	text = fmt.Appendf(text, " HTTP/1.1\r\nHost: %s\r\n", target.Host)
	for _, line := range job.Headers {
		text = append(append(text, line...), "\r\n"...)
	}
	if method != "GET" {
		text = append(text, "Content-Length: 0\r\n"...)
	}
	if job.Keys != "" {
		text = append(append(text, "Idempotency-Key: "...), job.Keys...)
		keyAt = len(text)
		text = fmt.Appendf(text, "%0*d\r\n", keyDigits, 0)
	}
	return append(text, "\r\n"...), pathAt, keyAt
}

func (p *pool) watch(fd, as int) error {
	return unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(as)})
}

func (p *pool) close() error {
	var failed []error
	for _, c := range p.conns {
		failed = append(failed, unix.Close(c.fd))
	}
	for _, fd := range []int{p.timer, p.epoll} {
		if fd >= 0 {
			failed = append(failed, unix.Close(fd))
		}
	}
	return errors.Join(failed...)
}

func (p *pool) now() int64 { return time.Since(p.begin).Nanoseconds() }

// due returns when request n is due in an open loop.
func (p *pool) due(n int) int64 { return int64(float64(n) / p.job.Rate * 1e9) }

// run sends requests until the end of the load, and reads until all are answered or patience ends.
func (p *pool) run(ctx context.Context) error {
	end := (p.job.Warm + p.job.Duration).Nanoseconds()
	patience := p.job.Patience
	if patience == 0 {
		patience = 10 * time.Second
	}
	p.begin = time.Now()
	ready := make([]unix.EpollEvent, len(p.conns)+1)
	body := make([]byte, 64<<10)
	for {
		now := p.now()
		sent, err := p.send(now, end)
		switch {
		case err != nil || ctx.Err() != nil:
			return errors.Join(err, ctx.Err())
		case sent && p.idles == len(p.conns):
			return nil
		case now > end+patience.Nanoseconds():
			p.giveUp(now, end)
			return nil
		}
		n, err := unix.EpollWait(p.epoll, ready, 100)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		for _, e := range ready[:max(n, 0)] {
			if e.Fd < 0 {
				// the timer is level-triggered; an error means that it was read already
				_, _ = unix.Read(p.timer, body[:8])
			} else if err := p.read(p.conns[e.Fd], body); err != nil {
				return err
			}
		}
	}
}

// send sends the requests that are due while connections are idle, and sets the timer for the next
// one. It reports whether nothing is left to send.
func (p *pool) send(now, end int64) (all bool, err error) {
	for p.idles > 0 {
		if p.job.Most > 0 && p.next >= p.job.Most {
			return true, nil
		}
		due := now
		if p.job.Rate > 0 {
			due = p.due(p.next)
		}
		if due >= end {
			return true, nil
		}
		if due > now {
			return false, unix.TimerfdSettime(p.timer, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(due - now)}, nil)
		}
		p.events = append(p.events, event{due: due, sent: now, waited: due < p.since})
		c := p.idle[p.first]
		p.first, p.idles = (p.first+1)%len(p.idle), p.idles-1
		if err := p.write(c); err != nil {
			return false, err
		}
		now = p.now()
	}
	if p.job.Rate == 0 {
		return now >= end, nil
	}
	return p.due(p.next) >= end, nil
}

func (p *pool) write(c *conn) error {
	c.at = p.next
	p.next++
	if p.keyAt > 0 {
		overwrite(c.request[p.keyAt:p.keyAt+keyDigits], c.at)
	}
	if p.pathAt > 0 {
		overwrite(c.request[p.pathAt:p.pathAt+pathDigits], p.job.pathNumber(c.at))
	}
	n, err := unix.Write(c.fd, c.request)
	if err == nil && n < len(c.request) {
		err = errors.New("a request was written only in part")
	}
	return err
}

// pathNumber returns the number in the path of request n.
func (j Job) pathNumber(n int) int {
	if j.InOrder {
		return n % j.Spread
	}
	return rand.IntN(j.Spread)
}

// overwrite fills text with the last digits of n.
func overwrite(text []byte, n int) {
	for i := range text {
		text[len(text)-1-i] = byte('0' + n%10)
		n /= 10
	}
}

// read reads what has arrived on a connection.
func (p *pool) read(c *conn, body []byte) error {
	n, err := unix.Read(c.fd, body)
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		return nil
	case err != nil:
		return err
	case n == 0:
		return net.ErrClosed
	}
	if !c.body {
		c.header = append(c.header, body[:n]...)
		if n, err = c.parse(); err != nil || !c.body {
			return err
		}
	}
	if c.missing -= n; c.missing > 0 {
		return nil
	}
	if c.missing < 0 {
		return fmt.Errorf("%d bytes more than the answer's length", -c.missing)
	}
	p.answered(c)
	return nil
}

func (p *pool) answered(c *conn) {
	e := &p.events[c.at]
	e.done, e.status = p.now(), c.status
	c.header, c.body = c.header[:0], false
	if p.idles == 0 {
		p.since = e.done
	}
	p.idle[(p.first+p.idles)%len(p.idle)] = c
	p.idles++
}

var (
	headerEnd     = []byte("\r\n\r\n")
	contentLength = []byte("\r\nContent-Length: ")
)

// parse reads the header if it is complete, and returns how many bytes of the body have arrived.
func (c *conn) parse() (body int, err error) {
	end := bytes.Index(c.header, headerEnd)
	switch {
	case end < 0 && len(c.header) > longestHeader:
		return 0, errors.New("the header of an answer is too long")
	case end < 0:
		return 0, nil
	}
	head := c.header[:end+len("\r\n")]
	var statusErr, lengthErr error
	protocol, rest, _ := bytes.Cut(head, []byte(" "))
	c.status, statusErr = strconv.Atoi(string(rest[:min(len(rest), len("200"))]))
	_, rest, _ = bytes.Cut(head, contentLength)
	length, _, _ := bytes.Cut(rest, headerEnd[:2])
	c.missing, lengthErr = strconv.Atoi(string(length))
	if string(protocol) != "HTTP/1.1" || statusErr != nil || lengthErr != nil {
		return 0, fmt.Errorf("not an answer, or one without its length: %q", head)
	}
	c.body = true
	return len(c.header) - end - len(headerEnd), nil
}

// giveUp ends the wait for answers, and records the requests that were due and could not be sent.
func (p *pool) giveUp(now, end int64) {
	for i := range p.events {
		if p.events[i].status == 0 {
			p.events[i].done = now
		}
	}
	for ; p.job.Rate > 0 && p.due(p.next) < end && (p.job.Most == 0 || p.next < p.job.Most); p.next++ {
		p.events = append(p.events, event{due: p.due(p.next), sent: now, done: now, waited: true})
	}
}
