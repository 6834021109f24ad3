package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/node"
)

// standIn returns a path to run the stand-in from. It is in the folder in [node.BinariesEnv], or
// built once per test binary. A built file is removed at once, so that it never outlives the test.
func standIn(t testing.TB) string {
	t.Helper()
	if folder := os.Getenv(node.BinariesEnv); folder != "" {
		return filepath.Join(folder, "mongostandin")
	}
	path, err := build()
	if err != nil {
		t.Fatalf("build the MongoDB stand-in: %v", err)
	}
	return path
}

// builtFile stays open until the test binary ends, because the path refers to it.
var builtFile *os.File

var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "seqd-mongostandin-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary := filepath.Join(dir, "mongostandin")
	// it is large, and the first build has no cache
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	module, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/seqd/seqd").Output()
	if err != nil {
		return "", err
	}
	script := filepath.Join(strings.TrimSpace(string(module)), "scripts", "standin")
	if out, err := exec.CommandContext(ctx, script, binary).CombinedOutput(); err != nil {
		return "", errors.Join(err, errors.New(string(out)))
	}
	if builtFile, err = os.Open(binary); err != nil {
		return "", err
	}
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), builtFile.Fd()), nil
})
