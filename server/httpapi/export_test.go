package httpapi

import (
	"context"

	"github.com/seqd/seqd/server/connections"
)

// MostDownloads is how many results are downloaded at once.
const MostDownloads = mostDownloads

// DispositionOf returns the header that names the file of a result.
var DispositionOf = dispositionOf

// WithPlace returns the context of requests on a connection that has a place.
func WithPlace(ctx context.Context, place *connections.Place) context.Context {
	return context.WithValue(ctx, connKey{}, &connection{place: place})
}
