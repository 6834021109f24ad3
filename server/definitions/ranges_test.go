package definitions

import (
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/plugin"
)

func init() {
	shape := func(seqd.BizType, seqd.PluginBinding) (string, error) { return "", nil }
	for _, f := range []plugin.Factory{{Name: "ranges-tolerant", Ranges: true}, {Name: "ranges-silent"}, {Name: "ranges-rewrites", Ranges: true, Shape: shape}} {
		f.Settings = func() any { return &struct{}{} }
		f.New = func(plugin.Env, seqd.BizType, seqd.PluginBinding) (seqd.Plugin, error) { return seqd.NopPlugin{}, nil }
		plugin.Register(f)
	}
}

// What a factory says of ranges reaches the issuer, except from one that rewrites.
func TestFactorySaysWhetherRangesAreTolerated(t *testing.T) {
	for name, want := range map[string]bool{"ranges-tolerant": true, "ranges-silent": false, "ranges-rewrites": false} {
		bound, err := (&builder{}).plugin(seqd.BizType{Name: "order"}, seqd.PluginBinding{Name: name, Settings: &struct{}{}}, "")
		if err != nil || bound.Ranges != want {
			t.Errorf("%s: %t, %v", name, bound.Ranges, err)
		}
	}
}
