package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"
)

// settling is how long a process is left alone before its memory is measured.
const settling = 2 * time.Second

// benchIdle measures the time from the start of the process to its first ID, and its memory when
// nobody asks.
func benchIdle(ctx context.Context, o options) ([]result, error) {
	return with(func(s *servers) ([]result, error) {
		var empty, again []float64
		resident, anonymous := make(map[string][]float64), make(map[string][]float64)
		for range o.rounds {
			for _, b := range o.binaries() {
				got, err := s.startTwice(ctx, b.path)
				if err != nil {
					return nil, err
				}
				if b.name == newBinary {
					empty, again = append(empty, got.empty), append(again, got.again)
				}
				resident[b.name], anonymous[b.name] = append(resident[b.name], got.resident), append(anonymous[b.name], got.anonymous)
			}
		}
		const rss = "resident memory, idle, three biz types"
		results := []result{
			report("from the start of the process to the first ID, new store", empty, milliseconds).atMost(100_000),
			report("from the start of the process to the first ID, existing store", again, milliseconds).atMost(100_000),
			report(rss, resident[newBinary], mebibytes).atMost(20 << 20),
			report(rss+": without what is mapped from files", anonymous[newBinary], mebibytes),
		}
		if o.oldBinary != "" {
			results = append(results,
				pairs{resident[oldBinary], resident[newBinary]}.report(rss, oldBinary, mebibytes),
				pairs{anonymous[oldBinary], anonymous[newBinary]}.report(rss+": without what is mapped from files", oldBinary, mebibytes))
		}
		return results, nil
	})
}

// start is what two starts of a process took, in µs, and the memory of the second, in bytes.
type start struct{ empty, again, resident, anonymous float64 }

// startTwice starts a binary on a new store, and again on the same.
func (s *servers) startTwice(ctx context.Context, path string) (got start, err error) {
	dir, err := s.folder()
	if err != nil {
		return got, err
	}
	if path, err = copied(path, dir); err != nil {
		return got, err
	}
	types := bizTypes(definition{"name": "order", "start": 100}, definition{"name": "user"}, definition{"name": "invite"})
	n, err := s.startNodeIn(ctx, dir, path, "/seq/order", types)
	if err != nil {
		return got, err
	}
	got.empty = n.took
	if err := n.stop(); err != nil {
		return got, err
	}
	if n, err = s.startNodeIn(ctx, dir, path, "/seq/order", types); err != nil {
		return got, err
	}
	got.again = n.took
	time.Sleep(settling)
	if got.resident, err = n.resident(); err != nil {
		return got, err
	}
	if got.anonymous, err = n.anonymous(); err != nil {
		return got, err
	}
	return got, n.stop()
}

// copied returns a copy of a program. How much of a program is mapped depends on how its file came into
// the page cache: one that was linked just now, or written in large pieces, has up to half as much
// resident memory again. In pieces of 32 KiB it has as much as one that is read from the disk.
func copied(path, dir string) (to string, err error) {
	source, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer source.Close()
	to = filepath.Join(dir, filepath.Base(path))
	target, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o700)
	if err != nil {
		return "", err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{target}, struct{ io.Reader }{source}, make([]byte, 32<<10))
	return to, errors.Join(err, target.Close())
}
