package admin

import (
	"context"

	"github.com/seqd/seqd/client"
)

// Settings say what a definition of a biz type can contain.
type Settings struct {
	// Common are the settings of every biz type.
	Common     []Setting       `json:"common"`
	Strategies []SettingsOwner `json:"strategies"`
	Plugins    []SettingsOwner `json:"plugins"`
	// Rejected are the rejection handlers.
	Rejected []SettingsOwner `json:"rejected"`
}

// SettingsOwner is a strategy, a plugin or a rejection handler.
type SettingsOwner struct {
	Name string `json:"name"`
	// Help is plain text, in which backticks can mark what is written literally. So are the other
	// texts. "" if there is none.
	Help string `json:"help"`
	// Rejected are the rejection handlers of a biz type of this strategy that lists none.
	Rejected []string  `json:"rejected,omitempty"`
	Settings []Setting `json:"settings"`
}

// Setting is one setting.
type Setting struct {
	// Key has a dot if the setting is nested, as in file.path.
	Key string `json:"key"`
	// Type is text, integer, number, boolean, duration, list (of text) or objects (a list of them).
	Type string `json:"type"`
	// Default is the value if a definition has none, with what the configuration of the node says:
	// text, a float64, or a bool. It is nil for secrets and for what is required.
	Default any `json:"default,omitempty"`
	// Values are all values of a text, or the words that can be in the place of a number.
	Values []string `json:"values,omitempty"`
	Range  string   `json:"range,omitempty"`
	// Min and Max are nil if the range is not from one number to another one.
	Min  *int64 `json:"min,omitempty"`
	Max  *int64 `json:"max,omitempty"`
	Unit string `json:"unit,omitempty"`
	// Zero is what 0 means, "" if that is obvious.
	Zero     string `json:"zero,omitempty"`
	Help     string `json:"help"`
	Secret   bool   `json:"secret"`
	Required bool   `json:"required"`
	// ExactlyOneOf are keys, including this one, of which a definition has exactly one.
	ExactlyOneOf []string `json:"exactlyOneOf,omitempty"`
}

// Settings returns what a definition of a biz type can contain on the node that answers.
func (a *Admin) Settings(ctx context.Context) (s Settings, err error) {
	_, err = a.ask(ctx, client.Request{Op: "list settings", Path: "/settings"}, &s)
	if err == nil && s.Strategies == nil {
		err = errNoList
	}
	return s, err
}
