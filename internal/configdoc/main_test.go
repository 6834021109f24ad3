package main

import (
	"fmt"
	"math/big"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/config"
)

func TestDocumentIsUpToDate(t *testing.T) {
	want := must.Get(document("../.."))(t)
	got := must.Get(os.ReadFile("../../docs/CONFIGURATION.md"))(t)
	if string(got) != want {
		t.Error("docs/CONFIGURATION.md is not up to date: run go run ./internal/configdoc >docs/CONFIGURATION.md")
	}
}

func TestHelpIsUpToDate(t *testing.T) {
	want := must.Get(helpTexts("../.."))(t)
	got := must.Get(os.ReadFile("../../server/config/help.json"))(t)
	if string(got) != want {
		t.Error("server/config/help.json is not up to date: run go run ./internal/configdoc help >server/config/help.json")
	}
	if strings.Contains(want, "](") {
		t.Error("server/config/help.json has links, which lead nowhere")
	}
}

// everyKey returns the keys of the configuration and those of plugins and rejection handlers.
func everyKey() []config.Key {
	keys := config.Keys()
	for _, settings := range allSettings() {
		keys = append(keys, config.SettingsOf(settings)...)
	}
	return keys
}

// Each number and duration has a range, and a meaning of zero if the range contains zero.
func TestEveryKeyIsDescribed(t *testing.T) {
	for _, k := range everyKey() {
		limits, zero := k.Field.Tag.Get("range"), k.Field.Tag.Get("zero")
		switch k.Field.Type.Kind() {
		case reflect.Int, reflect.Int64, reflect.Float64:
		default:
			continue
		}
		if limits == "" {
			t.Errorf("%s has no range", k.Path)
		}
		must.Equal(t, strings.HasPrefix(limits, "0"), zero != "", "%s: the range %q has the zero that means %q", k.Path, limits, zero)
	}
}

var bounds = regexp.MustCompile(`^(0s?, or )?(\S+) to (\S+?)(, or auto)?$`)

// The ranges are those that the configuration checks: a value just outside is refused.
func TestRangesAreChecked(t *testing.T) {
	tried := 0
	for _, k := range config.Keys() {
		m := bounds.FindStringSubmatch(k.Field.Tag.Get("range"))
		if m == nil {
			continue
		}
		for i, step := range []int64{-1, 1} {
			outside, ok := beside(k, m[2+i], step)
			if !ok {
				continue
			}
			tried++
			if problem := load(k, outside); problem == "" {
				t.Errorf("%s %s is outside %q and is accepted", k.Path, outside, m[0])
			}
			if problem := load(k, m[2+i]); strings.Contains(problem, " outside ") {
				t.Errorf("%s %s is inside %q: %s", k.Path, m[2+i], m[0], problem)
			}
		}
	}
	if tried < 50 {
		t.Errorf("only %d values were tried", tried)
	}
}

// The ranges of plugins and rejection handlers are those that their settings check.
func TestRangesOfPluginsAreChecked(t *testing.T) {
	tried := 0
	for i, settings := range allSettings() {
		if _, plain := settings.(seqd.Validator); !plain {
			continue
		}
		for _, k := range config.SettingsOf(settings) {
			m := bounds.FindStringSubmatch(k.Field.Tag.Get("range"))
			if m == nil || m[1] != "" || m[4] != "" {
				continue
			}
			for j, step := range []int64{-1, 1} {
				outside, ok := beside(k, m[2+j], step)
				if !ok {
					continue
				}
				tried++
				if !refuses(i, k, outside) {
					t.Errorf("%s %s is outside %q and is accepted", k.HelpID(), outside, m[0])
				}
				if bound := strings.ReplaceAll(m[2+j], ",", ""); refuses(i, k, bound) && m[2+j] != "0" {
					t.Errorf("%s %s is inside %q and is refused", k.HelpID(), bound, m[0])
				}
			}
		}
	}
	if tried < 50 {
		t.Errorf("only %d values were tried", tried)
	}
}

// refuses reports whether the settings at a place in allSettings refuse a value of a key, because it
// is out of its range.
func refuses(at int, k config.Key, value string) bool {
	settings := allSettings()[at]
	field := reflect.ValueOf(settings).Elem()
	for name := range strings.SplitSeq(k.Path, ".") {
		for _, f := range reflect.VisibleFields(field.Type()) {
			if f.Tag.Get("config") == name {
				field = field.FieldByIndex(f.Index)
				break
			}
		}
	}
	if d, err := time.ParseDuration(value); k.Field.Type == reflect.TypeFor[time.Duration]() && err == nil {
		field.SetInt(int64(d))
	} else if n, err := strconv.ParseInt(value, 10, 64); err == nil {
		field.SetInt(n)
	} else {
		return true // it is too large for the type
	}
	return slices.ContainsFunc(settings.(seqd.Validator).Validate(), func(p seqd.Problem) bool {
		return p.Key == k.Path && strings.Contains(p.Text, "outside")
	})
}

// beside returns the value next to bound, below (-1) or above (1). ok is false if the bound is
// another key.
func beside(k config.Key, bound string, step int64) (text string, ok bool) {
	switch k.Field.Type {
	case reflect.TypeFor[time.Duration]():
		d, err := time.ParseDuration(bound)
		return (d + time.Duration(step)).String(), err == nil
	case reflect.TypeFor[int](), reflect.TypeFor[int64]():
		n, ok := new(big.Int).SetString(strings.ReplaceAll(bound, ",", ""), 10)
		if !ok {
			return "", false
		}
		return n.Add(n, big.NewInt(step)).String(), true
	}
	return "", false
}

// load reads a configuration with one biz type of each strategy and one key set, and returns the
// error for that key.
func load(k config.Key, value string) (problem string) {
	_, err := config.Load(config.Sources{
		Env:   []string{`SEQD_BIZTYPES=[{"name":"a"},{"name":"b","strategy":"snowflake"}]`},
		Flags: map[string]string{k.Path: strings.ReplaceAll(value, ",", "")},
	})
	name := k.Path[strings.LastIndex(k.Path, ".")+1:]
	for line := range strings.Lines(fmt.Sprint(err)) {
		if key, text, _ := strings.Cut(line, ": "); strings.HasSuffix("."+key, "."+name) {
			return text
		}
	}
	return ""
}

// A wrong comment is an error that names the key.
func TestWrongComments(t *testing.T) {
	for name, test := range map[string]struct{ comment, want string }{
		"good":        {"Addr is the address.", ""},
		"none":        {"", "server.addr"},
		"no name":     {"It is the address.", "server.addr"},
		"ends a cell": {"Addr is a | b.", "server.addr"},
	} {
		t.Run(name, func(t *testing.T) {
			k := config.Keys()[0]
			c := comments{ofType: map[string]map[string]string{
				k.Owner.PkgPath() + "." + k.Owner.Name(): {k.Field.Name: test.comment},
			}}
			text, err := c.of(k)
			if got := fmt.Sprint(err); test.want != "" && !strings.Contains(got, test.want) || test.want == "" && text != "The address." {
				t.Errorf("%q, %v", text, err)
			}
		})
	}
}
