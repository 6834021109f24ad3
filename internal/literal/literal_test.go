package literal

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
)

// A zone is read from its file once, because a million biz types may ask for it several times each.
func TestZoneIsReadOnce(t *testing.T) {
	first, _ := Zone("Asia/Shanghai")
	if again, _ := Zone("Asia/Shanghai"); again == nil || again != first {
		t.Error("it was read twice")
	}
}

// Texts that other programs read in another way are refused, by every reader.
func TestScalars(t *testing.T) {
	readers := map[string]func(text string) bool{
		"Int":      func(text string) bool { _, ok := Int(text); return ok },
		"Port":     func(text string) bool { _, ok := Port(text); return ok },
		"Float":    func(text string) bool { _, ok := Float(text); return ok },
		"Bool":     func(text string) bool { _, ok := Bool(text); return ok },
		"Duration": func(text string) bool { _, ok := Duration(text); return ok },
		"Time":     func(text string) bool { _, ok := Time(text); return ok },
		"Zone":     func(text string) bool { _, err := Zone(text); return err == nil },
	}
	good := map[string]string{
		"Int":      "0 5 -5 1000 65535 9223372036854775807 -9223372036854775808",
		"Port":     "0 5 1000 65535",
		"Float":    "0 5 -5 0.2 5.0 1e3 1e-3 9223372036854775808",
		"Bool":     "true false",
		"Duration": "0 0s 5s 1h30m 1h05m 500ms 1.5h 90s 1us 1µs 1h2m3s4ms5us6ns -5s",
		"Time":     "2027-01-31T00:00:00Z 2027-01-31T00:00:00.123+08:00",
		"Zone":     "UTC Etc/UTC Asia/Shanghai America/Argentina/Buenos_Aires Antarctica/DumontDUrville America/Port-au-Prince Australia/NSW US/Eastern",
	}
	texts := []string{
		"", " ", " 5", "5 ", "5\n", "+5", "-0", "65536", "08080", "http", "1e-999", "00", "010", "0o10", "0x10", "0b1", "1_000", "1,000", "1.000,5", ".5", "5.", "1e", "1e999", "٥", "５", "½",
		"9223372036854775808000", "5s5", "NaN", "nan", ".nan", "Inf", "inf", "-.inf", "Infinity", `"5"`, "'5'", "True", "TRUE", "yes", "no", "on", "off", "y", "1", "T", "null", "~",
		"1h30", "90", "1d", "1w", "1 h", "1H", "1m1h", "1h1h", "1s5", "s", "5sec", "PT1H", "0.1ns", "9e9h", "3000000h", "+5s", ".5s", "12:30", "10MB", "10MiB", "10k",
		"2024-01-01", "2027-01-31 00:00:00Z", "2027-01-31T00:00:00", "2027-01-31T0:00:00Z", "2027-01-31T00:00:00,5Z", "2027-02-30T00:00:00Z", "2027-01-31T24:00:00Z", "1735689600", "2027-01-31T00:00:00+99:99",
		"Local", "localtime", "posixrules", "posix/Asia/Tokyo", "right/Asia/Tokyo", "Factory", "EST", "EST5EDT", "CET", "GMT", "utc", "Utc", "Z", "+08:00", "UTC+8", "GMT+8",
		"Etc/GMT+8", "asia/shanghai", "ASIA/SHANGHAI", "Asia/shanghai", "Asia/Nowhere", "Asia/", "Asia/../UTC", "/etc/localtime", "Asia/Shanghai ", "China Standard Time", "Asia", "US",
	}
	for _, list := range good {
		texts = append(texts, strings.Fields(list)...)
	}
	for name, ok := range readers {
		fields := strings.Fields(good[name])
		want := make(map[string]bool)
		for _, text := range fields {
			want[text] = true
		}
		want["1"] = name == "Int" || name == "Float"
		want["65536"], want["1735689600"] = want["1"], want["1"]
		if name == "Port" {
			want["1"] = true
		}
		want["90"] = want["1"]
		if name == "Float" {
			for _, text := range append(strings.Fields(good["Int"]), "-0", "9223372036854775808000") {
				want[text] = true
			}
		}
		for _, text := range texts {
			must.Equal(t, ok(text), want[text], "%s(%q)", name, text)
		}
	}
	if d, _ := Duration("1h05m"); d != 65*time.Minute {
		t.Errorf("1h05m is %s", d)
	}
}

func TestYAML(t *testing.T) {
	bomb := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for _, name := range []string{"b", "c", "d", "e", "f", "g", "h", "i"} {
		bomb += name + ": &" + name + " [" + strings.Repeat("*"+string(name[0]-1)+",", 10) + "]\n"
	}
	for text, want := range map[string]string{
		"":                                    "",
		"# nothing":                           "",
		"a: 5":                                `{"a":5}`,
		"a: [010, 0o10, 0x10, 1_000, +5, 5.]": `{"a":["010","0o10","0x10","1_000","+5","5."]}`,
		"a: [1e3, 5.0, -0, 9007199254740993, 123456789012345678901234567890]": `{"a":[1e3,5.0,-0,9007199254740993,123456789012345678901234567890]}`,
		"a: [.inf, .nan, .5, 12:30, 2024-01-01, 2024-01-01T00:00:00Z]":        `{"a":[".inf",".nan",".5","12:30","2024-01-01","2024-01-01T00:00:00Z"]}`,
		"a: [true, false, True, yes, on, n]":                                  `{"a":[true,false,"True","yes","on","n"]}`,
		"a: ['5', \"true\", !!str 5, |\n  5\n ]":                              "does not parse",
		"a: ['5', \"true\", !!str 5, 'null']":                                 `{"a":["5","true","5","null"]}`,
		"a: |\n  5\n":                                                         `{"a":"5\n"}`,
		"a: [null, ~, Null, ]\nb:":                                            `{"a":[null,null,null],"b":null}`,
		"a: []\nb: {}":                                                        `{"a":[],"b":{}}`,
		"1: <a&b>\ntrue: x":                                                   `{"1":"<a&b>","true":"x"}`,
		"a: &x {p: 1, q: 2}\nb: {<<: *x, q: 3}\nc: *x":                        `{"a":{"p":1,"q":2},"b":{"q":3,"p":1},"c":{"p":1,"q":2}}`,
		"a: {<<: [{p: 1}, {p: 2, q: 3}], '<<': 4}":                            `{"a":{"<<":4,"p":1,"q":3}}`,
		"a: 1\nb: 2\na: 3":                                                    `line 3: the key "a" appears twice`,
		"a: {<<: 5}":                                                          "line 1: << needs a section",
		"? [a]\n: 1":                                                          "line 1: a key must be text",
		"a: !!int '5'":                                                        "line 1: no tag is supported but !!str",
		"a: !!binary aGk=":                                                    "line 1: no tag is supported but !!str",
		"a: !mine {b: 1}":                                                     "line 1: no tag is supported but !!str",
		"a: 1\n---\nb: 2":                                                     "there is more than one document in it",
		"a: &a [*a]":                                                          "line 1: it is nested more than 32 deep",
		bomb:                                                                  "line 1: it is too large with all aliases",
		"a: &a {<<: *a}":                                                      "line 1: it is nested more than 32 deep",
	} {
		got, err := YAML([]byte(text))
		switch {
		case want == "does not parse":
			if err == nil {
				t.Errorf("%q became %s", text, got)
			}
		case err != nil && err.Error() != want, err == nil && string(got) != want:
			t.Errorf("%.80q became %.80s, %v; want %s", text, got, err, want)
		case err == nil && len(got) > 0:
			if _, err := JSON(got); err != nil {
				t.Errorf("%q became %s: %v", text, got, err)
			}
		}
	}
}

func TestJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":9007199254740993,"b":[1e3,-0,5.0],"c":"\ud83d\ude00"}`: `{"a":9007199254740993,"b":[1e3,-0,5.0],"c":"😀"}`,
		"\ufeff{\t\"a\":\t1}":      `{"a":1}`,
		`{"a":1,"a":2}`:            `the key "a" appears twice`,
		`{"a":{"b":1,"\u0062":2}}`: `the key "b" appears twice`,
		"{\n\"a\": 010}":           "line 2: it is not JSON: invalid character '1' after object key:value pair",
		`{"a": NaN}`:               "line 1: it is not JSON: invalid character 'N' looking for beginning of value",
		"{\"a\": \"\xe9\"}":        "it is not JSON: it is not UTF-8",
		`{} {}`:                    "line 1: it is not JSON: invalid character '{' after top-level value",
		``:                         "line 1: it is not JSON: unexpected end of JSON input",
		strings.Repeat("[", 33) + strings.Repeat("]", 33): "it is nested more than 32 deep",
	} {
		value, err := JSON([]byte(text))
		got, _ := json.Marshal(value)
		if err != nil && err.Error() != want || err == nil && string(got) != want {
			t.Errorf("%.80q is %s, %v; want %s", text, got, err, want)
		}
	}
}
