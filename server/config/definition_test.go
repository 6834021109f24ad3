package config_test

import (
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/config"
	_ "github.com/seqd/seqd/standard"
)

// JSON is read as JSON, not as the YAML that it nearly is.
func TestDefinitionsAreJSON(t *testing.T) {
	cfg := config.Default()
	for _, text := range []string{
		"\t{\t\"step\"\t:\t5\t}\t",
		`{"rejected":[{"name":"webhook","url":"http:\/\/h\/x","secret":"\ud83d\ude00\u007f\u0085 \"\\"}]}`,
		"{\"rejected\":[{\"name\":\"webhook\",\"url\":\"http://h/x\",\"secret\":\"\u007f\u0085\u2028\"}]}",
	} {
		if _, problems := cfg.DecodeDefinition("order", []byte(text)); len(problems) > 0 {
			t.Errorf("%s: %v", text, problems)
		}
	}
	revealed, err := cfg.Reveal([]byte(`{"rejected":[{"name":"webhook","url":"http:\/\/h","secret":"\ud83d\ude00"}]}`), nil)
	if err != nil || string(revealed) != `{"rejected":[{"name":"webhook","secret":"😀","url":"http://h"}]}` {
		t.Errorf("%s, %v", revealed, err)
	}
}

// A name in a definition is that of the biz type.
func TestNameInDefinition(t *testing.T) {
	cfg := config.Default()
	for text, want := range map[string]string{
		`{"name": "order"}`:                  "",
		`{"name": "user"}`:                   `name: it is "user", and the biz type is called "order"`,
		`{"name": null}`:                     "name: it has no value; text is needed",
		`{"name": 7}`:                        "name: 7 is not text",
		`{"name": {}}`:                       "name: a section is not text",
		`{"name": "order", "NAME": "order"}`: "name: it appears twice, also as NAME",
	} {
		_, problems := cfg.DecodeDefinition("order", []byte(text))
		var got string
		for _, p := range problems {
			got += p.Key + ": " + p.Text
		}
		must.Equal(t, got, want, "%s", text)
	}
}

// A definition of many keys costs no more than reading it, and what is said of it stays short.
func TestDefinitionOfManyKeys(t *testing.T) {
	cfg := config.Default()
	_, problems := cfg.DecodeDefinition("order", []byte(`{"step":1`+strings.Repeat(`,"x":1`, 10_000)+`}`))
	if len(problems) != 1 || !strings.Contains(problems[0].Text, "twice") || len(problems[0].Text) > 200 {
		t.Errorf("%d problems: %.200v", len(problems), problems)
	}
}

// A secret goes to no other item than the one it was given for.
func TestSecretsOfLookAlikes(t *testing.T) {
	cfg := config.Default()
	const (
		a      = `{"name":"webhook","secret":"aaaa","url":"http://a"}`
		b      = `{"name":"webhook","secret":"bbbb","timeout":"2s","url":"http://b"}`
		shownA = `{"name":"webhook","secret":"(secret)","url":"(secret)"}`
		shownB = `{"name":"webhook","secret":"(secret)","timeout":"2s","url":"(secret)"}`
	)
	both := `{"rejected":[` + a + `,` + b + `]}`
	for text, want := range map[string]string{
		`{"rejected":[` + shownA + `,` + shownB + `]}`:                                          both,
		`{"rejected":[` + shownA + `,` + b + `]}`:                                               both,
		`{"rejected":[` + shownA + `]}`:                                                         "",
		`{"rejected":[` + shownB + `]}`:                                                         "",
		`{"rejected":[` + shownB + `,` + shownA + `]}`:                                          "",
		`{"rejected":[` + shownA + `,` + shownB + `,` + shownB + `]}`:                           "",
		`{"rejected":[{"name":"webhook","secret":"(secret)","url":"http://b"},` + shownB + `]}`: "",
	} {
		revealed, err := cfg.Reveal([]byte(text), []byte(both))
		if string(revealed) != want || (err == nil) != (want != "") {
			t.Errorf("%s becomes %s, %v", text, revealed, err)
		}
	}
}

// What this program does not know, such as a plugin of a newer one, may hold secrets anywhere.
func TestHideWhatIsUnknown(t *testing.T) {
	cfg := config.Default()
	for _, list := range []string{"plugins", "rejected"} {
		text := `{"` + list + `":[{"name":"newer","password":"hunter2","more":{"password":"hunter2"}}]}`
		shown, err := cfg.Hide([]byte(text))
		if err != nil || strings.Contains(string(shown), "hunter2") || !strings.Contains(string(shown), "newer") {
			t.Errorf("%s, %v", shown, err)
		}
		if revealed, err := cfg.Reveal(shown, []byte(text)); err != nil || strings.Count(string(revealed), "hunter2") != 2 {
			t.Errorf("%s, %v", revealed, err)
		}
	}
}
