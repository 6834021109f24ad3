package gaplesstest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"

	"github.com/seqd/seqd/persist"
)

// errLost is the error of an operation whose answer was lost, or that was never made.
var errLost = errors.New("the connection broke")

// faults say how often operations fail. They are safe for concurrent use.
type faults struct{ oneIn atomic.Int64 }

// set lets one operation in n fail, 0 for none.
func (f *faults) set(n int64) { f.oneIn.Store(n) }

// hit reports whether an operation fails, and whether it is made all the same.
func (f *faults) hit() (fails, made bool) {
	n := f.oneIn.Load()
	return n > 0 && rand.Int64N(n) == 0, rand.IntN(2) == 0
}

// faulty is a store whose documents fail.
type faulty struct {
	persist.Store
	faults *faults
}

// Documents implements [persist.Store].
func (f *faulty) Documents() persist.Documents {
	return &faultyDocuments{f.Store.Documents(), f.faults}
}

type faultyDocuments struct {
	persist.Documents
	faults *faults
}

// do carries out an operation, or loses it, or its answer.
func (f *faultyDocuments) do(op func() error) error {
	fails, made := f.faults.hit()
	if !fails {
		return op()
	}
	if made {
		_ = op()
	}
	return errLost
}

// Create implements [persist.Documents].
func (f *faultyDocuments) Create(ctx context.Context, d persist.Document) error {
	return f.do(func() error { return f.Documents.Create(ctx, d) })
}

// Update implements [persist.Documents].
func (f *faultyDocuments) Update(ctx context.Context, d persist.Document) error {
	return f.do(func() error { return f.Documents.Update(ctx, d) })
}

// Keep implements [persist.Documents].
func (f *faultyDocuments) Keep(ctx context.Context, list []persist.Document) error {
	return f.do(func() error { return f.Documents.Keep(ctx, list) })
}

// Read implements [persist.Documents].
func (f *faultyDocuments) Read(ctx context.Context, kind, key string) (d persist.Document, err error) {
	err = f.do(func() error { d, err = f.Documents.Read(ctx, kind, key); return err })
	return d, err
}
