package standard_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist/driver"
	"github.com/seqd/seqd/server/config"
	_ "github.com/seqd/seqd/standard"
)

// texts returns the files that a pattern finds, as one text.
func texts(t *testing.T, pattern string) string {
	t.Helper()
	var all strings.Builder
	for _, file := range must.Get(filepath.Glob(filepath.Join("..", pattern)))(t) {
		all.Write(must.Get(os.ReadFile(file))(t))
	}
	return all.String()
}

// Each store is complete: what other packages and the documentation need of it is there.
func TestStores(t *testing.T) {
	var (
		reference, promises, readme = texts(t, "docs/CONFIGURATION.md"), texts(t, "docs/PROMISES.md"), texts(t, "README.md")
		chapters, chart             = texts(t, "docs/STORES.md"), texts(t, "deploy/helm/values.schema.json")
		ports                       = regexp.MustCompile(`\$ports := dict .*`).FindString(texts(t, "deploy/helm/templates/_helpers.tpl"))
	)
	for _, name := range driver.Names() {
		d := must.Get(driver.Lookup(name))(t)
		settings := d.Settings()
		for _, k := range config.SettingsOf(settings) {
			if key := "store." + name + "." + k.Path; !strings.Contains(reference, "| `"+key+"` |") {
				t.Errorf("docs/CONFIGURATION.md has no %s: run go run ./internal/configdoc", key)
			}
		}
		if checked, ok := settings.(seqd.Validator); ok && len(checked.Validate()) > 0 {
			t.Errorf("%s: its defaults are wrong: %v", name, checked.Validate())
		}
		_, named := config.Setting[string](settings, d.Key)
		_, bounded := config.Setting[time.Duration](settings, "timeout")
		suites := texts(t, "persist/"+name+"/*_test.go") + texts(t, "integration/store/"+name+"_test.go")
		for what, ok := range map[string]bool{
			"its Key is no setting": named || d.Forgets,
			"a shared store has a setting timeout, and no other has one":                      bounded == d.Shared,
			"neither its package nor integration/store has a test that calls persisttest.Run": strings.Contains(suites, "persisttest.Run("),
			"docs/STORES.md has no chapter":                                                   regexp.MustCompile(`(?mi)^## .*` + name).MatchString(chapters),
			"the table of docs/STORES.md has no column":                                       regexp.MustCompile(`(?m)^\|.*\| .` + name + ". \\|").MatchString(chapters),
			"docs/PROMISES.md does not name it":                                               strings.Contains(promises, name),
			"README.md does not name it":                                                      strings.Contains(readme, name),
			"the schema of the Helm chart does not know it":                                   strings.Contains(chart, `"`+name+`"`) || d.Forgets,
			"the policy of the Helm chart does not know its ports":                            strings.Contains(ports, `"`+name+`"`) || !d.Shared,
		} {
			if !ok {
				t.Errorf("%s: %s", name, what)
			}
		}
	}
}

// What a driver says of itself is true of its store, and a node can begin without it.
func TestStoresOpen(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range driver.Names() {
		t.Run(name, func(t *testing.T) {
			d := must.Get(driver.Lookup(name))(t)
			flags := map[string]string{"bizTypesFrom": "store", "store.driver": name}
			if d.Shared {
				flags["store."+name+".timeout"] = "100ms"
			}
			cfg := must.Get(config.Load(config.Sources{Flags: flags}))(t).Store
			store := must.Get(cfg.Chosen().Open(t.Context(), driver.How{Now: time.Now, Unreached: true}))(t)
			if store.Shared() != d.Shared || cfg.Shared() != d.Shared || cfg.Forgets() != d.Forgets {
				t.Errorf("%+v, and the store is shared: %t", d, store.Shared())
			}
			must.Do(t, store.Close())
			if d.Shared {
				return // whether there is one depends on the machine
			}
			again, err := cfg.Chosen().Open(t.Context(), driver.How{Now: time.Now, ReadOnly: true})
			if (err == nil) == d.Forgets {
				t.Errorf("looking at what it kept: %v", err)
			}
			if err == nil {
				must.Do(t, again.Close())
			}
		})
	}
}

// Every driver below persist is registered here, and nothing in server names one. Only the default
// is named.
func TestStoresAreNamedOnce(t *testing.T) {
	names := driver.Names()
	for _, file := range must.Get(filepath.Glob("../persist/*/driver.go"))(t) {
		folder := filepath.Base(filepath.Dir(file))
		if folder != "driver" && !slices.Contains(names, folder) {
			t.Errorf("persist/%s is not imported by package standard, or has another name", folder)
		}
	}
	is := regexp.MustCompile(`^("(` + strings.Join(names, "|") + `)"|.*\bstore\.(` + strings.Join(names, "|") + `)\b.*)$`)
	var found []string
	must.Do(t, filepath.WalkDir("../server", func(file string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING && is.MatchString(literal.Value) {
				found = append(found, file+" "+literal.Value)
			}
			return true
		})
		return nil
	}))
	must.Equal(t, fmt.Sprint(found), fmt.Sprintf("[../server/config/config.go %q]", config.DefaultDriver), "where server names drivers")
}
