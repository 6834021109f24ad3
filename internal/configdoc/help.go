package main

import (
	"encoding/json"
	"regexp"

	"github.com/seqd/seqd/plugin"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/strategy"
)

// helpTexts returns the comments of all settings that a definition of a biz type can have, as a
// JSON object by [config.Key.HelpID]. root is the folder of the module.
func helpTexts(root string) (string, error) {
	comments := comments{root: root, ofType: make(map[string]map[string]string)}
	texts := make(map[string]string)
	for _, settings := range allSettings() {
		for _, k := range config.SettingsOf(settings) {
			meaning, err := comments.of(k)
			if err != nil {
				return "", err
			}
			texts[k.HelpID()] = withoutLinks(meaning)
		}
	}
	text, err := json.MarshalIndent(texts, "", "  ")
	return string(text) + "\n", err
}

// allSettings returns the settings of everything that is registered.
func allSettings() (all []any) {
	for _, name := range strategy.Names() {
		if factory, err := strategy.Lookup(name); err == nil {
			all = append(all, factory.Settings())
		}
	}
	for _, name := range plugin.Names() {
		if factory, err := plugin.Lookup(name); err == nil {
			all = append(all, factory.Settings())
		}
	}
	for _, name := range plugin.RejectedNames() {
		if factory, err := plugin.LookupRejected(name); err == nil {
			all = append(all, factory.Settings())
		}
	}
	return all
}

// link is a link in Markdown.
var link = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

// withoutLinks replaces links by their texts: the page that they are relative to is not there.
func withoutLinks(text string) string { return link.ReplaceAllString(text, "$1") }
