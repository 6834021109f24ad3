package definitions

import (
	"context"
	"log/slog"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/plugin"
	"github.com/seqd/seqd/strategy"
)

// exampleKey is the key of an example of a keyed biz type.
const exampleKey = "KEY"

// examples shows what IDs look like before there are any. It issues one from an issuer of its own,
// whose strategy makes only the first number. It has no store and no Redis, and runs only plugins
// that change how numbers are shown and are pure.
type examples struct {
	decode func(name string, text []byte) (seqd.BizType, error)
	now    func() time.Time
}

// of returns the first ID of a definition, or "" if it cannot be known without effects, or may not.
// known is the shape of the biz type until now, "" if it has none.
func (e examples) of(ctx context.Context, name string, definition []byte, known string, may func(seqd.BizType) bool) string {
	b, err := e.decode(name, definition)
	if err != nil || !may(b) {
		return ""
	}
	d, ok := e.definition(b, known)
	if !ok {
		return ""
	}
	issuer, err := issuer.New([]issuer.Definition{d}, issuer.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return ""
	}
	defer func() { _ = issuer.Close(ctx) }()
	call := &seqd.Call{BizType: name, Count: 1}
	if seqd.TraitsOf(b.Settings).Keyed {
		call.Key = exampleKey
	}
	if issuer.Issue(ctx, call) != nil {
		return ""
	}
	return call.Sequence.IDs()[0]
}

// definition returns what an example is issued from. ok is false if there is no example.
func (e examples) definition(b seqd.BizType, known string) (d issuer.Definition, ok bool) {
	traits := seqd.TraitsOf(b.Settings)
	if traits.First == 0 {
		return d, false // nobody knows the first number
	}
	d = issuer.Definition{BizType: b, Strategy: onlyFirst{traits.First, traits.Calendar.Now(e.now())}}
	quiet := builder{env: strategy.Env{Now: e.now, Log: slog.New(slog.DiscardHandler), Observer: seqd.NopObserver{}}}
	for _, binding := range plugin.Chain(b) {
		factory, err := plugin.Lookup(binding.Name)
		switch {
		case err == nil && factory.Shape == nil:
			continue // it does not change IDs
		case err != nil || !factory.Pure || makes(binding):
			return d, false
		}
		own, err := shapeLike(factory, b, binding, ofPlugin(binding.Name, known))
		if err != nil {
			return d, false
		}
		made, err := quiet.plugin(b, binding, inShape(binding.Name, own))
		if err != nil {
			return d, false
		}
		d.Plugins = append(d.Plugins, made)
	}
	return d, true
}

// onlyFirst is a strategy that makes the first number of a biz type, whenever it is called.
type onlyFirst struct {
	number int64
	period seqd.Period // 0 if numbers never reset
}

var _ seqd.Strategy = onlyFirst{}

// Init implements [seqd.Strategy].
func (onlyFirst) Init(context.Context, bool) error { return nil }

// Generate adds the number. n is 1.
func (o onlyFirst) Generate(_ context.Context, n int, seq *seqd.Sequence) error {
	seq.Add(o.number, n, 1)
	seq.In(o.period)
	return o.period.Check()
}

// Close implements [seqd.Strategy].
func (onlyFirst) Close(context.Context) error { return nil }
