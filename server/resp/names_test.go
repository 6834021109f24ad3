package resp

import (
	"fmt"
	"strings"
	"testing"
)

// Of the names that a client sends few are held, and no long ones.
func TestNamesHeld(t *testing.T) {
	var n names
	for i := range 3 * mostNames {
		name := []byte(fmt.Sprint(i % (2 * mostNames)))
		if long := strings.Repeat("x", longestHeld); n.of(name) != string(name) || n.of([]byte(long)) != long || n.of([]byte(long+"x")) != long+"x" {
			t.Fatalf("%q is another name", name)
		}
		if len(n.all) > mostNames || len(n.last) > longestHeld {
			t.Fatalf("%d names are held, the last one is %q", len(n.all), n.last)
		}
	}
}
