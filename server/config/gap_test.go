package config_test

import (
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/config"
	_ "github.com/seqd/seqd/standard"
	"github.com/seqd/seqd/strategy/segment"
)

// A gap is a number or the word auto, from every source. Text is not a number, except where
// everything is text.
func TestRestoreGap(t *testing.T) {
	const key, env = "segment.restoreGap", "SEQD_SEGMENT_RESTOREGAP="
	for value, want := range map[string]segment.Gap{"auto": segment.AutoGap, `"auto"`: segment.AutoGap, "0": 0, "1000000": 1_000_000} {
		gapOf(t, mustLoad(t, someBizType+nested(key, value), config.Sources{}), want)
	}
	for value, want := range map[string]segment.Gap{"auto": segment.AutoGap, "77": 77} {
		gapOf(t, mustLoad(t, someBizType, config.Sources{Env: []string{env + value}}), want)
		gapOf(t, mustLoad(t, someBizType, config.Sources{Flags: map[string]string{key: value}}), want)
	}
	for value, want := range map[string]string{
		`"7"`:             `"7" is neither auto nor a whole number`,
		"Auto":            `"Auto" is neither auto nor a whole number`,
		"1.5":             "1.5 is not a whole number",
		"null":            "it has no value",
		"[auto]":          "a list is not a whole number",
		"-1":              "-1 is neither auto nor from 0 to 1000000000000",
		"1000000000001":   "1000000000001 is neither auto nor from 0 to 1000000000000",
		"2025-01-01":      `"2025-01-01" is neither auto nor a whole number`,
		"{auto: auto}":    "restoreGap",
		"9007199254740.5": "is not a whole number",
	} {
		_, err := config.LoadYAML([]byte(someBizType+nested(key, value)), config.Sources{})
		wantError(t, err, "restoreGap", want)
	}
	_, err := config.LoadYAML([]byte(someBizType), config.Sources{Env: []string{env + "many"}})
	wantError(t, err, "SEQD_SEGMENT_RESTOREGAP", `"many" is neither auto nor a whole number`)
}

func gapOf(t *testing.T, c *config.Config, want segment.Gap) {
	t.Helper()
	must.Equal(t, c.BizTypes[0].Settings.(*segment.Settings).RestoreGap, want, "the gap")
}

// In a definition as JSON a number stays a number.
func TestRestoreGapOfADefinition(t *testing.T) {
	cfg := config.Default()
	for text, want := range map[string]string{
		`{"restoreGap": 5}`:      "",
		`{"restoreGap": "auto"}`: "",
		`{"restoreGap": "5"}`:    `restoreGap: "5" is neither auto nor a whole number`,
		`{"restoreGap": true}`:   "restoreGap: true is not a whole number, such as 1000",
		`{"restoreGap": -5}`:     "restoreGap: -5 is neither auto nor from 0 to 1000000000000",
	} {
		_, problems := cfg.DecodeDefinition("order", []byte(text))
		var got string
		for _, p := range problems {
			got += p.Key + ": " + p.Text
		}
		must.Equal(t, got, want, "%s", text)
	}
}
