package definitions

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/plugin"
	"github.com/seqd/seqd/server/config"
)

// effects is how many plugins were made that no example may use.
var effects atomic.Int32

// starred is a foreign plugin that changes IDs.
func starred(name string, pure bool) plugin.Factory {
	return plugin.Factory{
		Name: name, Pure: pure, Quick: true, Order: 300,
		Settings: func() any { return &struct{}{} },
		Shape:    func(seqd.BizType, seqd.PluginBinding) (string, error) { return name, nil },
		New: func(env plugin.Env, _ seqd.BizType, _ seqd.PluginBinding) (seqd.Plugin, error) {
			if !pure || env.Store != nil || env.Redis != nil {
				effects.Add(1)
			}
			return stars{}, nil
		},
	}
}

type stars struct{ seqd.NopPlugin }

func (stars) After(_ context.Context, call *seqd.Call) error {
	call.Sequence.Show(func(dst []byte, _ int64, shown []byte) []byte { return append(append(dst, '*'), shown...) })
	return nil
}

// silent is a foreign plugin that does not change IDs.
func silent(name string) plugin.Factory {
	f := starred(name, false)
	f.Shape = nil
	return f
}

func init() {
	for _, f := range []plugin.Factory{starred("example-pure", true), starred("example-effect", false), silent("example-silent")} {
		plugin.Register(f)
	}
}

// unknownFirst are the settings of a definition whose first number nobody knows.
type unknownFirst struct{}

// An example is the first ID as it would be shown now. It is left out if it cannot be known without
// effects.
func TestExample(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "key")
	format := func(template string) string {
		return fmt.Sprintf(`"plugins":[{"name":"format","template":%q}]`, template)
	}
	for name, test := range map[string]struct{ definition, want string }{
		"segment":         {`{}`, "1"},
		"start":           {`{"start":500,"ordering":"per-node"}`, "500"},
		"increment":       {`{"start":100,"increment":10,"offset":3}`, "103"},
		"gapless":         {`{"strategy":"gapless","start":7}`, "7"},
		"yearly":          {`{"reset":"yearly",` + format("INV-{date:2006}-{seq:06}") + `}`, "INV-2026-000001"},
		"gapless monthly": {`{"strategy":"gapless","reset":"monthly",` + format("{date:200601}.{seq:03}") + `}`, "202612.001"},
		"time zone": {`{"reset":"daily","timeZone":"Asia/Shanghai",` + format("{date:20060102}-{seq}") + `}`,
			"20270101-1"},
		"date without reset": {`{"timeZone":"Asia/Shanghai",` + format("{date:20060102}-{seq}") + `}`, "20270101-1"},
		"keyed":              {`{"keyed":true}`, "1"},
		"key":                {`{"keyed":true,"start":42,` + format("{key}-{seq:04}") + `}`, "KEY-0042"},
		"gapless key":        {`{"strategy":"gapless","keyed":true,` + format("{key}-{seq}") + `}`, "KEY-1"},
		"check digit":        {`{"plugins":[{"name":"format","template":"{seq:05}{check}","check":"luhn"}]}`, "000018"},
		"quiet plugins": {`{"plugins":[{"name":"rate-limit","rate":1,"burst":1},{"name":"history"},{"name":"stats"},{"name":"example-silent"}]}`,
			"1"},
		"webhook":          {`{"rejected":[{"name":"webhook","url":"http://127.0.0.1:1/x"}]}`, "1"},
		"pure":             {`{"plugins":[{"name":"example-pure"}]}`, "*1"},
		"not pure":         {`{"plugins":[{"name":"example-effect"}]}`, ""},
		"one not pure":     {`{"plugins":[{"name":"example-effect"},{"name":"format","template":"A{seq}"}]}`, ""},
		"no key file":      {`{"plugins":[{"name":"obfuscate","digits":8,"keyFile":"` + missing + `"}]}`, ""},
		"invalid template": {`{` + format("INV-{seq") + `}`, ""},
	} {
		must.Equal(t, exampleOf(t, test.definition), test.want, "%s", name)
	}
	if _, err := os.Stat(missing); err == nil || effects.Load() > 0 {
		t.Errorf("an example made a key file (%v), or plugins with effects: %d", err, effects.Load())
	}
	if d, ok := examplesAt(t, time.Now()).definition(seqd.BizType{Name: "x", Settings: &unknownFirst{}}, ""); ok {
		t.Errorf("an example of a strategy whose first number nobody knows: %+v", d)
	}
}

// A year in which no number has a date gives no example.
func TestNoExampleOutsideTheYears(t *testing.T) {
	late := examplesAt(t, time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC))
	for _, reset := range []string{"never", "yearly"} {
		definition := `{"reset":"` + reset + `","plugins":[{"name":"format","template":"{date:2006}-{seq}"}]}`
		must.Equal(t, late.of(t.Context(), "x", []byte(definition), "", readable), "", "reset %s", reset)
	}
	if err := (onlyFirst{1, 2100_0000}).Generate(t.Context(), 1, new(seqd.Sequence)); err == nil {
		t.Error("a number of the year 2100")
	}
}

// exampleOf returns the example of a definition in the last hours of 2026 in UTC.
func exampleOf(t *testing.T, definition string) string {
	t.Helper()
	return examplesAt(t, time.Date(2026, 12, 31, 20, 0, 0, 0, time.UTC)).of(t.Context(), "x", []byte(definition), "", readable)
}

func readable(seqd.BizType) bool { return true }

func examplesAt(t *testing.T, now time.Time) examples {
	t.Helper()
	cfg := config.Default()
	cfg.BizTypeFolder = os.TempDir()
	return examples{decode: (&builder{cfg: &cfg}).decode, now: func() time.Time { return now }}
}

// The example of a new biz type is the first ID that it issues.
func TestExampleIsTheFirstID(t *testing.T) {
	const obfuscated = `{"name":"obfuscate","digits":8,"key":"correct horse battery staple"}`
	for i, definition := range []string{
		`{}`,
		`{"start":12,"increment":5,"offset":2}`,
		`{"strategy":"gapless","plugins":[` + obfuscated + `]}`,
		`{"plugins":[` + obfuscated + `,{"name":"format","template":"A-{seq:08}-{check}","check":"damm"}]}`,
		`{"keyed":true,"plugins":[` + obfuscated + `,{"name":"format","template":"{key}-{seq}"}]}`,
		`{"strategy":"gapless","keyed":true,"start":3,"plugins":[{"name":"format","template":"{key}-{seq:r36}"}]}`,
	} {
		n := newNode(t, memory.New(time.Now))
		dry := always
		dry.DryRun = true
		shown, _, err := n.Put(t.Context(), "order", []byte(definition), dry)
		must.Do(t, err)
		must.Code(t, must.Err(n.Get(t.Context(), "order")), seqd.CodeUnknownBizType, "%s: a dry run left a biz type", definition)
		made, _, err := n.Put(t.Context(), "order", []byte(definition), always)
		if err != nil || made.Example != "" {
			t.Fatalf("%s: %q, %v", definition, made.Example, err)
		}
		if again, _, err := n.Put(t.Context(), "order", []byte(definition), always); err != nil || again.Example != "" {
			t.Errorf("%s: %q for a change of nothing, %v", definition, again.Example, err)
		}
		call := &seqd.Call{BizType: "order", Count: 1}
		if i >= 4 {
			call.Key = "KEY"
		}
		must.Do(t, n.issuer.Issue(t.Context(), call))
		must.Equal(t, call.Sequence.IDs()[0], shown.Example, "%s: the first ID, which the example shows,", definition)
		patched, err := n.Patch(t.Context(), "order", []byte(`{}`), dry)
		if err != nil || patched.Example != shown.Example {
			t.Errorf("%s: %s after a patch, %v", definition, patched.Example, err)
		}
		if deleted, err := n.Delete(t.Context(), "order", dry); err != nil || deleted.Example != "" {
			t.Errorf("%s: %q for a deletion, %v", definition, deleted.Example, err)
		}
	}
}

// The example of a snowflake biz type is the number of this moment with machine ID 0.
func TestExampleOfSnowflake(t *testing.T) {
	shown := func() int64 {
		t.Helper()
		return must.Get(strconv.ParseInt(exampleOf(t, `{"strategy":"snowflake","epoch":"2025-01-01T00:00:00Z"}`), 10, 64))(t)
	}
	now := func() int64 { return time.Now().UnixMilli() - time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli() }
	before, number, after := now(), shown(), now()
	if ms := number >> 22; ms < before || ms > after || number&(1<<22-1) != 0 {
		t.Errorf("%d is of ms %d, not %d to %d", number, ms, before, after)
	}
	if got := exampleOf(t, `{"strategy":"snowflake","plugins":[{"name":"format","template":"T{seq:r36}"}]}`); len(got) < 8 || got[0] != 'T' {
		t.Errorf("%q", got)
	}
}
