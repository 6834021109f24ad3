// Command mongostandin stands in for a MongoDB server if none can be installed. It is FerretDB with
// its SQLite backend in a folder, behind a turnstile that lets one command through at a time. It is
// a single server without authentication, replication and transactions. Build it with
// scripts/standin, which makes FerretDB use the index on _id.
//
// The turnstile makes updates of one document atomic, as MongoDB promises. FerretDB reads the
// document, changes it and writes it back without a lock, so most of many concurrent $inc would be
// lost.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/FerretDB/FerretDB/ferretdb"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address to listen on")
	dir := flag.String("dir", "", "existing folder of the data")
	synchronous := flag.String("synchronous", "full", "when SQLite waits for the disk: off, normal, full")
	flag.Parse()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, log, *listen, *dir, *synchronous); err != nil {
		log.Error("ended", "error", err)
		os.Exit(1)
	}
}

// run serves until ctx ends. It opens the port once FerretDB answers behind it.
func run(ctx context.Context, log *slog.Logger, listen, dir, synchronous string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	backend, ended, err := startFerret(ctx, log, dir, synchronous)
	if err != nil {
		return err
	}
	defer func() { cancel(); <-ended }()
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	log.Info("listening", "addr", listener.Addr().String())
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	return (&turnstile{backend: backend, log: log}).serve(ctx, listener)
}

// startFerret starts FerretDB on a port of its own and returns its address and a channel that is
// closed when it has stopped.
func startFerret(ctx context.Context, log *slog.Logger, dir, synchronous string) (string, <-chan struct{}, error) {
	source, err := sqliteURL(dir, synchronous)
	if err != nil {
		return "", nil, err
	}
	server, err := ferretdb.New(&ferretdb.Config{
		Listener:  ferretdb.ListenerConfig{TCP: "127.0.0.1:0"},
		Logger:    slog.New(&atLeast{Handler: log.Handler(), level: slog.LevelWarn}),
		Handler:   "sqlite",
		SQLiteURL: source,
	})
	if err != nil {
		return "", nil, err
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Run(ctx) }() // it never returns an error
	uri, err := url.Parse(server.MongoDBURI())
	if err != nil {
		return "", nil, err
	}
	return uri.Host, ended, nil
}

// sqliteURL returns the URL of the folder for FerretDB. FerretDB itself sets journal_mode=wal and
// leaves synchronous at SQLite's default.
func sqliteURL(dir, synchronous string) (string, error) {
	switch synchronous {
	case "off", "normal", "full":
	default:
		return "", fmt.Errorf("synchronous is %q and not off, normal or full", synchronous)
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	source := url.URL{Scheme: "file", Path: absolute + "/", RawQuery: url.Values{"_pragma": {"synchronous(" + synchronous + ")"}}.Encode()}
	return source.String(), nil
}

// atLeast drops the lines below a level: FerretDB writes one for every connection.
type atLeast struct {
	slog.Handler
	level slog.Level
}

func (h *atLeast) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= h.level && h.Handler.Enabled(ctx, level)
}

func (h *atLeast) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &atLeast{Handler: h.Handler.WithAttrs(attrs), level: h.level}
}

func (h *atLeast) WithGroup(name string) slog.Handler {
	return &atLeast{Handler: h.Handler.WithGroup(name), level: h.level}
}
