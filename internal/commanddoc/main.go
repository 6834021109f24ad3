// Command commanddoc writes docs/COMMANDS.md from the help of the commands. Run it in the root of
// the module:
//
//	go run ./internal/commanddoc >docs/COMMANDS.md
//
// A test compares the two.
package main

import (
	"fmt"
	"os"

	"github.com/seqd/seqd/command"
)

func main() {
	if err := command.Document(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "commanddoc:", err)
		os.Exit(1)
	}
}
