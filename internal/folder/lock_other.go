//go:build !unix || solaris || aix

package folder

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

// Lock returns an error that wraps [errors.ErrUnsupported].
func Lock(*os.File) error { return fmt.Errorf("locks on %s: %w", runtime.GOOS, errors.ErrUnsupported) }
