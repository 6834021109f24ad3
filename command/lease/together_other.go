//go:build !linux

package lease

import "os/exec"

func endTogether(*exec.Cmd) {}
