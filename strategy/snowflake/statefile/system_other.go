//go:build !linux && !darwin

package statefile

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

var errSystem = fmt.Errorf("state files are not supported on %s: %w", runtime.GOOS, errors.ErrUnsupported)

func identify(*os.File) (inode, uint64, error) { return inode{}, 0, errSystem }
