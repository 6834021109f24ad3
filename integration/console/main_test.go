// Package console tests the console in a real browser, on real nodes.
package console

import (
	"os"
	"testing"

	"github.com/seqd/seqd/integration/console/browser"
	"github.com/seqd/seqd/internal/testing/node"
)

func TestMain(m *testing.M) {
	code := node.Run(m)
	browser.End()
	os.Exit(code)
}
