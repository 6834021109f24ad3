package main

import (
	"context"
	"time"
)

// settling is how long a process is left alone before its memory is measured.
const settling = 2 * time.Second

// benchIdle measures the time from the start of the process to its first ID, and its memory when
// nobody asks.
func benchIdle(ctx context.Context, o options) ([]result, error) {
	types := bizTypes(definition{"name": "order", "start": 100}, definition{"name": "user"}, definition{"name": "invite"})
	var empty, again []float64
	memory := make(map[string][]float64)
	for range o.rounds {
		_, err := with(func(s *servers) ([]result, error) {
			for _, b := range o.binaries() {
				dir, err := s.folder()
				if err != nil {
					return nil, err
				}
				for _, list := range []*[]float64{&empty, &again} {
					n, err := s.startNodeIn(ctx, dir, b.path, "/seq/order", types)
					if err != nil {
						return nil, err
					}
					if b.name == newBinary {
						*list = append(*list, n.took)
					}
					if list == &again {
						time.Sleep(settling)
						resident, err := n.resident()
						if err != nil {
							return nil, err
						}
						memory[b.name] = append(memory[b.name], resident)
					}
					if err := n.stop(); err != nil {
						return nil, err
					}
				}
			}
			return nil, nil
		})
		if err != nil {
			return nil, err
		}
	}
	const rss = "resident memory, idle, three biz types"
	results := []result{
		report("from the start of the process to the first ID, new store", empty, milliseconds).atMost(100_000),
		report("from the start of the process to the first ID, existing store", again, milliseconds).atMost(100_000),
		report(rss, memory[newBinary], mebibytes).atMost(20 << 20),
	}
	if o.oldBinary != "" {
		results = append(results, pairs{memory[oldBinary], memory[newBinary]}.report(rss, oldBinary, mebibytes))
	}
	return results, nil
}
