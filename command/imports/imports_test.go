package imports

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/client/admin"
	"github.com/seqd/seqd/command/clitool"
	"github.com/seqd/seqd/internal/testing/must"
)

func row(name string, maxID, step int64) counterRow {
	return counterRow{Name: name, MaxID: maxID, Valid: true, Step: step, Delta: 1}
}

func TestPlan(t *testing.T) {
	const most = seqd.MaxNumber
	for name, tt := range map[string]struct {
		row   counterRow
		o     options
		start int64  // 0 if it is refused
		step  int64  //
		want  string // in the detail
	}{
		"usual":                  {row("order", 1001, 1000), options{}, 1002, 1000, ""},
		"with a margin":          {row("order", 1001, 1000), options{Margin: 5000}, 6002, 1000, ""},
		"nothing issued":         {row("order", 0, 1000), options{}, 1, 1000, ""},
		"below nothing":          {row("order", -500, 1000), options{}, 1, 1000, ""},
		"no step":                {row("order", 7, 0), options{}, 8, 0, ""},
		"negative step":          {row("order", 7, -3), options{}, 8, 0, ""},
		"huge step":              {row("order", 7, math.MaxInt32), options{}, 8, mostStep, ""},
		"the last that fits":     {row("order", most-leastLeft-1, 1), options{}, most - leastLeft, 1, ""},
		"near the end":           {row("order", most-leastLeft, 1), options{}, 0, 0, "largest number"},
		"near it by the margin":  {row("order", most-2*leastLeft, 1), options{Margin: leastLeft}, 0, 0, "largest number"},
		"above the end":          {row("order", math.MaxInt64, 1), options{}, 0, 0, "9007199254740991"},
		"above it by the margin": {row("order", math.MaxInt64, 1), options{Margin: mostMargin}, 0, 0, "9007199254740991"},
		"NULL":                   {counterRow{Name: "order", Delta: 1}, options{}, 0, 0, "NULL"},
		"odd numbers":            {counterRow{Name: "order", MaxID: 1, Valid: true, Step: 999, Delta: 2, Remainder: 1}, options{}, 2, 500, ""},
		"far apart":              {counterRow{Name: "order", MaxID: 1, Valid: true, Delta: 65_536}, options{}, 0, 0, "further apart"},
		"a negative remainder":   {counterRow{Name: "order", MaxID: 1, Valid: true, Delta: 3, Remainder: -1}, options{}, 0, 0, "n mod 3 = -1"},
		"near the end of thirds": {counterRow{Name: "order", MaxID: most - 3*leastLeft, Valid: true, Delta: 3}, options{}, 0, 0, "largest number"},
		"a remainder":            {counterRow{Name: "order", MaxID: 1, Valid: true, Delta: 1, Remainder: 1}, options{}, 0, 0, "n mod 1 = 1"},
		"delta 0":                {counterRow{Name: "order", MaxID: 1, Valid: true}, options{}, 0, 0, "n mod 0 = 0"},
		"a space":                {row("my order", 1, 1), options{}, 0, 0, "--rename 'my order=NAME'"},
		"a digit first":          {row("1st", 1, 1), options{}, 0, 0, "starts with a letter"},
		"empty":                  {row("", 1, 1), options{}, 0, 0, "is empty"},
		"long":                   {row(strings.Repeat("a", 65), 1, 1), options{}, 0, 0, "65 bytes"},
		"not ASCII":              {row("订单", 1, 1), options{}, 0, 0, "not allowed"},
		"renamed":                {row("订单", 10, 1), options{Rename: map[string]string{"订单": "order"}}, 11, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			item := plan([]counterRow{tt.row}, tt.o)[0]
			if item.Start != tt.start || item.Step != tt.step || !strings.Contains(item.Detail, tt.want) || (item.Result == unfit) != (tt.want != "") {
				t.Errorf("%+v", item)
			}
		})
	}
}

// Two rows never become one biz type: whichever came first, it would begin below what the other one
// issued, also if that one cannot be imported.
func TestSameName(t *testing.T) {
	rows := []counterRow{row("a", 1, 1), row("b", 2, 1), row("c d", 3, 1), row("e", 1, 1), row("e", 9, 1), row("f", 1, 1), {Name: "f", MaxID: 9, Valid: true}}
	items := plan(rows, options{Rename: map[string]string{"b": "a", "c d": "c"}})
	for i, want := range []string{`"b" has the same name`, `"a" has the same name`, "", "2 rows of this name", "2 rows of this name", "2 rows of this name", "n mod 0"} {
		if (items[i].Result == unfit) != (want != "") || !strings.Contains(items[i].Detail, want) || want != "" && items[i].Start != 0 {
			t.Errorf("%+v", items[i])
		}
	}
	if got := moved(rows, rows); got != nil {
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
		item := plan([]counterRow{r}, options{Margin: margin})[0]
		if item.Result == unfit {
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
	before := []counterRow{row("a", 1, 1), row("b", 2, 1), row("c", 3, 1)}
	after := []counterRow{row("a", 1, 1), row("b", 5, 1), row("d", 1, 1)}
	want := []string{"the max_id of b went from 2 to 5 meanwhile", "c was removed from the table meanwhile", "d was added to the table meanwhile"}
	if got := moved(before, after); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := moved(before, before); got != nil {
		t.Errorf("%q", got)
	}
}

func TestTokens(t *testing.T) {
	items := plan([]counterRow{row("order", 1, 1), row("pay ment", 1, 1), row("bad name", 1, 1)}, options{Rename: map[string]string{"pay ment": "payment"}})
	secret := hidden{"0f673adf"}
	grants := []grant{
		{9, secret, "pay ment"}, {3, secret, "order"}, {4, secret, "order"}, {5, hidden{"other"}, "order"},
		{6, secret, "bad name"}, {7, hidden{""}, "order"}, {8, hidden{"with space"}, "order"}, {10, hidden{"密"}, "order"}, {11, hidden{strings.Repeat("x", 257)}, "order"},
	}
	tokens, refused := tokensOf(grants, items)
	digest := sha256.Sum256([]byte("0f673adf"))
	if len(tokens) != 2 || tokens[0].Name != "tinyid-3" || tokens[0].Sha256 != hex.EncodeToString(digest[:]) ||
		!slices.Equal(tokens[0].Scopes, []string{"issue:order", "issue:payment"}) || tokens[1].Name != "tinyid-5" {
		t.Errorf("%+v", tokens)
	}
	must.Equal(t, len(refused), 5, "%q", refused)
	text := fmt.Sprintf("%v %+v %#v %q %q", grants, grants, grants, tokens, refused)
	if strings.Contains(text, "0f673adf") || strings.Contains(text, "with space") {
		t.Errorf("a secret is shown: %s", text)
	}
}

// A token with more biz types than a token of seqd can have keeps the first ones.
func TestTokenOfManyBizTypes(t *testing.T) {
	var rows []counterRow
	var grants []grant
	for i := range mostScopes + 3 {
		name := fmt.Sprintf("t%d", i)
		rows, grants = append(rows, row(name, 1, 1)), append(grants, grant{int64(i), hidden{"s"}, name})
	}
	tokens, refused := tokensOf(grants, plan(rows, options{}))
	if len(tokens) != 1 || len(tokens[0].Scopes) != mostScopes || len(refused) != 3 {
		t.Errorf("%+v, %q", tokens, refused)
	}
}

// A fragment is YAML that says what the plan says, whatever the names are.
func TestFragment(t *testing.T) {
	rows := []counterRow{row("order", 1001, 1000), row("null", 5, 0), row("on", 5, 0), row("evil\nname: x", 5, 0), row("evil name", 5, 0)}
	items := plan(rows, options{Rename: map[string]string{"evil name": "y"}})
	tokens, _ := tokensOf([]grant{{1, hidden{"s"}, "on"}}, items)
	var b strings.Builder
	must.Do(t, fragment(&b, leaf, items, tokens))
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

// A biz type that counts for each key would issue each number once for every key.
func TestKeyedBizTypeExists(t *testing.T) {
	item := entry{Name: "order", Start: 5}
	must.Do(t, existing(t.Context(), nil, &item, admin.BizType{Definition: []byte(`{"keyed":true,"start":9000}`)}, applying{}))
	must.Equal(t, item.Result, unfit, "%+v", item)
}

func TestParseRename(t *testing.T) {
	got, err := parseRename([]string{"my order=order", "a=b"})
	if err != nil || got["my order"] != "order" || got["a"] != "b" {
		t.Errorf("%v, %v", got, err)
	}
	for _, wrong := range []string{"", "a", "=a", "a=", "a=b c", "a=1"} {
		if _, err := parseRename([]string{wrong}); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
	if _, err := parseRename([]string{"a=b", "a=c"}); err == nil {
		t.Error("a name is renamed twice")
	}
}

// A mistake in a DSN never shows its password.
func TestOpen(t *testing.T) {
	for _, dsn := range []string{"", "secret", "leaf:secret@tcp(h:1)", "leaf:secret@tcp(h:1)/", "leaf:secret@tcp(h:1)/db?bogus=%zz", "mysql://leaf:secret@h:1/db", "leaf:secret@h:1/db?tls=none"} {
		db, err := open(leaf, dsn)
		if err == nil {
			_ = db.Close()
			t.Errorf("%q is accepted", dsn)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", dsn, err)
		}
	}
}

// The file of -o is only for its owner, also if --force replaces one that everybody can read.
func TestForceProtects(t *testing.T) {
	name := filepath.Join(t.TempDir(), "tinyid.yaml")
	must.Do(t, os.WriteFile(name, []byte("old"), 0o600))
	must.Do(t, os.Chmod(name, 0o644))
	f := flags{source: tinyid, output: name, force: true}
	must.Do(t, f.write(clitool.New(nil, io.Discard, io.Discard, nil), &report{}))
	if info := must.Get(os.Stat(name))(t); info.Mode().Perm() != 0o600 || info.Size() <= int64(len("old")) {
		t.Errorf("the file has the mode %#o and %d bytes", info.Mode().Perm(), info.Size())
	}
}
