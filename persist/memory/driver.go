package memory

import (
	"context"
	"errors"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/driver"
)

func init() {
	driver.Register(driver.Driver{Name: "memory", Forgets: true, Settings: func() driver.Settings { return &settings{} }})
}

// settings has none: nothing can be chosen.
type settings struct{}

// Place implements [driver.Settings].
func (*settings) Place() string { return "this process" }

// Open implements [driver.Settings]. Nothing can be looked at before the store is used.
func (*settings) Open(_ context.Context, how driver.How) (persist.Store, error) {
	if how.ReadOnly {
		return nil, errors.ErrUnsupported
	}
	return New(how.Now), nil
}

// Examine implements [driver.Settings]. There is nothing to examine.
func (*settings) Examine(context.Context, driver.Examination) bool { return false }
