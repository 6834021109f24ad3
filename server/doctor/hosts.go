package doctor

import (
	"context"
	"net/url"
	"sync"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/config"
)

// hostsCheck connects to the hosts that seqd sends requests to, except the store and Redis.
type hostsCheck struct{ d *Doctor }

// target is a URL of the configuration that requests go to.
type target struct {
	// key is its key in the configuration, and lost what is lost while it does not answer.
	key, lost string
	url       *url.URL
}

// run connects to webhooks and to the collector of traces.
func (c hostsCheck) run(ctx context.Context, f *findings) {
	targets := webhooks(c.d.Config.BizTypes)
	if endpoint := c.d.Config.Tracing.Endpoint; endpoint != "" {
		targets = addTarget(targets, "tracing.endpoint", "spans", endpoint)
	}
	c.reach(ctx, f, targets)
}

// webhooks returns where the rejection handlers of biz types post to. A handler is recognised by
// the key of its setting. Only the host of a URL is shown: the rest may contain a secret.
func webhooks(bizTypes []seqd.BizType) (targets []target) {
	for _, b := range bizTypes {
		for _, r := range b.Rejected {
			if text, ok := config.Setting[string](r.Settings, "url"); ok {
				targets = addTarget(targets, b.Name+"."+r.Name+".url", "refusals", text)
			}
		}
	}
	return targets
}

// addTarget adds a URL, unless its host is in the list already.
func addTarget(targets []target, key, lost, text string) []target {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return targets // a handler that is not of seqd may mean something else by url
	}
	for _, known := range targets {
		if known.url.Scheme == u.Scheme && hostPort(known.url) == hostPort(u) {
			return targets
		}
	}
	return append(targets, target{key, lost, u})
}

// hostPatience bounds the connection to one host.
const hostPatience = 5 * time.Second

// reach connects to all targets at the same time, sends nothing, and reports in their order.
func (c hostsCheck) reach(ctx context.Context, f *findings, targets []target) {
	ctx, cancel := context.WithTimeout(ctx, hostPatience)
	defer cancel()
	visits := make([]findings, len(targets))
	var wg sync.WaitGroup
	for i, t := range targets {
		wg.Go(func() { c.visit(ctx, &visits[i], t) })
	}
	wg.Wait()
	for i := range visits {
		for _, found := range visits[i].all() {
			f.add(found.Level, found.Subject, found.Change, "%s", found.Found)
		}
	}
}

func (c hostsCheck) visit(ctx context.Context, f *findings, t target) {
	addr := hostPort(t.url)
	proxy, err := c.d.Host.Connect(ctx, t.url)
	if proxy != "" {
		addr += " by way of the proxy " + proxy
	}
	switch {
	case err != nil:
		f.add(Warn, t.key, "correct the URL, or let this machine reach and trust it; until then "+t.lost+" are dropped and counted", "%s cannot be used: %v", addr, err)
	case proxy != "":
		f.add(Info, t.key, "", "%s: the proxy answers; what is behind it was not asked", addr)
	case t.url.Scheme == "https":
		f.ok(t.key, "%s answers, and its certificate is good", addr)
	default:
		f.ok(t.key, "%s answers", addr)
	}
}
