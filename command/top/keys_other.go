//go:build !linux && !darwin

package top

import "errors"

func readKeys(int) (restore func(), err error) { return nil, errors.ErrUnsupported }
