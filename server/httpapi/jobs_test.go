package httpapi_test

import (
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/httpapi"
)

// The file of a result is called as its job, without what leads to another folder.
func TestNamesOfResults(t *testing.T) {
	const plain = `attachment; filename="order-01234567.txt"`
	for name, want := range map[string]string{
		"":                plain,
		" .. ":            plain,
		"Frühling 50% +1": plain + "; filename*=UTF-8''Fr%C3%BChling%2050%25%20%2B1.txt",
		`../a\b"c:*`:      plain + "; filename*=UTF-8''-a-b-c--.txt",
	} {
		got := httpapi.DispositionOf(admin.Job{ID: "0123456789abcdef0123456789abcdef", BizType: "order", Format: "text", Name: name})
		must.Equal(t, got, want, "the header for %q", name)
	}
}
