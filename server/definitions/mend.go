package definitions

import (
	"context"
	"time"

	"github.com/seqd/seqd"
)

// mendPause is the pause between two attempts to build what could not be built.
const mendPause = 5 * time.Second

// Mend builds biz types again that this process could not build, until ctx ends: a file may be
// there by now, a folder writable, or a clock right.
func (c *Catalogue) Mend(ctx context.Context) {
	every(ctx, mendPause, func() {
		for _, name := range c.states.unusable() {
			c.mend(ctx, name)
		}
	})
}

// mend builds a biz type again, unless it has changed: then it is built anyway.
func (c *Catalogue) mend(ctx context.Context, name string) {
	defer c.turns.take(name)()
	before, _ := c.states.get(name)
	if !before.unusable || c.isAlone(name) {
		return
	}
	made, after, rejected, ok := c.rebuild(ctx, name, before)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.Server.StopTimeout)
	defer cancel()
	if err := c.issuer.Put(ctx, name, func() (seqd.Definition, error) { return *made, nil }); err != nil {
		c.log.Error("a biz type can be used now, and what it was before did not close well", "bizType", name, "error", err)
	}
	c.builder.handlers.Release(c.states.setRejected(name, rejected))
	c.states.set(name, after)
	c.log.Info("a biz type can be used now", "bizType", name)
}

// rebuild builds a biz type as this process knows it. ok is false if that fails again; then nothing
// is left of the attempt.
func (c *Catalogue) rebuild(ctx context.Context, name string, before state) (made *seqd.Definition, after state, rejected []seqd.RejectedBinding, ok bool) {
	after = before
	if before.revision > 0 {
		doc, _, err := c.records.read(ctx, name)
		if err != nil || doc.Revision != before.revision {
			return nil, after, nil, false
		}
		after, rejected, made = c.builder.buildStored(doc)
	} else {
		for _, b := range c.cfg.BizTypes {
			if b.Name == name {
				d, err := c.builder.build(b)
				if err != nil {
					return nil, after, nil, false
				}
				_, after.unusable = d.Strategy.(unusable)
				made, rejected = &d, b.Rejected
			}
		}
	}
	if made == nil || after.unusable {
		if made != nil {
			c.discard(ctx, made)
		}
		c.builder.handlers.Release(rejected)
		return nil, after, nil, false
	}
	return made, after, rejected, true
}

// discard closes what could be built of a biz type that cannot be used.
func (c *Catalogue) discard(ctx context.Context, d *seqd.Definition) {
	for _, p := range d.Plugins {
		if closer, ok := p.Plugin.(seqd.Closer); ok {
			if err := closer.Close(ctx); err != nil {
				c.log.Warn("a plugin of a biz type that cannot be used did not close well", "bizType", d.BizType.Name, "plugin", p.Name, "error", err)
			}
		}
	}
}
