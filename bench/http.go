package main

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/seqd/seqd/bench/openloop"
)

// constantRoute is the fastest answer of the same size with the same framework.
const constantRoute = "constant gin route"

// besideConstant compares a path of seqd with a constant body of the same bytes.
func (s *servers) besideConstant(ctx context.Context, o options, path string, headers []string, env ...string) (scores, error) {
	c := contest{rounds: o.rounds}
	var first string
	for _, b := range o.binaries() {
		n, err := s.startNode(ctx, b.path, env...)
		if err != nil {
			return nil, err
		}
		if first == "" {
			first = n.url + path
		}
		c.add(b.name, o.loading(ctx, n.child, n.url+path, headers...))
	}
	peer, url, err := s.startConstant(ctx, first)
	if err != nil {
		return nil, err
	}
	c.add(constantRoute, o.loading(ctx, peer, url+"0", headers...))
	return c.run(ctx)
}

// loading returns a load of a service for a contest.
func (o options) loading(ctx context.Context, service *child, url string, headers ...string) func() (sample, error) {
	job := o.closed(url)
	job.Headers = headers
	return loadingJob(ctx, service, job)
}

func loadingJob(ctx context.Context, service *child, job openloop.Job) func() (sample, error) {
	return func() (sample, error) { return measured(ctx, service, job) }
}

// benchSingle measures one ID per request on an embedded store.
func benchSingle(ctx context.Context, o options) ([]result, error) {
	return with(func(s *servers) ([]result, error) {
		got, err := s.besideConstant(ctx, o, "/seq/order", nil, bizTypes(order))
		if err != nil {
			return nil, err
		}
		const what = "one ID per request"
		return got.withOld([]result{
			got.against(constantRoute, what, rateOf, perSecond).atLeast(0.97),
			got.against(constantRoute, what+": p99 at saturation", p99Of, milliseconds).atMost(1.1),
			got.against(constantRoute, what+": CPU for each request", cpuOf, ofCPU),
		}, what), nil
	})
}

// benchBatch measures 10,000 numbers per request.
func benchBatch(ctx context.Context, o options) ([]result, error) {
	return with(func(s *servers) ([]result, error) {
		got, err := s.besideConstant(ctx, o, "/seq/order?count=10000", []string{"Accept: text/plain"}, bizTypes(order))
		if err != nil {
			return nil, err
		}
		const what = "`count=10000` as text"
		return got.withOld([]result{got.against(constantRoute, what, rateOf, perSecond).atLeast(0.40)}, what), nil
	})
}

// benchSnowflakeHTTP measures one snowflake ID per request.
func benchSnowflakeHTTP(ctx context.Context, o options) ([]result, error) {
	return with(func(s *servers) ([]result, error) {
		got, err := s.besideConstant(ctx, o, "/seq/user", nil, bizTypes(definition{"name": "user", "strategy": "snowflake"}))
		if err != nil {
			return nil, err
		}
		const what = "snowflake, one ID per request"
		return got.withOld([]result{
			got.against(constantRoute, what, rateOf, perSecond).atLeast(0.95),
			got.against(constantRoute, what+": CPU for each request", cpuOf, ofCPU),
		}, what), nil
	})
}

// benchMetricsCost compares a node that counts metrics and checks tokens with one that does neither.
func benchMetricsCost(ctx context.Context, o options) ([]result, error) {
	const secret, off, unread = "seqd_a_token_of_the_benchmark", "both off", "both off, with the same header"
	header := "Authorization: Bearer " + secret
	token := fmt.Sprintf(`SEQD_AUTH_TOKENS=[{"name":"bench","sha256":"%x","scopes":["issue:*"]}]`, sha256.Sum256([]byte(secret)))
	return with(func(s *servers) ([]result, error) {
		c := contest{rounds: o.rounds}
		bare, err := s.startNode(ctx, o.binary, bizTypes(order), "SEQD_METRICS_ENABLED=false")
		if err != nil {
			return nil, err
		}
		c.add(off, o.loading(ctx, bare.child, bare.url+"/seq/order"))
		c.add(unread, o.loading(ctx, bare.child, bare.url+"/seq/order", header))
		for _, b := range o.binaries() {
			n, err := s.startNode(ctx, b.path, bizTypes(order), token)
			if err != nil {
				return nil, err
			}
			c.add(b.name, o.loading(ctx, n.child, n.url+"/seq/order", header))
		}
		got, err := c.run(ctx)
		if err != nil {
			return nil, err
		}
		const what = "metrics and a token, one ID per request"
		return got.withOld([]result{
			got.against(off, what, rateOf, perSecond).atLeast(0.98),
			got.against(off, what+": CPU for each request", cpuOf, ofCPU).atMost(1.02),
			got.against(unread, what+", without reading the header", rateOf, perSecond).atLeast(0.98),
			got.against(unread, what+": CPU for each request, without reading the header", cpuOf, ofCPU).atMost(1.02),
		}, what), nil
	})
}

// benchPlugins compares biz types with plugins with the same without.
func benchPlugins(ctx context.Context, o options) ([]result, error) {
	plugin := func(name string, settings definition) definition { settings["name"] = name; return settings }
	types := bizTypes(
		definition{"name": "plain"},
		definition{"name": "shaped", "plugins": []definition{
			plugin("obfuscate", definition{"digits": 10, "key": "the key of a benchmark"}),
			plugin("format", definition{"template": "INV-{date:20060102}-{seq:06}{check}", "check": "luhn"}),
			plugin("stats", definition{}),
		}},
		definition{"name": "kept", "plugins": []definition{plugin("history", definition{"onOverflow": "block"})}})
	return with(func(s *servers) ([]result, error) {
		n, err := s.startNode(ctx, o.binary, types)
		if err != nil {
			return nil, err
		}
		c := contest{rounds: o.rounds}
		for _, name := range []string{"plain", "shaped", "kept"} {
			c.add(name, o.loading(ctx, n.child, n.url+"/seq/"+name))
		}
		got, err := c.run(ctx)
		if err != nil {
			return nil, err
		}
		const plain = "without plugins"
		return []result{
			got.pair("plain", "shaped", rateOf).report("obfuscate, format and stats, one ID per request", plain, perSecond).atLeast(0.90),
			got.pair("plain", "kept", rateOf).report("history that blocks, one ID per request", plain, perSecond),
		}, nil
	})
}
