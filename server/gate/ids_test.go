package gate

import (
	"strconv"
	"testing"
)

// TestIDsAreNoNumbers keeps IDs such as 9214857e-16 out, which YAML, spreadsheets and validators of
// headers take for numbers.
func TestIDsAreNoNumbers(t *testing.T) {
	for range 2000 {
		ids := newIDs()
		seen := map[string]bool{}
		for range 40 {
			id := ids.Next()
			if _, err := strconv.ParseFloat(id, 64); err == nil || seen[id] {
				t.Fatalf("the ID %q reads as a number, or came twice", id)
			}
			seen[id] = true
		}
	}
}
