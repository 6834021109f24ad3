package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/seqd/seqd/bench/openloop"
)

// The figures of this file are about a store with a million biz types that nobody has asked for.

// million returns the number of biz types.
func (o options) million() int {
	if o.quick {
		return 10_000
	}
	return 1_000_000
}

// coldRequests is how many cold biz types a round asks, one after the other.
const coldRequests = 500

// filled is a store with very many biz types, and one write of that store for comparison.
type filled struct {
	name  string // of the store
	dir   string
	env   []string
	write func() error
}

func benchMillionBolt(ctx context.Context, o options) ([]result, error) {
	return with(func(s *servers) ([]result, error) {
		dir, err := s.folder()
		if err != nil {
			return nil, err
		}
		if err := s.fillBolt(ctx, dir, o.binary, o.million()); err != nil {
			return nil, err
		}
		db, err := bbolt.Open(filepath.Join(dir, "write.db"), 0o600, nil)
		if err != nil {
			return nil, err
		}
		s.cleanUps = append(s.cleanUps, db.Close)
		return s.million(ctx, o, filled{"bolt", dir, nil, func() error {
			return db.Update(func(tx *bbolt.Tx) error {
				b, err := tx.CreateBucketIfNotExists([]byte("b"))
				if err != nil {
					return err
				}
				return b.Put([]byte("key"), []byte("value"))
			})
		}})
	})
}

func benchMillionPostgres(ctx context.Context, o options) ([]result, error) {
	return with(func(s *servers) ([]result, error) {
		if err := s.startPostgres(ctx); err != nil {
			return nil, err
		}
		env, err := s.onPostgres(ctx, "million", false)
		if err != nil {
			return nil, err
		}
		if err := s.fillPostgres(ctx, "million", o.binary, o.million(), env); err != nil {
			return nil, err
		}
		if err := s.createDatabase(ctx, "peer"); err != nil {
			return nil, err
		}
		pool, err := openPeerTable(ctx, s.database("peer"))
		if err != nil {
			return nil, err
		}
		s.cleanUps = append(s.cleanUps, func() error { pool.Close(); return nil })
		dir, err := s.folder()
		if err != nil {
			return nil, err
		}
		return s.million(ctx, o, filled{"PostgreSQL", dir, env, func() error {
			var n int64
			return pool.QueryRow(ctx, updatePeer, 1).Scan(&n)
		}})
	})
}

// million starts nodes on a filled store, one after the other.
func (s *servers) million(ctx context.Context, o options, f filled) (results []result, err error) {
	none, err := s.emptyNode(ctx, o)
	if err != nil {
		return nil, err
	}
	var ready, each, sizes, took []float64
	var p50, p99, saved pairs
	for range o.rounds {
		n, err := s.startNodeIn(ctx, f.dir, o.binary, "/readyz", append(f.env, fromStore)...)
		if err != nil {
			return nil, err
		}
		time.Sleep(settling)
		resident, err := n.resident()
		if err != nil {
			return nil, err
		}
		ready, each = append(ready, n.took), append(each, max(0, resident-none)/float64(o.million()))
		cold, writes, err := askCold(ctx, n.url, o.million(), f.write)
		if err != nil {
			return nil, err
		}
		p50.base, p50.value = append(p50.base, permille(writes, 500)), append(p50.value, permille(cold, 500))
		p99.base, p99.value = append(p99.base, permille(writes, 990)), append(p99.value, permille(cold, 990))
		size, slowest, err := pages(n.url)
		if err != nil {
			return nil, err
		}
		sizes, took = append(sizes, size), append(took, slowest)
		without, with, err := besideSnapshot(ctx, n, o.open(n.url+"/seq/"+template, besideRate))
		if err != nil {
			return nil, err
		}
		saved.base, saved.value = append(saved.base, without.p99), append(saved.value, with.p99)
		if err := n.stop(); err != nil {
			return nil, err
		}
	}
	const store = "one write of the store"
	what := fmt.Sprintf("%s biz types on %s: ", thousands(float64(o.million())), f.name)
	return []result{
		report(what+"from the start of the process until ready", ready, seconds).atMost(3e6),
		report(what+"resident memory for each, at rest", each, bytesEach).atMost(1024),
		p50.report(what+"first number of a cold one, p50", store, milliseconds),
		p99.report(what+"first number of a cold one, p99", store, milliseconds),
		report(what+"first number of a cold one, p99 beyond the store's", beyond(p99), milliseconds).atMost(5000),
		report(what+"largest of `/metrics`, `/readyz`, `/nodes`, `/overview`", sizes, kilobytes),
		report(what+"slowest of `/metrics`, `/readyz`, `/nodes`, `/overview`", took, milliseconds),
		saved.report(what+"issuing while a snapshot is saved, 5,000 requests/s, p99", "no snapshot", milliseconds).atMost(1.2),
	}, nil
}

// besideSnapshot measures a load alone, and while a snapshot is saved.
func besideSnapshot(ctx context.Context, n node, load openloop.Job) (without, with sample, err error) {
	if without, err = measured(ctx, n.child, load); err != nil {
		return without, with, err
	}
	saving, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		err := save(saving, n.url)
		if err == nil {
			err = errors.New("the snapshot was saved before the load ended")
		} else if errors.Is(saving.Err(), context.Canceled) {
			err = nil
		}
		ended <- err
	}()
	with, err = measured(ctx, n.child, load)
	stop()
	return without, with, errors.Join(err, <-ended)
}

// save gets a snapshot, and forgets it.
func save(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/snapshot", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

// emptyNode returns the memory of a node without biz types.
func (s *servers) emptyNode(ctx context.Context, o options) (float64, error) {
	n, err := s.startNode(ctx, o.binary, fromStore)
	if err != nil {
		return 0, err
	}
	time.Sleep(settling)
	resident, err := n.resident()
	return resident, errors.Join(err, n.stop())
}

// askCold asks for one number each of different biz types, in turn with a write of the store, and
// returns the sorted times of both.
func askCold(ctx context.Context, url string, types int, write func() error) (cold, writes []time.Duration, err error) {
	c, err := newClient(url + "/")
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if err := errors.Join(c.getPath("/seq/"+template), write()); err != nil { // to open connections
		return nil, nil, err
	}
	for _, i := range rand.Perm(types - 1)[:min(coldRequests, types-1)] {
		c.path("/seq/" + typeName(i+1))
		took, err := c.timed()
		began := time.Now()
		if err := errors.Join(err, write(), ctx.Err()); err != nil {
			return nil, nil, err
		}
		cold, writes = append(cold, took), append(writes, time.Since(began))
	}
	slices.Sort(cold)
	slices.Sort(writes)
	return cold, writes, nil
}

// beyond returns the value without its baseline, of each round.
func beyond(p pairs) (list []float64) {
	for i := range p.base {
		list = append(list, max(0, p.value[i]-p.base[i]))
	}
	return list
}

// pages returns the largest size in bytes, and the longest time in µs, of the answers that are about
// all biz types.
func pages(url string) (size, took float64, err error) {
	for _, path := range []string{"/metrics", "/readyz", "/nodes", "/overview"} {
		began := time.Now()
		body, err := get(url + path)
		if err != nil {
			return 0, 0, err
		}
		size, took = max(size, float64(len(body))), max(took, float64(time.Since(began).Microseconds()))
	}
	return size, took, nil
}
