package testenv

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/seqd/seqd/internal/testing/await"
)

// childrenOf returns the IDs of the children of a process.
func childrenOf(pid int) []int {
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is right
	var children []int
	for _, file := range files {
		state, parent := stat(file)
		if state != 'Z' && parent == pid {
			child, _ := strconv.Atoi(filepath.Base(filepath.Dir(file))) // the pattern asks for digits
			children = append(children, child)
		}
	}
	return children
}

// awaitState waits until a process has ended or is in one of some states. Its parent may not have
// noticed its end.
func awaitState(pid int, states string) {
	for deadline := time.Now().Add(await.Patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		state, _ := stat(fmt.Sprintf("/proc/%d/stat", pid))
		if state == 0 || state == 'Z' || strings.IndexByte(states, state) >= 0 {
			return
		}
	}
}

// stat reads the state and the parent of a process from its stat file. The state is 0 if there is
// no such process. Both follow a name in brackets that may contain anything.
func stat(file string) (state byte, parent int) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, 0
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	parent, _ = strconv.Atoi(string(fields[1]))
	return fields[0][0], parent
}
