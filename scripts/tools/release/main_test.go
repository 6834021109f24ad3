package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// What goes in decides the bytes, and nothing else: not the clock, the zone, the mask of modes or the
// name of a temporary folder.
func TestSameBytes(t *testing.T) {
	programs := t.TempDir()
	put := func(name, body string) {
		path := filepath.Join(programs, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(body), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"linux-amd64/seqd", "linux-arm64/seqd", "linux-arm/seqd", "linux-386/seqd", "darwin-arm64/seqd", "windows-amd64/seqd.exe",
		"completions/bash", "completions/zsh", "completions/fish", "completions/powershell"} {
		put(name, name)
	}
	var first map[string][]byte
	for i := range 2 {
		for _, name := range []string{"linux-amd64", "linux-arm64", "linux-arm", "linux-386", "darwin-arm64", "windows-amd64"} {
			put(name+".cdx.json", fmt.Sprintf(`{"metadata":{"tools":[{"name":"t","hashes":[%d]}]}}`, i))
		}
		r := release{version: "v1.2.3-rc.4", revision: "0a1b2c", time: time.Unix(1_700_000_000, 0).UTC(), source: "../../..", programs: programs, out: t.TempDir()}
		t.Setenv("TZ", []string{"UTC", "Asia/Shanghai"}[i])
		t.Setenv("TMPDIR", t.TempDir())
		if err := r.pack(); err != nil {
			t.Fatal(err)
		}
		got := made(t, r.out)
		if first == nil {
			first = got
			continue
		}
		for name := range first {
			if !bytes.Equal(first[name], got[name]) {
				t.Errorf("%s differs in the second run", name)
			}
		}
	}
	want := []string{
		"seqd-1.2.3~rc.4-1.aarch64.rpm", "seqd-1.2.3~rc.4-1.armv7hl.rpm", "seqd-1.2.3~rc.4-1.i386.rpm", "seqd-1.2.3~rc.4-1.x86_64.rpm",
		"seqd-v1.2.3-rc.4-darwin-arm64.tar.gz", "seqd-v1.2.3-rc.4-image.tar", "seqd-v1.2.3-rc.4-linux-386.tar.gz", "seqd-v1.2.3-rc.4-linux-amd64.tar.gz",
		"seqd-v1.2.3-rc.4-linux-arm.tar.gz", "seqd-v1.2.3-rc.4-linux-arm64.tar.gz", "seqd-v1.2.3-rc.4-windows-amd64.zip",
		"seqd_1.2.3~rc.4-1_amd64.deb", "seqd_1.2.3~rc.4-1_arm64.deb", "seqd_1.2.3~rc.4-1_armhf.deb", "seqd_1.2.3~rc.4-1_i386.deb",
	}
	var names []string
	for name := range first {
		names = append(names, name)
	}
	slices.Sort(names)
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, ".cdx.json") })
	if !slices.Equal(names, want) {
		t.Errorf("made %q, want %q", names, want)
	}
}

// made returns the files of a folder.
func made(t *testing.T, folder string) map[string][]byte {
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, entry := range entries {
		if files[entry.Name()], err = os.ReadFile(filepath.Join(folder, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// The image of a release runs as that of the Dockerfile.
func TestDockerfile(t *testing.T) {
	text, err := os.ReadFile("../../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	_, stage, _ := strings.Cut(string(text), "\nFROM scratch\n")
	r := release{version: "${VERSION}", revision: "${REVISION}"}
	c := r.config()
	list := func(of []string) string {
		body, _ := json.Marshal(of)
		return strings.ReplaceAll(string(body), ",", ", ")
	}
	check := c.Healthcheck
	want := []string{"ENV " + c.Env[0], "USER " + c.User, "WORKDIR " + c.WorkingDir, "VOLUME /var/lib/seqd", "EXPOSE 8080", "STOPSIGNAL " + c.StopSignal,
		"ENTRYPOINT " + list(c.Entrypoint), "CMD " + list(c.Cmd),
		fmt.Sprintf("HEALTHCHECK --interval=%s --timeout=%s --start-period=%s --retries=%d CMD %s", check.Interval, check.Timeout, check.StartPeriod, check.Retries, list(check.Test[1:]))}
	for name, value := range c.Labels {
		want = append(want, fmt.Sprintf("%s=%q", name, value))
	}
	for _, line := range want {
		if !strings.Contains(stage, line) {
			t.Errorf("the Dockerfile lacks %s", line)
		}
	}
	if labels := strings.Count(stage, "org.opencontainers.image."); labels != len(c.Labels) {
		t.Errorf("the Dockerfile has %d labels, the image of a release %d", labels, len(c.Labels))
	}
	if strings.Count(stage, "\nENV ") != 1 {
		t.Error("the Dockerfile has other variables than the image of a release")
	}
}
