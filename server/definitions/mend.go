package definitions

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/bounded"
	"github.com/seqd/seqd/issuer"
)

// mendPause is the pause between two attempts to build what could not be built.
const mendPause = 5 * time.Second

// Mend builds biz types again that this process could not build, or that it built in another shape
// than the store has on record, until ctx ends: a file may be there by now, or be another one, a
// folder writable, or a clock right. A definition of this node's own may have another shape on
// record by now, and its strategy may get nothing from the store, which would notice that.
func (c *Catalogue) Mend(ctx context.Context) {
	every(ctx, mendPause, func() {
		for _, name := range c.states.broken() {
			c.guarded(name, func() { c.mend(ctx, name) })
		}
		c.builder.shapes.followed.Range(func(_, follows any) bool {
			err := follows.(func(context.Context) error)(ctx) // with another shape it is broken from now on
			return seqd.CodeOf(err) != seqd.CodeStoreUnavailable
		})
		c.builder.shapes.unfit.Range(func(name, shape any) bool {
			c.guarded(name.(string), func() { c.refit(ctx, name.(string), shape.(string)) })
			return true
		})
	})
}

// guarded calls f, which may panic in a strategy or plugin. There is no request that recovers it.
func (c *Catalogue) guarded(name string, f func()) {
	var err error
	defer func() {
		if err != nil {
			c.log.Error("a biz type could not be built again", "bizType", name, "error", err)
		}
	}()
	defer bounded.Recover("a strategy or plugin", &err)
	f()
}

// build builds a biz type.
type build func() (state, []seqd.RejectedBinding, *issuer.Definition)

// mend builds a biz type again, unless it has changed: then it is built anyway.
func (c *Catalogue) mend(ctx context.Context, name string) {
	defer c.turns.take(name)()
	before, _ := c.states.get(name)
	if !before.broken() || c.isAlone(name) {
		return
	}
	_, _, build, ok := c.known(ctx, name, before)
	if !ok {
		return
	}
	after, rejected, made := build()
	if made == nil || after.unusable {
		if made != nil {
			c.discard(ctx, made)
		}
		c.builder.handlers.Release(rejected)
		return
	}
	c.replace(ctx, name, before, func() (state, []seqd.RejectedBinding, *issuer.Definition) { return after, rejected, made })
}

// refit builds a biz type again that is refused for its shape, if it would get another shape now.
func (c *Catalogue) refit(ctx context.Context, name, shape string) {
	defer c.turns.take(name)()
	before, held := c.states.get(name)
	if !held || !before.enabled || before.deleted || before.unusable {
		c.builder.shapes.unfit.CompareAndDelete(name, shape)
		return
	}
	b, known, build, ok := c.known(ctx, name, before)
	if !ok || maker(b) != "" {
		return
	}
	if now, err := Shape(b, known); err != nil || now == shape {
		return
	}
	c.builder.shapes.unfit.CompareAndDelete(name, shape)
	c.replace(ctx, name, before, build)
}

// replace puts what build builds in the place of a biz type that could not be used, or is another
// one.
func (c *Catalogue) replace(ctx context.Context, name string, before state, build build) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.Server.StopTimeout)
	defer cancel()
	var (
		after    state
		rejected []seqd.RejectedBinding
	)
	err := c.issuer.Put(ctx, name, func() (issuer.Definition, error) {
		var d *issuer.Definition
		after, rejected, d = build()
		return *d, nil
	})
	if err != nil {
		before.closedBadly()
		c.log.Error("a biz type can be used now, and what it was before did not close well", "bizType", name, "error", err)
	}
	c.builder.handlers.Release(c.states.setRejected(name, rejected))
	c.states.set(name, after)
	c.log.Info("a biz type was built again, because it can be used now or is another one", "bizType", name)
}

// known returns a biz type as this process knows it, the shape that was forced upon it or that it
// has on record, and what builds it. It reads it again, because settings remember what they read
// from files. ok is false if it has changed, or is there no more.
func (c *Catalogue) known(ctx context.Context, name string, before state) (b seqd.BizType, shape string, build build, ok bool) {
	shape, err := c.builder.shapes.read(ctx, name)
	if err != nil {
		return b, "", nil, false
	}
	if before.revision == 0 {
		text, _ := c.cfg.Definition(name)
		b, err := c.builder.decode(name, text)
		return b, shape, func() (state, []seqd.RejectedBinding, *issuer.Definition) {
			after, rejected := before, b.Rejected
			after.over = new(atomic.Bool)
			d, err := c.builder.following(name, after).build(b, "")
			if err != nil {
				d.Strategy, d.Claim = unusable{err}, unusable{err}
			}
			if _, after.unusable = d.Strategy.(unusable); d.Rejected == nil {
				rejected = nil // none is in use
			}
			return after, rejected, &d
		}, err == nil
	}
	doc, said, err := c.records.read(ctx, name)
	if err != nil || doc.Revision != before.revision || said.Deleted || !said.Enabled {
		return b, "", nil, false
	}
	b, err = c.builder.decode(name, said.Definition)
	return b, cmp.Or(said.Shape, shape), func() (state, []seqd.RejectedBinding, *issuer.Definition) { return c.builder.buildStored(doc) }, err == nil
}

// discard closes what could be built of a biz type that cannot be used.
func (c *Catalogue) discard(ctx context.Context, d *issuer.Definition) {
	for _, p := range d.Plugins {
		if err := seqd.Close(ctx, p.Plugin); err != nil {
			c.log.Warn("a plugin of a biz type that cannot be used did not close well", "bizType", d.BizType.Name, "plugin", p.Name, "error", err)
		}
	}
}
