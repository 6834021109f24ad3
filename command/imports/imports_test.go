package imports

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
)

func row(name string, maxID, step int64) Row {
	return Row{Name: name, MaxID: maxID, Valid: true, Step: step, Delta: 1}
}

func TestPlan(t *testing.T) {
	const most = seqd.MaxNumber
	for name, tt := range map[string]struct {
		row   Row
		o     Options
		start int64  // 0 if it is refused
		step  int64  //
		want  string // in the detail
	}{
		"usual":                  {row("order", 1001, 1000), Options{}, 1002, 1000, ""},
		"with a margin":          {row("order", 1001, 1000), Options{Margin: 5000}, 6002, 1000, ""},
		"nothing issued":         {row("order", 0, 1000), Options{}, 1, 1000, ""},
		"below nothing":          {row("order", -500, 1000), Options{}, 1, 1000, ""},
		"no step":                {row("order", 7, 0), Options{}, 8, 0, ""},
		"negative step":          {row("order", 7, -3), Options{}, 8, 0, ""},
		"huge step":              {row("order", 7, math.MaxInt32), Options{}, 8, mostStep, ""},
		"the last that fits":     {row("order", most-leastLeft-1, 1), Options{}, most - leastLeft, 1, ""},
		"near the end":           {row("order", most-leastLeft, 1), Options{}, 0, 0, "largest number"},
		"near it by the margin":  {row("order", most-2*leastLeft, 1), Options{Margin: leastLeft}, 0, 0, "largest number"},
		"above the end":          {row("order", math.MaxInt64, 1), Options{}, 0, 0, "9007199254740991"},
		"above it by the margin": {row("order", math.MaxInt64, 1), Options{Margin: mostMargin}, 0, 0, "9007199254740991"},
		"NULL":                   {Row{Name: "order", Delta: 1}, Options{}, 0, 0, "NULL"},
		"odd numbers":            {Row{Name: "order", MaxID: 1, Valid: true, Step: 999, Delta: 2, Remainder: 1}, Options{}, 2, 500, ""},
		"far apart":              {Row{Name: "order", MaxID: 1, Valid: true, Delta: 65_536}, Options{}, 0, 0, "further apart"},
		"a negative remainder":   {Row{Name: "order", MaxID: 1, Valid: true, Delta: 3, Remainder: -1}, Options{}, 0, 0, "n mod 3 = -1"},
		"near the end of thirds": {Row{Name: "order", MaxID: most - 3*leastLeft, Valid: true, Delta: 3}, Options{}, 0, 0, "largest number"},
		"a remainder":            {Row{Name: "order", MaxID: 1, Valid: true, Delta: 1, Remainder: 1}, Options{}, 0, 0, "n mod 1 = 1"},
		"delta 0":                {Row{Name: "order", MaxID: 1, Valid: true}, Options{}, 0, 0, "n mod 0 = 0"},
		"a space":                {row("my order", 1, 1), Options{}, 0, 0, "--rename 'my order=NAME'"},
		"a digit first":          {row("1st", 1, 1), Options{}, 0, 0, "starts with a letter"},
		"empty":                  {row("", 1, 1), Options{}, 0, 0, "is empty"},
		"long":                   {row(strings.Repeat("a", 65), 1, 1), Options{}, 0, 0, "65 bytes"},
		"not ASCII":              {row("订单", 1, 1), Options{}, 0, 0, "not allowed"},
		"renamed":                {row("订单", 10, 1), Options{Rename: map[string]string{"订单": "order"}}, 11, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			item := Plan([]Row{tt.row}, tt.o)[0]
			if item.Start != tt.start || item.Step != tt.step || !strings.Contains(item.Detail, tt.want) || (item.Result == Refused) != (tt.want != "") {
				t.Errorf("%+v", item)
			}
		})
	}
}

// Two rows never become one biz type: whichever came first, it would begin below what the other one
// issued, also if that one cannot be imported.
func TestSameName(t *testing.T) {
	rows := []Row{row("a", 1, 1), row("b", 2, 1), row("c d", 3, 1), row("e", 1, 1), row("e", 9, 1), row("f", 1, 1), {Name: "f", MaxID: 9, Valid: true}}
	items := Plan(rows, Options{Rename: map[string]string{"b": "a", "c d": "c"}})
	for i, want := range []string{`"b" has the same name`, `"a" has the same name`, "", "2 rows of this name", "2 rows of this name", "2 rows of this name", "n mod 0"} {
		if (items[i].Result == Refused) != (want != "") || !strings.Contains(items[i].Detail, want) || want != "" && items[i].Start != 0 {
			t.Errorf("%+v", items[i])
		}
	}
	if got := Moved(rows, rows); got != nil {
		t.Errorf("%q", got)
	}
}

// Whatever a table says, a start is above max_id, and in the bounds of a segment.
func TestStartIsAbove(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for range 100_000 {
		r := row("order", int64(random.Uint64()>>random.IntN(64)), random.Int64N(1<<40))
		if random.IntN(4) == 0 {
			r.MaxID = -r.MaxID
		}
		margin := random.Int64N(mostMargin + 1)
		item := Plan([]Row{r}, Options{Margin: margin})[0]
		if item.Result == Refused {
			if r.MaxID < seqd.MaxNumber-leastLeft-margin-1 {
				t.Fatalf("%+v with margin %d: %+v", r, margin, item)
			}
			continue
		}
		if item.Start <= r.MaxID || item.Start <= margin || item.Start > seqd.MaxNumber-leastLeft || item.Start < 1 {
			t.Fatalf("%+v with margin %d: %+v", r, margin, item)
		}
	}
}

func TestMoved(t *testing.T) {
	before := []Row{row("a", 1, 1), row("b", 2, 1), row("c", 3, 1)}
	after := []Row{row("a", 1, 1), row("b", 5, 1), row("d", 1, 1)}
	want := []string{"the max_id of b went from 2 to 5 meanwhile", "c was removed from the table meanwhile", "d was added to the table meanwhile"}
	if got := Moved(before, after); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := Moved(before, before); got != nil {
		t.Errorf("%q", got)
	}
}

func TestTokens(t *testing.T) {
	items := Plan([]Row{row("order", 1, 1), row("pay ment", 1, 1), row("bad name", 1, 1)}, Options{Rename: map[string]string{"pay ment": "payment"}})
	secret := Secret{"0f673adf"}
	grants := []Grant{
		{9, secret, "pay ment"}, {3, secret, "order"}, {4, secret, "order"}, {5, Secret{"other"}, "order"},
		{6, secret, "bad name"}, {7, Secret{""}, "order"}, {8, Secret{"with space"}, "order"}, {10, Secret{"密"}, "order"}, {11, Secret{strings.Repeat("x", 257)}, "order"},
	}
	tokens, refused := TokensOf(grants, items)
	digest := sha256.Sum256([]byte("0f673adf"))
	if len(tokens) != 2 || tokens[0].Name != "tinyid-3" || tokens[0].Sha256 != hex.EncodeToString(digest[:]) ||
		!slices.Equal(tokens[0].Scopes, []string{"issue:order", "issue:payment"}) || tokens[1].Name != "tinyid-5" {
		t.Errorf("%+v", tokens)
	}
	if len(refused) != 5 {
		t.Errorf("%q", refused)
	}
	text := fmt.Sprintf("%v %+v %#v %q %q", grants, grants, grants, tokens, refused)
	if strings.Contains(text, "0f673adf") || strings.Contains(text, "with space") {
		t.Errorf("a secret is shown: %s", text)
	}
}

// A token with more biz types than a token of seqd can have keeps the first ones.
func TestTokenOfManyBizTypes(t *testing.T) {
	var rows []Row
	var grants []Grant
	for i := range mostScopes + 3 {
		name := fmt.Sprintf("t%d", i)
		rows, grants = append(rows, row(name, 1, 1)), append(grants, Grant{int64(i), Secret{"s"}, name})
	}
	tokens, refused := TokensOf(grants, Plan(rows, Options{}))
	if len(tokens) != 1 || len(tokens[0].Scopes) != mostScopes || len(refused) != 3 {
		t.Errorf("%+v, %q", tokens, refused)
	}
}

// A fragment is YAML that says what the plan says, whatever the names are.
func TestFragment(t *testing.T) {
	rows := []Row{row("order", 1001, 1000), row("null", 5, 0), row("on", 5, 0), row("evil\nname: x", 5, 0), row("evil name", 5, 0)}
	items := Plan(rows, Options{Rename: map[string]string{"evil name": "y"}})
	tokens, _ := TokensOf([]Grant{{1, Secret{"s"}, "on"}}, items)
	var b strings.Builder
	must.Do(t, Fragment(&b, Leaf, items, tokens))
	var got struct {
		BizTypes []struct {
			Name, Strategy, Reset string
			Start, Step           int64
		} `yaml:"bizTypes"`
		Auth struct {
			Tokens []struct {
				Name, Sha256 string
				Scopes       []string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(b.String()), &got); err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	if len(got.BizTypes) != 4 || got.BizTypes[0].Name != "order" || got.BizTypes[0].Start != 1002 || got.BizTypes[0].Step != 1000 ||
		got.BizTypes[1].Name != "null" || got.BizTypes[2].Name != "on" || got.BizTypes[3].Name != "y" || got.BizTypes[3].Reset != "never" {
		t.Errorf("%+v\n%s", got, b.String())
	}
	if len(got.Auth.Tokens) != 1 || got.Auth.Tokens[0].Scopes[0] != "issue:on" {
		t.Errorf("%+v", got.Auth)
	}
}

func TestParseRename(t *testing.T) {
	got, err := ParseRename([]string{"my order=order", "a=b"})
	if err != nil || got["my order"] != "order" || got["a"] != "b" {
		t.Errorf("%v, %v", got, err)
	}
	for _, wrong := range []string{"", "a", "=a", "a=", "a=b c", "a=1"} {
		if _, err := ParseRename([]string{wrong}); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
	if _, err := ParseRename([]string{"a=b", "a=c"}); err == nil {
		t.Error("a name is renamed twice")
	}
}

// A mistake in a DSN never shows its password.
func TestOpen(t *testing.T) {
	for _, dsn := range []string{"", "secret", "leaf:secret@tcp(h:1)", "leaf:secret@tcp(h:1)/", "leaf:secret@tcp(h:1)/db?bogus=%zz", "mysql://leaf:secret@h:1/db", "leaf:secret@h:1/db?tls=none"} {
		db, err := Open(Leaf, dsn)
		if err == nil {
			_ = db.Close()
			t.Errorf("%q is accepted", dsn)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", dsn, err)
		}
	}
}
