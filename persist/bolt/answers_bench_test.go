package bolt

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
)

// keepMany keeps answers as they are kept for requests for one number, in one window.
func keepMany(b *testing.B, s *Store, n int) {
	b.Helper()
	const crowd = most
	var wg sync.WaitGroup
	for range n / crowd {
		for range crowd {
			wg.Go(func() {
				var hash [32]byte
				_, _ = rand.Read(hash[:])
				id, claim := base64.RawURLEncoding.EncodeToString(hash[:]), "1 p "+base64.RawURLEncoding.EncodeToString(hash[:12])+".8a7 1"
				if held, err := s.Answers().Claim(context.Background(), id, claim, time.Hour); held != "" || err != nil {
					b.Error(held, err)
				}
				answer := "1 d" + claim[3:] + " n20261122001234:1:1"
				if held, err := s.Answers().Swap(context.Background(), id, claim, answer, 24*time.Hour); held != "" || err != nil {
					b.Error(held, err)
				}
			})
		}
		wg.Wait()
	}
}

// sizeOf is how many bytes the files of a folder have.
func sizeOf(b *testing.B, dir string) (size int64) {
	b.Helper()
	must.Do(b, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		size += info.Size()
		return err
	}))
	return size
}

// benchStore opens a store with a counter.
func benchStore(b *testing.B, elapsed *time.Duration) *Store {
	b.Helper()
	s := must.Get(Open(Options{
		Path: filepath.Join(b.TempDir(), "seqd.db"), LockTimeout: time.Second, Now: time.Now, Elapsed: func() time.Duration { return *elapsed },
	}))(b)
	b.Cleanup(func() { _ = s.Close() })
	must.Do(b, s.Counters().Create(b.Context(), persist.Counter{BizTag: "order", Step: 1}))
	return s
}

// What an allocation costs if there are no answers, and if many have expired. Both are measured in
// turn, and the medians shown: the machine may have other work. It also says how many bytes an
// answer takes.
func BenchmarkAllocateBesideAnswers(b *testing.B) {
	const many = 300_000
	var elapsed time.Duration
	none, apart := benchStore(b, &elapsed), benchStore(b, &elapsed)
	keepMany(b, apart, many)
	size := sizeOf(b, apart.path+answersSuffix)
	elapsed += 48 * time.Hour
	if n, err := apart.Answers().Purge(b.Context()); n != many || err != nil {
		b.Fatal(n, err)
	}
	stores := []*Store{none, apart}
	var took [2][]time.Duration
	n := 0
	for b.Loop() {
		n++
		for i := range stores {
			i = (i + n) % len(stores) // none of them is always the first
			began := time.Now()
			must.Get(stores[i].Counters().Allocate(b.Context(), persist.Request{BizTag: "order", Size: 1}))(b)
			took[i] = append(took[i], time.Since(began))
		}
	}
	b.ReportMetric(0, "ns/op")
	for i, unit := range []string{"none-µs", "apart-µs"} {
		slices.Sort(took[i])
		b.ReportMetric(float64(took[i][n/2].Nanoseconds())/1000, unit)
	}
	b.ReportMetric(float64(size)/many, "bytes/answer")
}
