package config_test

import (
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/plugin"
	"github.com/seqd/seqd/server/config"
)

const invoice = `bizTypes: [{name: invoice, reset: daily, timeZone: Asia/Shanghai,
  plugins: [{name: format, template: "INV-{date:20060102}-{seq:06}{check}", check: luhn}]}]
`

// Serials that reset each day load with a template that shows the day.
func TestFormat(t *testing.T) {
	b := mustLoad(t, invoice, config.Sources{}).BizTypes[0]
	factory := must.Get(plugin.Lookup("format"))(t)
	if !factory.ShowsPeriod(b, b.Plugins[0]) || b.Plugins[0].Order != 200 || !factory.Quick {
		t.Errorf("the binding %+v does not show the period", b.Plugins[0])
	}
}

func TestWrongFormat(t *testing.T) {
	for yaml, want := range map[string]string{
		`reset: daily, plugins: [{name: format, template: "{seq}"}]`:                  "bizTypes[0].reset: daily resets the numbers",
		`reset: daily, plugins: [{name: format, template: "A{date:200601}{seq}"}]`:    "bizTypes[0].plugins[0].template: byte 1: daily needs year, month and day",
		`reset: monthly, plugins: [{name: format, template: "{date:20060102}{seq}"}]`: "bizTypes[0].plugins[0].template: byte 0: {date:20060102} shows more than the month",
		`plugins: [{name: format}]`:                                                         "bizTypes[0].plugins[0].template: byte 0: the template ends without {seq}",
		`plugins: [{name: format, template: "{seq}", check: luhn}]`:                         "bizTypes[0].plugins[0].template: byte 5",
		`plugins: [{name: format, template: "{seq:r36}{check}", check: luhn}]`:              "bizTypes[0].plugins[0].check: luhn counts decimal digits only",
		`plugins: [{name: format, template: "{seq}"}, {name: format, template: "A-{seq}"}]`: "bizTypes[0].plugins[1].name: a biz type can have one template",
	} {
		_, err := config.LoadYAML([]byte("bizTypes: [{name: order, "+yaml+"}]\n"), config.Sources{})
		wantError(t, err, want)
	}
}
