package doctor

import (
	"context"
	"net/url"
	"sync"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/config"
)

// hostsCheck looks at what seqd sends requests to, besides the store and Redis.
type hostsCheck struct{ d *Doctor }

// target is a URL of the configuration that requests go to.
type target struct {
	// key is where it stands, and lost what is lost while nobody answers there.
	key, lost string
	url       *url.URL
}

// hosts looks at what seqd sends requests to, besides the store and Redis: webhooks, and the
// collector of traces.
func (c hostsCheck) run(ctx context.Context, f *findings) {
	targets := webhooks(c.d.Config.BizTypes)
	if endpoint := c.d.Config.Tracing.Endpoint; endpoint != "" {
		targets = addTarget(targets, "tracing.endpoint", "spans", endpoint)
	}
	c.reach(ctx, f, targets)
}

// webhooks returns where the rejection handlers of biz types post to. A handler is known by the key
// of its setting; its URL may hold a secret, its host holds none.
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

// addTarget adds a URL, unless its host stands there already.
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

// hostPatience bounds the visit of one host.
const hostPatience = 5 * time.Second

// reach visits every target at once, sends it nothing, and reports in the order of the targets.
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
