package bolt

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/seqd/seqd/persist"
)

// keepMany keeps answers as they are kept for requests for one number, over a day.
func keepMany(b *testing.B, s *Store, pass func(time.Duration), n int) {
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
		pass(24 * time.Hour / time.Duration(n/crowd))
	}
}

// sizeOf is how many bytes the files of a folder have.
func sizeOf(b *testing.B, dir string) (size int64) {
	b.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		size += info.Size()
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return size
}

// An allocation costs the same whether there are no answers, many, or many that have expired. It also
// says how many bytes an answer takes.
func BenchmarkAllocateBesideAnswers(b *testing.B) {
	const many = 500_000
	var elapsed time.Duration
	path := filepath.Join(b.TempDir(), "seqd.db")
	s, err := Open(Options{Path: path, LockTimeout: time.Second, Now: time.Now, Elapsed: func() time.Duration { return elapsed }})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	if err := s.Counters().Create(b.Context(), persist.Counter{BizTag: "order", Step: 1}); err != nil {
		b.Fatal(err)
	}
	allocate := func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Counters().Allocate(b.Context(), persist.Request{BizTag: "order", Size: 1}); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("none", allocate)
	keepMany(b, s, func(d time.Duration) { elapsed += d }, many)
	size := sizeOf(b, path+answersSuffix)
	b.Run(fmt.Sprint(many), func(b *testing.B) {
		allocate(b)
		b.ReportMetric(float64(size)/many, "bytes/answer")
	})
	elapsed += 48 * time.Hour
	if n, err := s.Answers().Purge(b.Context()); n != many || err != nil {
		b.Fatal(n, err)
	}
	b.Run(fmt.Sprint(many, " expired"), allocate)
}
