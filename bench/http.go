package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/httpapi"
	_ "github.com/seqd/seqd/standard"
	"github.com/seqd/seqd/strategy/segment"
)

// firstNumber gives all IDs of a run the same length.
const firstNumber = 1_000_000_000

// bizType returns a segment biz type that starts at firstNumber.
func bizType(name string) seqd.BizType {
	settings := segment.DefaultSettings()
	settings.Start = firstNumber
	return seqd.BizType{Name: name, Strategy: segment.Name, Settings: &settings}
}

// startSeqd runs the server in this process on a bolt store in dir, as the shipped configuration
// does, and returns its URL.
func startSeqd(ctx context.Context, dir string, bizTypes []seqd.BizType) (url string, stop func() error, err error) {
	cfg := config.Default()
	cfg.Store.Bolt.Path = filepath.Join(dir, "seqd.db")
	cfg.BizTypes = bizTypes
	return runSeqd(ctx, &cfg)
}

// runSeqd runs the server in this process on a free port and waits until all its biz types are
// initialised.
func runSeqd(ctx context.Context, cfg *config.Config, opts ...server.Option) (url string, stop func() error, err error) {
	cfg.Server.Addr = "127.0.0.1:0"
	// time for 100,000 biz types to return their numbers; this is not measured
	cfg.Server.StopTimeout = 10 * time.Minute
	if err := cfg.Validate(); err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	listening := make(chan net.Addr, 1)
	ended := make(chan error, 1)
	opts = append(opts,
		server.WithLogger(slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))),
		server.WithOnListen(func(a net.Addr) { listening <- a }))
	go func() { ended <- server.Run(ctx, cfg, opts...) }()
	stop = func() error { cancel(); return <-ended }
	select {
	case addr := <-listening:
		url = "http://" + addr.String()
		return url, stop, awaitReady(ctx, url)
	case err := <-ended:
		cancel()
		return "", nil, err
	}
}

// awaitReady waits until every biz type is initialised.
func awaitReady(ctx context.Context, url string) error {
	for ctx.Err() == nil {
		if _, err := get(url + "/readyz"); err == nil {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return ctx.Err()
}

// startConstant serves constant bodies from a bare gin engine in this process. This is the fastest
// HTTP answer of that size with the same framework.
func startConstant(bodies map[string][]byte) (url string, stop func() error, err error) {
	engine := newEngine()
	for path, body := range bodies {
		contentType := "application/json"
		if path == "/text" {
			contentType = "text/plain; charset=utf-8"
		}
		handler := func(c *gin.Context) { c.Data(http.StatusOK, contentType, body) }
		engine.GET(path, handler)
		engine.POST(path, handler)
	}
	return serve(engine)
}

// newEngine returns a gin engine without middleware.
func newEngine() *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	return gin.New()
}

// serve serves a baseline on a free port.
func serve(h http.Handler) (url string, stop func() error, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ConnContext: httpapi.ConnContext}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(listener) }()
	stop = func() error {
		if err := errors.Join(s.Close(), <-ended); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}
	return "http://" + listener.Addr().String(), stop, nil
}

func get(url string) ([]byte, error) {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	if strings.Contains(url, "count=") {
		req.Header.Set("Accept", "text/plain")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, resp.Status, body)
	}
	return body, err
}

var (
	requestsPerSecond = regexp.MustCompile(`Requests/sec:\s+([0-9.]+)`)
	requestsInAll     = regexp.MustCompile(`(\d+) requests in`)
)

// load is the result of a run of wrk.
type load struct {
	rate     float64 // requests per second
	requests float64
}

// wrk loads a URL over 64 connections and returns requests per second. Any status except 2xx is an
// error.
func wrk(ctx context.Context, o options, url string, more ...string) (float64, error) {
	l, err := runWrk(ctx, o, url, more...)
	return l.rate, err
}

func runWrk(ctx context.Context, o options, url string, more ...string) (load, error) {
	args := append([]string{"-t1", "-c64", "-d" + o.duration.String()}, more...)
	out, err := exec.CommandContext(ctx, "wrk", append(args, url)...).CombinedOutput()
	if err != nil {
		return load{}, fmt.Errorf("wrk: %w: %s", err, out)
	}
	if strings.Contains(string(out), "Non-2xx") || strings.Contains(string(out), "Socket errors") {
		return load{}, fmt.Errorf("wrk %s: %s", url, out)
	}
	rate, requests := requestsPerSecond.FindSubmatch(out), requestsInAll.FindSubmatch(out)
	if rate == nil || requests == nil {
		return load{}, fmt.Errorf("wrk said %s", out)
	}
	var l load
	var rateErr, requestsErr error
	l.rate, rateErr = strconv.ParseFloat(string(rate[1]), 64)
	l.requests, requestsErr = strconv.ParseFloat(string(requests[1]), 64)
	return l, errors.Join(rateErr, requestsErr)
}

// beside compares a path of seqd with a constant body of the same bytes.
func beside(ctx context.Context, o options, bizTypes []seqd.BizType, path, constant string, more ...string) (p pairs, err error) {
	dir, err := os.MkdirTemp("", "seqd-bench-")
	if err != nil {
		return p, err
	}
	defer os.RemoveAll(dir)
	url, stop, err := startSeqd(ctx, dir, bizTypes)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	body, err := get(url + path)
	if err != nil {
		return p, err
	}
	base, stopBase, err := startConstant(map[string][]byte{constant: body})
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, stopBase()) }()
	return measure(o.rounds,
		func() (float64, error) { return wrk(ctx, o, base+constant, more...) },
		func() (float64, error) { return wrk(ctx, o, url+path, more...) })
}

func benchSingle(ctx context.Context, o options) ([]result, error) {
	p, err := beside(ctx, o, []seqd.BizType{bizType("order")}, "/seq/order", "/json")
	if err != nil {
		return nil, err
	}
	return []result{p.result("one ID per request, 64 connections", "constant gin route", perSecond, true, 0.90)}, nil
}

func benchBatch(ctx context.Context, o options) ([]result, error) {
	p, err := beside(ctx, o, []seqd.BizType{bizType("order")}, "/seq/order?count=10000", "/text", "-H", "Accept: text/plain")
	if err != nil {
		return nil, err
	}
	r := p.result("`count=10000` as text, 64 connections", "the same bytes as a constant", perSecond, true, 0.40)
	return []result{r}, nil
}
