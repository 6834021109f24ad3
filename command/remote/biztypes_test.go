package remote_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

// A list is printed page by page, as text and as one JSON document.
func TestList(t *testing.T) {
	pages := map[string]string{
		"":  `{"bizTypes":[{"name":"a","version":1,"enabled":true,"source":"config","definition":{}},{"name":"b","version":2,"enabled":false,"source":"api","updatedAt":"2026-11-20T12:00:00.123Z","definition":{"strategy":"snowflake"}}],"next":"b"}`,
		"b": `{"bizTypes":[{"name":"c","version":3,"enabled":true,"source":"api","definition":{}}]}`,
	}
	f := answering(t, func(w http.ResponseWriter, r *http.Request) { answerJSON(200, pages[r.URL.Query().Get("after")])(w, r) })
	l := f.line(t)
	got := l.run("biz-types", "list")
	for _, row := range []string{"NAME VERSION STATE STRATEGY SOURCE CHANGED", "a 1 enabled segment config -", "b 2 disabled snowflake api 2026-11-20T12:00:00Z", "c 3 enabled segment api -"} {
		if !slices.ContainsFunc(strings.Split(got.out, "\n"), func(line string) bool { return strings.Join(strings.Fields(line), " ") == row }) {
			t.Errorf("no line %q in\n%s", row, got.out)
		}
	}
	var list struct{ BizTypes []struct{ Name string } }
	if got = l.run("biz-types", "list", "--json"); json.Unmarshal([]byte(got.out), &list) != nil || len(list.BizTypes) != 3 {
		t.Errorf("%+v", got)
	}
	if got := f.targets(); got[0] != "GET /biz-types?limit=1000" || got[1] != "GET /biz-types?after=b&limit=1000" {
		t.Errorf("asked %q", got)
	}
	for _, text := range []string{`{"bizTypes":[]}`, `{"bizTypes":[{"name":"a","definition":{}}],"next":"a"}`} {
		f := answering(t, answerJSON(200, text))
		got := f.line(t).run("biz-types", "list", "--json")
		if strings.Contains(text, "next") {
			if got.code != 1 || !strings.Contains(got.errs, "does not end") || !json.Valid([]byte(got.out)) || len(f.asked) != 2 {
				t.Errorf("a list without an end: %+v", got)
			}
		} else if got != (outcome{0, "{\"bizTypes\": [\n]}\n", ""}) {
			t.Errorf("an empty list: %+v", got)
		}
	}
}

// With a pattern pages can be empty although others follow. They leave no trace in what is printed.
func TestListMatch(t *testing.T) {
	pages := map[string]string{
		"":  `{"bizTypes":[],"next":"k"}`,
		"k": `{"bizTypes":[],"next":"p"}`,
		"p": `{"bizTypes":[{"name":"q","version":1,"enabled":true,"source":"api","definition":{}}]}`,
	}
	f := answering(t, func(w http.ResponseWriter, r *http.Request) { answerJSON(200, pages[r.URL.Query().Get("after")])(w, r) })
	l := f.line(t)
	if got := l.run("biz-types", "list", "--match", "*q*"); strings.Count(got.out, "NAME") != 1 || strings.Count(got.out, "\n") != 2 {
		t.Errorf("%+v", got)
	}
	var list struct{ BizTypes []struct{ Name string } }
	if got := l.run("biz-types", "list", "--match", "*q*", "--json"); json.Unmarshal([]byte(got.out), &list) != nil || len(list.BizTypes) != 1 {
		t.Errorf("%+v", got)
	}
	if got := f.targets(); got[0] != "GET /biz-types?limit=1000&match=%2Aq%2A" || got[1] != "GET /biz-types?after=k&limit=1000&match=%2Aq%2A" {
		t.Errorf("asked %q", got)
	}
}

const refund = `{"name":"refund","version":3,"enabled":true,"source":"api","updatedAt":"2026-11-20T12:00:00.123Z","definition":{"start":1000,"plugins":[{"name":"format","template":"R{seq}"}],"hosts":["a","b"],"zone":"5"},"warnings":["start is below"]}`

// A definition is shown as YAML that can be put again, in the order of the service.
func TestGet(t *testing.T) {
	l := answering(t, answerJSON(200, refund)).line(t)
	l.want(`# refund: version 3, enabled, from api, changed 2026-11-20T12:00:00Z
start: 1000
plugins:
  - name: format
    template: R{seq}
hosts: [a, b]
zone: "5"
`, "biz-types", "get", "refund")
	l = answering(t, answerJSON(200, `{"name":"a","version":1,"enabled":false,"source":"config","definition":{}}`)).line(t)
	l.want("# a: version 1, disabled, from config, changed never\n{}\n", "biz-types", "get", "a")
}

// The options of a change are sent, and warnings are printed apart from the result.
func TestChanges(t *testing.T) {
	f := answering(t, answerJSON(200, refund))
	l := f.line(t)
	file := filepath.Join(t.TempDir(), "refund.yaml")
	must.Do(t, os.WriteFile(file, []byte("# a comment\nstart: 9007199254740991\nepoch: 2026-01-02\nlist: [1, a, null, 1.5, true]\ntext: '5'\nin: {b: 0x10}\n"), 0o600))
	const sent = `{"start":9007199254740991,"epoch":"2026-01-02","list":[1,"a",null,1.5,true],"text":"5","in":{"b":"0x10"}}`
	for _, test := range []struct {
		in, want string
		args     []string
		asked    asked
	}{
		{"", "refund: version 3, enabled\n", []string{"put", "refund", file}, asked{"PUT", "/biz-types/refund", sent, "", "", "", "application/json"}},
		{"{\"step\":5}", "refund: the definition is good; nothing was changed\n", []string{"put", "refund", "--dry-run", "--force"}, asked{"PUT", "/biz-types/refund?dryRun=true&force=true", `{"step":5}`, "", "", "", "application/json"}},
		{"step: 5", "refund: version 3, enabled\n", []string{"put", "refund", "-", "--create"}, asked{"PUT", "/biz-types/refund", `{"step":5}`, "", "*", "", "application/json"}},
		{"", "refund: version 3, enabled\n", []string{"patch", "refund", "--set", "step=5", "--set", "a.b=x y", "--set", "a.c=null", "--if-match", "7"}, asked{"PATCH", "/biz-types/refund", `{"a":{"b":"x y","c":null},"step":5}`, `"7"`, "", "", "application/json"}},
		{"a: ~", "refund: version 3, enabled\n", []string{"patch", "refund"}, asked{"PATCH", "/biz-types/refund", `{"a":null}`, "", "", "", "application/json"}},
		{"", "refund: version 3, enabled\n", []string{"enable", "refund", "--if-match", "2"}, asked{"POST", "/biz-types/refund/enable", "", `"2"`, "", "", ""}},
		{"", "refund: version 3, enabled\n", []string{"disable", "refund"}, asked{"POST", "/biz-types/refund/disable", "", "", "", "", ""}},
	} {
		l.in = test.in
		if got := l.run(append([]string{"biz-types"}, test.args...)...); got != (outcome{0, test.want, "seqd: warning: start is below\n"}) {
			t.Errorf("%q: %+v", test.args, got)
		}
		must.Equal(t, f.last(), test.asked, "%q: sent", test.args)
	}
	f = answering(t, answerJSON(200, `{"name":"refund","version":0,"enabled":true,"source":"api","definition":{},"example":"R-KEY-1"}`))
	l = f.line(t)
	for _, verb := range []string{"put", "patch"} {
		l.in = "{}"
		l.want("refund: the definition is good; nothing was changed; IDs look like R-KEY-1\n", "biz-types", verb, "refund", "--dry-run")
	}
	l.in = "{}"
	if got := l.run("biz-types", "put", "refund", "--dry-run", "--json"); !strings.Contains(got.out, `"example": "R-KEY-1"`) {
		t.Errorf("%+v", got)
	}
}

func TestDelete(t *testing.T) {
	f := answering(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	l := f.line(t)
	l.want("refund: deleted\n", "biz-types", "delete", "refund", "--yes", "--if-match", "4")
	must.Equal(t, f.last(), (asked{"DELETE", "/biz-types/refund", "", `"4"`, "", "", ""}), "sent")
	l.want("refund: it can be deleted; nothing was changed\n", "biz-types", "delete", "refund", "--dry-run")
	if got := f.last(); got.target != "/biz-types/refund?dryRun=true" {
		t.Errorf("sent %+v", got)
	}
	l.want("{\n  \"name\": \"till\",\n  \"deleted\": true\n}\n", "tokens", "delete", "till", "--yes", "--json")
	asked := len(f.targets())
	l.wantError(78, "There is no terminal to ask on", "tokens", "delete", "till")
	must.Equal(t, len(f.targets()), asked, "it was deleted without a yes")
}

// A definition that cannot be sent is refused here, and the message names the place.
func TestWrongDefinitions(t *testing.T) {
	l := line{t: t, env: []string{"SEQD_CLIENT_ADDR=http://127.0.0.1:1"}}
	for in, want := range map[string]string{
		"":                                "is empty",
		" \n":                             "is empty",
		"# nothing\n":                     "", // any message
		"[1, 2]":                          "it is not a section",
		"order":                           "it is not a section",
		"a: 1\n---\nb: 2":                 "more than one document",
		"a: 1\na: 2":                      "line 2: the key \"a\" appears twice",
		"{a: {b: 1, b: 2}}":               "line 1: the key \"b\" appears twice",
		"? [a]\n: 1":                      "line 1: a key must be text",
		"a: !!int '5'":                    "line 1: no tag is supported but !!str",
		"a: [":                            "yaml: ",
		"\x00":                            "",
		strings.Repeat("a", 1<<20) + "aa": "is larger than",
	} {
		l.in = in
		got := l.run("biz-types", "put", "x", "--dry-run")
		if got.code != 78 || !strings.HasPrefix(got.errs, "seqd: standard input") || !strings.Contains(got.errs, want) {
			t.Errorf("%.40q: %+v, want %q", in, got, want)
		}
	}
}

// The problems of a definition are a list.
func TestProblems(t *testing.T) {
	f := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"status":400,"code":"invalid_definition","detail":"step: 0; …","problems":[{"key":"step","text":"0 is outside 1 to 5"},{"key":"colour","text":"there is no such key"}]}`)
	})
	l := f.line(t)
	l.in = "step: 0"
	if got := l.run("biz-types", "put", "a"); got != (outcome{1, "", "seqd: invalid_definition:\n  step: 0 is outside 1 to 5\n  colour: there is no such key\n"}) {
		t.Errorf("%+v", got)
	}
}
