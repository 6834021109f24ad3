package docstest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/config"
)

// notOurs has the words that YAML of other programs begins with.
var notOurs = map[string]string{
	"rule_files:": "Prometheus",
}

var (
	yamlBlock = regexp.MustCompile("(?ms)^ *```yaml\n(.*?)^ *```")
	cutHash   = regexp.MustCompile(`sha256: "[0-9a-f]*…"`)
	camelCase = regexp.MustCompile(`\b[a-z]+[A-Z][A-Za-z]+\b`)
	jsText    = regexp.MustCompile(`"[^"]*"`)
)

// documents are the patterns of all documents.
var documents = []string{"*.md", "docs/*.md", "docs/*/*.md", "deploy/*.md", "client/*.md", "examples/*.md", "examples/*/*.md"}

// TestYAML loads each YAML example of the documents as a configuration, with a Redis, and with
// biz types of the store if it has none.
func TestYAML(t *testing.T) {
	root := must.Get(filepath.Abs("../.."))(t)
	tried := 0
	for _, pattern := range documents {
		for _, document := range must.Get(filepath.Glob(filepath.Join(root, pattern)))(t) {
			for _, block := range yamlBlock.FindAllStringSubmatch(read(t, document), -1) {
				first, _, _ := strings.Cut(strings.TrimSpace(block[1]), " ")
				if notOurs[first] != "" {
					continue
				}
				tried++
				hashes := 0
				text := cutHash.ReplaceAllStringFunc(block[1], func(string) string {
					hashes++
					return fmt.Sprintf(`sha256: "%064x"`, hashes)
				})
				if !strings.Contains(text, "bizTypes:") {
					text += "\nbizTypesFrom: store\n"
				}
				if _, err := config.LoadYAML([]byte(text), config.Sources{Env: []string{"SEQD_REDIS_ADDRS=127.0.0.1:6379"}}); err != nil {
					t.Errorf("%s: %v in\n%s", filepath.Base(document), err, block[1])
				}
			}
		}
	}
	if tried < 10 {
		t.Errorf("only %d examples were tried", tried)
	}
}

// TestSettingsInHelp looks up the settings that the console names when it says what to do about an
// error.
func TestSettingsInHelp(t *testing.T) {
	reference := read(t, "../../docs/CONFIGURATION.md")
	for _, text := range jsText.FindAllString(read(t, "../../server/console/web/codes.js"), -1) {
		for _, name := range camelCase.FindAllString(text, -1) {
			if name != "requestId" && !regexp.MustCompile("[`.]"+name+"`").MatchString(reference) {
				t.Errorf("%s names %s, which is no setting", text, name)
			}
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text := must.Get(os.ReadFile(file))(t)
	return string(text)
}
