package main

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
)

// machine describes the machine of a run.
type machine struct {
	Cores     int    `json:"cores"`
	Processor string `json:"processor"`
	MemoryMiB int    `json:"memoryMiB"`
	Kernel    string `json:"kernel"`
	System    string `json:"system"`
}

func thisMachine() machine {
	return machine{
		Cores: runtime.NumCPU(), Processor: field("/proc/cpuinfo", "model name"), MemoryMiB: totalMemory() >> 10,
		Kernel: firstLine(os.ReadFile("/proc/sys/kernel/osrelease")), System: runtime.GOOS + "/" + runtime.GOARCH,
	}
}

// totalMemory returns the memory of the machine in KiB, 0 if unknown.
func totalMemory() int {
	number, _, _ := strings.Cut(field("/proc/meminfo", "MemTotal"), " ")
	n, _ := strconv.Atoi(number)
	return n
}

// field returns the text after a name and a colon in a file.
func field(path, name string) string {
	data, err := os.ReadFile(path)
	if err == nil {
		for line := range strings.Lines(string(data)) {
			if n, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(n) == name {
				return strings.TrimSpace(value)
			}
		}
	}
	return "unknown"
}

func firstLine(data []byte, err error) string {
	line, _, _ := strings.Cut(string(data), "\n")
	if err != nil || line == "" {
		return "unknown"
	}
	return strings.TrimSpace(line)
}

// versions returns the versions of the programs and libraries involved.
func versions(ctx context.Context) map[string]string {
	v := map[string]string{"go": runtime.Version(), "redis": "unknown", "postgres": "unknown", "mariadb": "unknown"}
	if words := strings.Fields(firstLine(exec.CommandContext(ctx, "redis-server", "--version").Output())); len(words) > 2 {
		v["redis"] = strings.TrimPrefix(words[2], "v=")
	}
	if path, err := postgresProgram("postgres"); err == nil {
		if words := strings.Fields(firstLine(exec.CommandContext(ctx, path, "--version").Output())); len(words) > 2 {
			v["postgres"] = words[2]
		}
	}
	if path, err := mariaDBProgram("mariadbd"); err == nil {
		if words := strings.Fields(firstLine(exec.CommandContext(ctx, path, "--version").Output())); len(words) > 2 {
			v["mariadb"] = words[2]
		}
	}
	return v
}
