package admin

import (
	"context"
	"encoding/json"
)

// BizType is a definition as administrators see it.
type BizType struct {
	Name string `json:"name"`
	// Version grows with every change. It is 0 if only the configuration defines the biz type.
	Version int64 `json:"version"`
	Enabled bool  `json:"enabled"`
	// Source is what first defined the biz type: config or api.
	Source string `json:"source"`
	// UpdatedAt is RFC 3339 in UTC.
	UpdatedAt string `json:"updatedAt,omitempty"`
	// Definition has the form of an item of bizTypes in the configuration, without secrets.
	Definition json.RawMessage `json:"definition"`
	// Warnings say what the change does not do although it may look so.
	Warnings []string `json:"warnings,omitempty"`
	// SettingWarnings are those of them that concern one setting.
	SettingWarnings []SettingText `json:"settingWarnings,omitempty"`
	// Example is the ID of the first number, in the answer to a dry run; "" if it is not known.
	Example string `json:"example,omitempty"`
}

// SettingText is what is wrong with one setting, or what there is to know about it.
type SettingText struct {
	Key  string `json:"key"`
	Text string `json:"text"`
}

// Change holds the options of a change of a definition.
type Change struct {
	// DryRun checks everything, shows an example, and changes nothing.
	DryRun bool
	// Force accepts a definition whose IDs could repeat earlier ones.
	Force bool
	// Check gets the current version, 0 if there is none, and returns an error if the change must
	// not be made.
	Check func(version int64) error
}

// Listing says which biz types to list.
type Listing struct {
	// Match is a pattern that the names match, in which * stands for any characters; "" for all.
	Match string
	// After is the name to begin after.
	After string
	// Limit is the most biz types to return, 1 or more.
	Limit int
}

// Catalogue lets administrators read and change biz types. It is safe for concurrent use. Its
// errors are of type [*seqd.Error].
type Catalogue interface {
	// List returns a part of the biz types in the order of their names. next is the name to continue
	// after, "" at the end. If a pattern is given, the part can have fewer biz types than asked for,
	// even none, although others follow: not too many names are looked at for one request.
	List(ctx context.Context, want Listing) (list []BizType, next string, err error)
	Get(ctx context.Context, name string) (BizType, error)
	// Put stores a definition. created is true if there was none.
	Put(ctx context.Context, name string, definition []byte, c Change) (b BizType, created bool, err error)
	// Patch changes a definition by a merge patch (RFC 7396).
	Patch(ctx context.Context, name string, patch []byte, c Change) (BizType, error)
	Enable(ctx context.Context, name string, enabled bool, c Change) (BizType, error)
	// Delete replaces the definition by a tombstone and returns the tombstone's version.
	Delete(ctx context.Context, name string, c Change) (BizType, error)
}
