package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// The figures of this file are about what other work of a node costs the callers of numbers.

const (
	// renewers is how many programs hold a worker ID, and renewPause how often each of them renews.
	renewers   = 1024
	renewPause = 10 * time.Second
	// besideRate is the rate of the load beside a job: far below the capacity.
	besideRate = 5000
)

// benchWorkers measures issuing on a node that renews the leases of programs too.
func benchWorkers(ctx context.Context, o options) ([]result, error) {
	const none = "no programs"
	return with(func(s *servers) ([]result, error) {
		n, err := s.startNode(ctx, o.binary, bizTypes(order))
		if err != nil {
			return nil, err
		}
		callers := &http.Client{}
		defer callers.CloseIdleConnections()
		// No lease ends while nobody renews it.
		if _, err := send(ctx, callers, http.MethodPut, n.url+"/worker-pools/shop", `{"ttl":"1h"}`, http.StatusCreated); err != nil {
			return nil, err
		}
		leases := make([]string, renewers)
		for i := range leases {
			var leased struct {
				Lease string `json:"lease"`
			}
			if err := post(ctx, callers, n.url+"/workers/shop", fmt.Sprintf(`{"instance":"i%d"}`, i), http.StatusCreated, &leased); err != nil {
				return nil, err
			}
			leases[i] = leased.Lease
		}
		next := 0
		renew := func() error {
			lease := leases[next]
			next = (next + 1) % renewers
			return post(ctx, callers, n.url+"/workers/shop/"+lease, "", http.StatusOK, nil)
		}
		load := o.loading(ctx, n.child, n.url+"/seq/order")
		c := contest{rounds: o.rounds}
		c.add(none, load)
		c.add(newBinary, func() (sample, error) { return meanwhile(renewPause/renewers, renew, load) })
		got, err := c.run(ctx)
		if err != nil {
			return nil, err
		}
		return []result{got.against(none, "issuing while 1,024 programs renew worker IDs, bolt", rateOf, perSecond).atLeast(0.98)}, nil
	})
}

// benchBesideJob measures how long callers wait while a job issues on the same node.
func benchBesideJob(ctx context.Context, o options) ([]result, error) {
	const none, plain, codes = "no job", "serial", "coupon"
	return with(func(s *servers) ([]result, error) {
		n, err := s.startNode(ctx, o.binary, bizTypes(order, definition{"name": plain, "step": 1_000_000},
			definition{"name": codes, "step": 1_000_000, "plugins": []definition{
				{"name": "obfuscate", "digits": 10, "key": "the key of a benchmark"},
				{"name": "format", "template": "C-{seq:010}{check}", "check": "luhn"},
			}}))
		if err != nil {
			return nil, err
		}
		callers := &http.Client{}
		defer callers.CloseIdleConnections()
		load := loadingJob(ctx, n.child, o.open(n.url+"/seq/order", besideRate))
		c := contest{rounds: o.rounds}
		c.add(none, load)
		for _, bizType := range []string{plain, codes} {
			c.add(bizType, func() (found sample, err error) {
				job, err := startJob(ctx, callers, n.url, bizType)
				if err != nil {
					return found, err
				}
				if found, err = load(); err != nil {
					return found, err
				}
				_, err = send(ctx, callers, http.MethodDelete, n.url+"/jobs/"+job+"?ended=false", "", http.StatusNoContent)
				return found, err
			})
		}
		got, err := c.run(ctx)
		if err != nil {
			return nil, err
		}
		return []result{
			got.pair(none, plain, p99Of).report("issuing beside a job of plain numbers, 5,000 requests/s, bolt: p99", none, milliseconds).atMost(1.2),
			got.pair(none, codes, p99Of).report("issuing beside a job of codes with obfuscate and format, the same", none, milliseconds).atMost(1.2),
		}, nil
	})
}

// startJob makes a job that does not end by itself, and waits until it issues.
func startJob(ctx context.Context, callers *http.Client, url, bizType string) (id string, err error) {
	var job struct {
		ID   string `json:"id"`
		Done int64  `json:"done"`
	}
	err = post(ctx, callers, url+"/jobs", fmt.Sprintf(`{"bizType":%q,"count":1000000000}`, bizType), http.StatusAccepted, &job)
	for err == nil && job.Done == 0 && ctx.Err() == nil {
		time.Sleep(50 * time.Millisecond)
		var body []byte
		if body, err = get(url + "/jobs/" + job.ID); err == nil {
			err = json.Unmarshal(body, &job)
		}
	}
	return job.ID, errors.Join(err, ctx.Err())
}

// meanwhile calls run while something is done again and again.
func meanwhile(pause time.Duration, do func() error, run func() (sample, error)) (s sample, err error) {
	done, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ticker := time.NewTicker(pause)
		defer ticker.Stop()
		for err := error(nil); ; {
			select {
			case <-done:
				ended <- err
				return
			case <-ticker.C:
			}
			if err == nil {
				err = do()
			}
		}
	}()
	s, err = run()
	close(done)
	return s, errors.Join(err, <-ended)
}
