package main

import (
	"context"
	"errors"
	"os"

	"github.com/seqd/seqd/server/config"
)

// withPlugins has one biz type without plugins and the same with some.
const withPlugins = `
bizTypes:
  - {name: plain}
  - name: shaped
    plugins:
      - {name: obfuscate, digits: 10, key: "the key of a benchmark"}
      - {name: format, template: "INV-{date:20060102}-{seq:06}{check}", check: luhn}
      - {name: stats}
  - {name: kept, plugins: [{name: history, onOverflow: block}]}
`

// benchPlugins compares biz types with plugins with the same without.
func benchPlugins(ctx context.Context, o options) (results []result, err error) {
	dir, err := os.MkdirTemp("", "seqd-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cfg, err := config.LoadYAML([]byte(withPlugins), config.Sources{Flags: map[string]string{"store.bolt.path": dir + "/seqd.db"}})
	if err != nil {
		return nil, err
	}
	url, stop, err := runSeqd(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	speed := func(bizType string) func() (float64, error) {
		return func() (float64, error) { return wrk(ctx, o, url+"/seq/"+bizType) }
	}
	all, err := turns(o.rounds, speed("plain"), speed("shaped"), speed("kept"))
	if err != nil {
		return nil, err
	}
	const plain = "the same without plugins"
	return []result{
		pairs{base: all[0], value: all[1]}.result("obfuscate, format and stats, one ID per request, 64 connections", plain, perSecond, true, 0.90),
		pairs{base: all[0], value: all[2]}.report("history that blocks, one ID per request, 64 connections", plain, perSecond),
	}, nil
}
