package definitions

import (
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/plugin"
)

// What a factory says of ranges reaches the issuer, except from one that rewrites.
func TestFactorySaysWhetherRangesAreTolerated(t *testing.T) {
	shape := func(seqd.BizType, seqd.PluginBinding) (string, error) { return "", nil }
	for _, test := range []struct {
		factory plugin.Factory
		want    bool
	}{
		{plugin.Factory{Name: "ranges-tolerant", Ranges: true}, true},
		{plugin.Factory{Name: "ranges-silent"}, false},
		{plugin.Factory{Name: "ranges-rewrites", Ranges: true, Shape: shape}, false},
	} {
		f := test.factory
		f.Settings = func() any { return &struct{}{} }
		f.New = func(plugin.Env, seqd.BizType, seqd.PluginBinding) (seqd.Plugin, error) { return seqd.NopPlugin{}, nil }
		plugin.Register(f)
		bound, err := (&builder{}).plugin(seqd.BizType{Name: "order"}, seqd.PluginBinding{Name: f.Name, Settings: f.Settings()}, "")
		if err != nil || bound.Ranges != test.want {
			t.Errorf("%s: %t, %v", f.Name, bound.Ranges, err)
		}
	}
}
