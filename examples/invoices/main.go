// Command invoices writes invoices whose numbers have no gap: each number is reserved in seqd, used
// in a transaction of PostgreSQL, and confirmed from an outbox. It may be killed at any moment, and
// several may run beside each other. README.md explains it step by step.
//
//	go run ./examples/invoices -database postgres://localhost/invoices -seqd http://localhost:8080
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seqd/seqd/client"
)

// options are the flags.
type options struct {
	listen, database, seqd, bizType string
	ttl                             time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.listen, "listen", "localhost:9000", "address to listen on")
	flag.StringVar(&o.database, "database", "postgres://localhost/invoices", "URL of the PostgreSQL database")
	flag.StringVar(&o.seqd, "seqd", "http://localhost:8080", "addresses of seqd, separated by commas")
	flag.StringVar(&o.bizType, "biz-type", "invoice", "gapless biz type that the numbers come from")
	flag.DurationVar(&o.ttl, "ttl", time.Minute, "how long a number is reserved; a transaction gets half of it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "invoices:", err)
		os.Exit(1)
	}
}

// run serves until the context ends.
func run(ctx context.Context, o options) error {
	numbers, err := client.New(client.Config{Addrs: strings.Split(o.seqd, ","), Token: os.Getenv("SEQD_CLIENT_TOKEN")})
	if err != nil {
		return err
	}
	db, err := pgxpool.New(ctx, o.database)
	if err != nil {
		return err
	}
	defer db.Close()
	s := &service{db: db, numbers: numbers, bizType: o.bizType, ttl: o.ttl}
	if err := s.createTables(ctx); err != nil {
		return fmt.Errorf("create the tables: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	// It begins with what an earlier process, killed between commit and confirm, left in the outbox.
	confirmed := make(chan struct{})
	go func() {
		defer close(confirmed)
		s.confirmAll(ctx)
	}()
	defer func() {
		cancel()
		<-confirmed
	}()
	return serve(ctx, o.listen, s)
}

func serve(ctx context.Context, addr string, s *service) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	slog.Info("listening", "addr", listener.Addr().String())
	server := &http.Server{Handler: routes(s), ReadHeaderTimeout: 10 * time.Second}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		patience, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		stopped <- server.Shutdown(patience)
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}
