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
