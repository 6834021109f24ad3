package admin

import (
	"context"
	"encoding/json"
)

// BizType is a definition as administrators see it.
type BizType struct {
	Name string `json:"name"`
	// Version grows with each change. It is 0 if the biz type is defined in the configuration only.
	Version int64 `json:"version"`
	Enabled bool  `json:"enabled"`
	// Source says where the biz type was first defined: config or api.
	Source string `json:"source"`
	// UpdatedAt is RFC 3339 in UTC.
	UpdatedAt string `json:"updatedAt,omitempty"`
	// Definition has the form of an item of bizTypes in the configuration, without secrets.
	Definition json.RawMessage `json:"definition"`
	// Warnings name effects that a reader of the change may expect and that it does not have.
	Warnings []string `json:"warnings,omitempty"`
	// SettingWarnings are the warnings that concern one setting.
	SettingWarnings []SettingText `json:"settingWarnings,omitempty"`
	// Example is the ID of the first number. It is set in the answer to a dry run; "" if the ID is not
	// known.
	Example string `json:"example,omitempty"`
}

// SettingText is a problem of one setting, or a warning about it.
type SettingText struct {
	Key  string `json:"key"`
	Text string `json:"text"`
}

// Change holds the options of a change of a definition.
type Change struct {
	// DryRun checks the change and returns its result with an example. It changes nothing.
	DryRun bool
	// Force accepts a definition whose IDs could repeat IDs that were issued before.
	Force bool
	// By is the name of the token that asks for the change, "" for none.
	By string
	// Check is called with the current version, 0 if there is none. If it returns an error, the
	// change is not made.
	Check func(version int64) error
}

// Listing says which biz types to list.
type Listing struct {
	// Match is a pattern for names. A * in it stands for any characters. "" matches every name.
	Match string
	// After is the name after which the list begins; "" for the first name.
	After string
	// Limit is the most biz types to return, 1 or more.
	Limit int
}

// Catalogue lets administrators read and change biz types. It is safe for concurrent use. Its
// errors are of type [*seqd.Error].
type Catalogue interface {
	// List returns a page of the biz types in the order of their names. To get the next page, set
	// want.After to next; next is "" on the last page. If want.Match is set, List bounds how many names
	// it reads. So a page can have fewer biz types than want.Limit, or none, and not be the last.
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
