// Command embedded issues numbers inside a program, without HTTP: two biz types over one bolt file.
// It prints a few IDs and stops. The next run continues where this one stopped.
//
//	go run ./examples/embedded
//
// A program that wants the whole service, with routes, configuration and metrics, imports package
// command instead: see examples/customplugin.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/bolt"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/segment"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, "embedded.db"); err != nil {
		log.Fatal(err)
	}
}

// run issues from the counters in the file at path, which one process at a time can open.
func run(ctx context.Context, out io.Writer, path string) (err error) {
	store, err := bolt.Open(bolt.Options{Path: path, LockTimeout: time.Second, Now: time.Now})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	issuer, err := newIssuer(store)
	if err != nil {
		return err
	}
	// Close gives back the numbers that were not issued. Without it, as after a crash, the next run
	// skips them.
	defer func() { err = errors.Join(err, closeIssuer(issuer)) }()
	return issue(ctx, issuer, out)
}

// newIssuer returns an issuer of two biz types: plain order numbers, and invoices from 1000 on that
// are shown with a prefix.
func newIssuer(store persist.Store) (*issuer.Issuer, error) {
	env := strategy.Env{Store: store, Now: time.Now, Log: slog.Default(), Observer: seqd.NopObserver{}}
	orders, err := define(env, "order", 1) // its numbers are shown as they are
	if err != nil {
		return nil, err
	}
	shown := prefix{text: "INV-"}
	invoices, err := define(env, "invoice", 1000, "prefix("+shown.text+")")
	if err != nil {
		return nil, err
	}
	invoices.Plugins = []seqd.BoundPlugin{{Name: "prefix", Rewrites: true, Quick: true, Plugin: shown}}
	return issuer.New([]issuer.Definition{orders, invoices}, issuer.Options{})
}

// define returns a biz type that takes ranges of numbers from the store. Its claim refuses to issue if
// the strategy, or a text of a plugin that changes how numbers are shown, is another one than in an
// earlier run, and if the counter was lost.
func define(env strategy.Env, name string, start int64, plugins ...string) (issuer.Definition, error) {
	settings := segment.DefaultSettings()
	settings.Start = start
	bizType := seqd.BizType{Name: name, Strategy: segment.Name, Settings: &settings}
	s, err := segment.New(env, bizType)
	if err != nil {
		return issuer.Definition{}, err
	}
	claim, err := strategy.NewClaim(env, bizType, s, plugins...)
	return issuer.Definition{BizType: bizType, Strategy: s, Claim: claim}, err
}

// issue prints three order numbers, one at a time, and two invoices at once.
func issue(ctx context.Context, issuer *issuer.Issuer, out io.Writer) error {
	for range 3 {
		order, err := issuer.Next(ctx, "order", 1)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, "order", order.First())
	}
	invoices, err := issuer.Next(ctx, "invoice", 2)
	if err != nil {
		return err
	}
	for id := range invoices.Displays() {
		fmt.Fprintf(out, "invoice %s\n", id)
	}
	return nil
}

func closeIssuer(issuer *issuer.Issuer) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return issuer.Close(ctx)
}

// prefix is a plugin that shows a text in front of each number.
type prefix struct {
	seqd.NopPlugin // Before and OnError do nothing
	text           string
}

var _ seqd.Plugin = prefix{}

// After runs when the numbers are made. It changes how they are shown, never the numbers.
func (p prefix) After(_ context.Context, call *seqd.Call) error {
	call.Sequence.Show(func(dst []byte, _ int64, shown []byte) []byte { return append(append(dst, p.text...), shown...) })
	return nil
}
