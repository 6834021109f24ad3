package issuer

import "github.com/seqd/seqd"

// Measure calls tell with the values of the strategies and plugins of all biz types. plugin is ""
// for those of the strategy. The values of one biz type come one after the other; the order of biz
// types is not defined. Measure is safe for concurrent use. tell is called by one goroutine.
func (is *Issuer) Measure(tell func(bizType, plugin string, m seqd.Measurement)) {
	for i := range is.serving() {
		is.measure(i, "", i.strategy, tell)
		for _, plug := range i.chain {
			is.measure(i, plug.Name, plug.Plugin, tell)
		}
	}
}

// measure measures a strategy or plugin. A panic is logged and has no other effect.
func (is *Issuer) measure(i *instance, plugin string, of any, tell func(bizType, plugin string, m seqd.Measurement)) {
	var err error
	defer func() {
		if err != nil {
			is.log.Error("measuring failed", "bizType", i.name, "plugin", plugin, "error", err)
		}
	}()
	defer recoverFrom(seqd.CodeInternal, "measuring", i.name, &err)
	seqd.Measure(of, func(value seqd.Measurement) { tell(i.name, plugin, value) })
}
