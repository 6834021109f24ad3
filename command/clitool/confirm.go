package clitool

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// errNothingChanged is the error if the answer is not yes.
var errNothingChanged = errors.New("nothing was changed")

// Confirm asks the user a question on the terminal and returns nil if the answer is yes. Without a
// terminal nobody can answer: then the error, which wraps [ErrUsage], names flag, the flag that
// answers yes.
func (e *Env) Confirm(question, flag string) error {
	if !e.Terminal(e.In) || !e.Terminal(e.Errs) {
		return Usage("%s There is no terminal to ask on: add %s", question, flag)
	}
	fmt.Fprintf(e.Errs, "%s [y/N] ", question)
	answer, err := bufio.NewReader(e.In).ReadString('\n')
	if err != nil && err != io.EOF {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errNothingChanged
}
