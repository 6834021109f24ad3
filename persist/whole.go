package persist

import "context"

// Whole lists what the parts of a [Store] do not list, and fills a store that has nothing.
type Whole interface {
	// Kinds returns the kinds that documents have, in byte order.
	Kinds(ctx context.Context) ([]string, error)
	// Registries returns the names of the registries of machine IDs, in byte order.
	Registries(ctx context.Context) ([]string, error)
	// Refill does what Keep of [Documents] does, for documents of any revision. Only a restore
	// calls it: a document never begins with a later revision otherwise.
	Refill(ctx context.Context, list []Document) error
}

// CounterFiller is a [Store] that creates many counters at once, faster than one by one.
type CounterFiller interface {
	// FillCounters does what Create of [Counters] does for each, whatever was confirmed after a failover. It
	// returns ErrExists if one of them exists. After an error any of them may be stored.
	FillCounters(ctx context.Context, list []Counter) error
}

// CheckRefilled returns ErrInvalid unless all documents are valid. Drivers call it before they
// store any.
func CheckRefilled(list []Document) error {
	for _, d := range list {
		if err := d.Validate(); err != nil {
			return err
		}
	}
	return nil
}
