package definitions

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/admin"
)

// obfuscated returns the definition of a biz type that counts for each key, with settings of the
// plugin and others.
func obfuscated(plugin, more string) string {
	return fmt.Sprintf(`{"keyed":true,"plugins":[{"name":"obfuscate","digits":8,"key":"correct horse battery staple"%s}]%s}`, plugin, more)
}

const version1, version2 = `,"version":1`, `,"version":2`

func dryRun() admin.Change {
	c := always
	c.DryRun = true
	return c
}

// ids issues n numbers of a key of the biz type ticket.
func (c *node) ids(t *testing.T, key string, n int) []string {
	t.Helper()
	call := &seqd.Call{BizType: "ticket", Count: n, Key: key}
	must.Do(t, c.issuer.Issue(t.Context(), call))
	return call.Sequence.IDs()
}

// wantIDs returns the first n IDs of both keys in each version.
func wantIDs(t *testing.T, key string, n int) (one, two []string) {
	t.Helper()
	for _, test := range []struct {
		version string
		ids     *[]string
	}{{version1, &one}, {version2, &two}} {
		c := newNode(t, newFaulty(false))
		c.mustPut(t, "ticket", obfuscated(test.version, ""), always)
		*test.ids = c.ids(t, key, n)
	}
	return one, two
}

// define puts a definition into a store. No node opens the biz type until somebody asks for it.
func (c *node) define(t *testing.T, store persist.Store, name, definition string) persist.Document {
	t.Helper()
	doc := c.records.document(name, 1, stored{Definition: []byte(definition), Enabled: true, Source: fromConfig})
	must.Do(t, store.Documents().Create(t.Context(), doc))
	return doc
}

// onRecord puts the shape that a version of seqd without versions records into a store.
func onRecord(t *testing.T, c *node, store persist.Store, definition string) {
	t.Helper()
	b := must.Get(c.catalogue.builder.decode("ticket", []byte(definition)))(t)
	shape, err := Shape(b, inShape("obfuscate", "1 "))
	if err != nil || !strings.Contains(shape, " obfuscate(1 digits=") {
		t.Fatal(shape, err)
	}
	must.Do(t, persist.ShapesIn(store.Documents()).Create(t.Context(), "ticket", shape, time.Now()))
}

// A biz type that has issued goes on as before, whatever happens to it: another permutation would
// show IDs a second time.
func TestObfuscateGoesOnAsBefore(t *testing.T) {
	store, plain := newFaulty(true), obfuscated("", "")
	want, other := wantIDs(t, "a", 9)
	if slices.Equal(want, other) {
		t.Fatal("the versions do not differ")
	}
	c := newNode(t, store)
	onRecord(t, c, store, plain)
	c.mustPut(t, "ticket", plain, always)
	next := func(c *node, after string) {
		t.Helper()
		if got := c.ids(t, "a", 1); got[0] != want[0] {
			t.Fatalf("%s: %v, want %s", after, got, want[0])
		}
		if p, err := c.issuer.ParseOf(t.Context(), "ticket", want[0], ""); err != nil || p.Number != int64(10-len(want)) {
			t.Errorf("%s: %s reads as %+v, %v", after, want[0], p, err)
		}
		want = want[1:]
	}
	next(c, "the upgrade")
	next(newNode(t, store), "a start")
	c.mustPut(t, "ticket", obfuscated("", `,"step":500`), always)
	next(c, "another setting")
	c.mustPut(t, "ticket", obfuscated(version1, ""), always)
	next(c, "the version is named")
	c.mustPut(t, "ticket", plain, always)
	next(c, "the version is not named any more")
	for _, enabled := range []bool{false, true} {
		must.Get(c.Enable(t.Context(), "ticket", enabled, always))(t)
		// also on a node that knows it only at rest
		if p, err := newNode(t, store).issuer.ParseOf(t.Context(), "ticket", want[0], "a"); err != nil || p.Number != int64(10-len(want)) || p.Key != "a" {
			t.Errorf("enabled %t: %+v, %v", enabled, p, err)
		}
	}
	next(c, "disabled and enabled")
	must.Get(c.Delete(t.Context(), "ticket", always))(t)
	c.mustPut(t, "ticket", plain, always)
	next(c, "deleted and created")
	must.Equal(t, c.mustPut(t, "ticket", obfuscated("", `,"step":600`), dryRun()).Example, exampleOf(t, obfuscated(version1, "")), "an example of the next change")
	for version, code := range map[string]seqd.Code{version1: "", version2: seqd.CodeConflict} {
		if _, _, err := c.Put(t.Context(), "ticket", []byte(obfuscated(version, "")), dryRun()); seqd.CodeOf(err) != code {
			t.Errorf("%s, not forced: %v, want %q", version, err, code)
		}
	}
	next(c, "dry runs")
	c.mustPut(t, "ticket", obfuscated(version2, ""), forced())
	must.Equal(t, c.ids(t, "a", 1)[0], other[8], "the forced ID")
	c.mustPut(t, "ticket", plain, always)
	for _, c := range []*node{c, newNode(t, store)} {
		if p, err := c.issuer.ParseOf(t.Context(), "ticket", other[8], "a"); err != nil || p.Number != 9 {
			t.Errorf("version 2 is not named any more: %+v, %v", p, err)
		}
	}
}

// A new biz type gets version 2, and goes on with it on every node. Its IDs are read with their
// key.
func TestObfuscateOfANewBizType(t *testing.T) {
	_, want := wantIDs(t, "a", 2)
	store := newFaulty(true)
	c := newNode(t, store)
	must.Equal(t, c.mustPut(t, "ticket", obfuscated("", ""), dryRun()).Example, exampleOf(t, obfuscated(version2, "")), "the example")
	c.mustPut(t, "ticket", obfuscated("", ""), always)
	if p, err := c.issuer.ParseOf(t.Context(), "ticket", want[0], "a"); err != nil || p.Number != 1 {
		t.Errorf("before anything is issued: %+v, %v", p, err)
	}
	if got := append(c.ids(t, "a", 1), newNode(t, store).ids(t, "a", 1)...); got[0] != want[0] || slices.Contains(got[1:], got[0]) {
		t.Errorf("issued %v, want %v", got, want)
	}
	if p, err := c.issuer.Parse("ticket", want[0]); seqd.CodeOf(err) != seqd.CodeInvalidKey || !strings.Contains(err.Error(), "name it with key") {
		t.Errorf("without a key: %+v, %v", p, err)
	}
	shown := `,{"name":"format","template":"{key}-{seq:08}"}`
	definition := strings.Replace(obfuscated("", ""), "}]", "}"+shown+"]", 1)
	c.mustPut(t, "shown", definition, always)
	call := &seqd.Call{BizType: "shown", Count: 1, Key: "a"}
	must.Do(t, c.issuer.Issue(t.Context(), call))
	id := call.Sequence.IDs()[0]
	if p, err := c.issuer.Parse("shown", id); err != nil || p.Number != 1 || p.Key != "a" || id != "a-"+want[0] {
		t.Errorf("%s reads as %+v, %v", id, p, err)
	}
	must.Code(t, must.Err(c.issuer.ParseOf(t.Context(), "shown", id, "b")), seqd.CodeInvalidKey, "%s is of the key b", id)
}

// What is forced upon a biz type that has issued names the version if its last shape does not tell
// it: without that a way there and back would show IDs a second time.
func TestForcedThereAndBack(t *testing.T) {
	const unkeyed, other = `{"plugins":[{"name":"obfuscate","digits":8,"key":"correct horse battery staple"}]}`, `{"keyed":true,"strategy":"gapless"}`
	for _, between := range []string{`{"keyed":true}`, unkeyed, `{}`, other} {
		c, first, key := newNode(t, newFaulty(false)), obfuscated("", ""), "a"
		c.mustPut(t, "ticket", first, always)
		want := c.ids(t, key, 1)
		c.mustPut(t, "ticket", between, forced())
		if between == unkeyed || between == `{}` {
			key = ""
		}
		c.ids(t, key, 1)
		_, _, err := c.Put(t.Context(), "ticket", []byte(first), forced())
		must.Code(t, err, seqd.CodeInvalidDefinition, "between: %s", between)
		c.mustPut(t, "ticket", obfuscated(version2, ""), forced())
		if p, err := c.issuer.ParseOf(t.Context(), "ticket", want[0], "a"); err != nil || p.Number != 1 {
			t.Errorf("between: %s: %+v, %v", between, p, err)
		}
	}
	// What the shape tells goes on.
	c := newNode(t, newFaulty(false))
	c.mustPut(t, "ticket", obfuscated("", ""), always)
	want := c.ids(t, "a", 1)
	c.mustPut(t, "ticket", obfuscated("", `,"strategy":"gapless"`), forced())
	c.ids(t, "a", 1)
	if p, err := c.issuer.ParseOf(t.Context(), "ticket", want[0], "a"); err != nil || p.Number != 1 {
		t.Errorf("%+v, %v", p, err)
	}
}

// A node of an earlier version beside this one may record its shape first, or force one.
func TestObfuscateBesideAnEarlierVersion(t *testing.T) {
	one, _ := wantIDs(t, "a", 1)
	for name, earlier := range map[string]func(t *testing.T, c *node, store persist.Store){
		"it recorded while this node began": func(t *testing.T, c *node, store persist.Store) { onRecord(t, c, store, obfuscated("", "")) },
		"it forced the shape": func(t *testing.T, c *node, store persist.Store) {
			must.Do(t, persist.ShapesIn(store.Documents()).Create(t.Context(), "ticket", "segment keyed", time.Now()))
			doc, said, err := c.records.read(t.Context(), "ticket")
			must.Do(t, err)
			b, _ := c.catalogue.builder.decode("ticket", said.Definition)
			said.Shape, _ = Shape(b, inShape("obfuscate", "1 "))
			said.Reshaped = doc.Revision + 1
			must.Do(t, store.Documents().Update(t.Context(), c.records.document("ticket", doc.Revision+1, said)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := newFaulty(true)
			c := newNode(t, store)
			doc := c.define(t, store, "ticket", obfuscated("", ""))
			_, _, d := c.catalogue.builder.buildStored(doc)
			if fresh, err := d.Claim.Check(t.Context()); err != nil || !fresh {
				t.Fatal(fresh, err)
			}
			earlier(t, c, store)
			if name == "it recorded while this node began" {
				if err := d.Claim.Record(t.Context()); err != nil {
					t.Errorf("record: %v", err)
				}
			}
			must.Get(c.catalogue.reload(t.Context()))(t)
			for _, c := range []*node{newNode(t, store), c} {
				if p, err := c.issuer.ParseOf(t.Context(), "ticket", one[0], "a"); err != nil || p.Number != 1 {
					t.Errorf("%+v, %v", p, err)
				}
			}
			must.Equal(t, c.ids(t, "a", 1)[0], one[0], "the ID")
		})
	}
}

// Where the definition says that other numbers are elsewhere, nobody guesses how they were shown.
func TestObfuscateThatContinues(t *testing.T) {
	for _, more := range []string{`,"start":5000`, `,"increment":10`} {
		store := newFaulty(true)
		c := newNode(t, store)
		if _, _, err := c.Put(t.Context(), "ticket", []byte(obfuscated("", more)), always); seqd.CodeOf(err) != seqd.CodeInvalidDefinition || !strings.Contains(err.Error(), "plugins[0].version") {
			t.Errorf("%s: %v", more, err)
		}
		c.mustPut(t, "ticket", obfuscated(version1, more), always)
		// A definition of the configuration, or of an earlier version, comes without being asked.
		c.define(t, store, "seeded", obfuscated("", more))
		err := c.issuer.Issue(t.Context(), &seqd.Call{BizType: "seeded", Count: 1, Key: "a"})
		if seqd.CodeOf(err) != seqd.CodeConflict || !strings.Contains(err.Error(), "plugins[0].version") {
			t.Errorf("%s: %v", more, err)
		}
		c.ids(t, "a", 1)
		c.mustPut(t, "ticket", obfuscated("", more), always) // by now the record says it
		c.ids(t, "a", 1)
	}
}

// A biz type that is refused for another reason is not built again and again because of its
// version.
func TestObfuscateThatIsRefusedIsLeftAlone(t *testing.T) {
	store := newFaulty(true)
	c := newNode(t, store)
	c.define(t, store, "ticket", obfuscated("", ""))
	onRecord(t, c, store, strings.Replace(obfuscated("", ""), `"digits":8`, `"digits":9`, 1))
	if err := c.issuer.Issue(t.Context(), &seqd.Call{BizType: "ticket", Count: 1, Key: "a"}); seqd.CodeOf(err) != seqd.CodeConflict {
		t.Fatal(err)
	}
	unfit := &c.catalogue.builder.shapes.unfit
	shape, _ := unfit.Load("ticket")
	c.catalogue.refit(t.Context(), "ticket", shape.(string))
	if _, still := unfit.Load("ticket"); !still {
		t.Errorf("%s was built again, and is the same", shape)
	}
}
