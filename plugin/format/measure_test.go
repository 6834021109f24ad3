package format

import (
	"fmt"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/plugin"
)

// TestMeasure checks the reported largest number that fits into the padding. There is none without
// padding, or if the displayed number is not the issued one.
func TestMeasure(t *testing.T) {
	factory := must.Get(plugin.Lookup(name))(t)
	for _, test := range []struct {
		template string
		first    string // a plugin that runs first
		want     string
	}{
		{"A-{seq:06}", "", "[999999]"}, {"{seq:06}{check}", "", "[999999]"}, {"{seq:04r16}", "", "[65535]"}, {"{seq:02r62}", "", "[3843]"},
		{"{seq}", "", "[]"}, {"{seq:r36}", "", "[]"}, {"{seq:01}", "", "[]"}, {"{seq:015}", "", "[9.99999999999999e+14]"}, {"{seq:016}", "", "[]"}, {"{seq:064}", "", "[]"},
		{"A-{seq:06}", "letters", "[]"}, {"A-{seq:06}", "quiet", "[999999]"},
	} {
		settings := &Settings{Template: test.template}
		if template, err := parse(test.template); err == nil && template.find(check) >= 0 {
			settings.Check = "luhn"
		}
		b := seqd.BizType{Name: "order", Plugins: []seqd.PluginBinding{{Name: name, Order: 200, Settings: settings}}}
		if test.first != "" {
			b.Plugins = append(b.Plugins, seqd.PluginBinding{Name: test.first, Order: 100})
		}
		made := must.Get(factory.New(plugin.Env{Now: time.Now}, b, b.Plugins[0]))(t)
		got := []float64{}
		made.(seqd.Measurer).Measure(func(m seqd.Measurement) {
			if m.Gauge != seqd.GaugeLimit || m.Of != "" {
				t.Errorf("%+v", m)
			}
			got = append(got, m.Value)
		})
		must.Equal(t, fmt.Sprint(got), test.want, "%s after %q", test.template, test.first)
	}
}
