//go:build !unix

package bolt

import (
	"io/fs"
	"os"
)

// keepOwner does nothing: files have no owner that could be kept here.
func keepOwner(*os.File, fs.FileInfo) error { return nil }
