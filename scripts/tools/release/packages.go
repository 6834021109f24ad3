package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// The scripts of the packages. They start, restart and enable nothing: the first start is a decision of
// the operator, and so is the order in which nodes are restarted. They remove no numbers.
const (
	afterInstall = `#!/bin/sh
[ ! -d /run/systemd/system ] || systemctl daemon-reload || true
`
	// dpkg calls it with "remove", rpm with 0; at an upgrade with something else.
	beforeRemove = `#!/bin/sh
case $1 in
remove | 0) [ ! -d /run/systemd/system ] || systemctl disable --now seqd.service || true ;;
esac
`
)

// packages writes the packages of Debian and of rpm for a program of Linux.
func (r *release) packages(arch, program string) error {
	work, err := os.MkdirTemp("", "seqd-packages-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	unit, err := os.ReadFile(filepath.Join(r.source, "deploy/seqd.service"))
	if err != nil {
		return err
	}
	text, err := packagedUnit(string(unit))
	if err != nil {
		return err
	}
	for name, body := range map[string]string{"unit": text, "after": afterInstall, "before": beforeRemove} {
		if err := os.WriteFile(filepath.Join(work, name), []byte(body), 0o600); err != nil {
			return err
		}
	}
	for _, format := range []string{"deb", "rpm"} {
		packager, err := nfpm.Get(format)
		if err != nil {
			return err
		}
		// Each packager changes what it gets.
		info := nfpm.WithDefaults(r.info(arch, program, work))
		if err := nfpm.PrepareForPackager(info, format); err != nil {
			return err
		}
		var out bytes.Buffer
		if err := packager.Package(info, &out); err != nil {
			return err
		}
		if err := r.write(packager.ConventionalFileName(info), out.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// packagedUnit is the unit with the program where packages have it.
func packagedUnit(unit string) (string, error) {
	const start = "ExecStart=/usr/local/bin/seqd "
	_, body, found := strings.Cut(unit, "\n[Unit]\n")
	if !found || strings.Count(body, start) != 1 {
		return "", fmt.Errorf("deploy/seqd.service has no [Unit] or no %q", start)
	}
	return "[Unit]\n" + strings.Replace(body, start, "ExecStart=/usr/bin/seqd ", 1), nil
}

// info says what is in a package. work has the files that are not among the sources.
func (r *release) info(arch, program, work string) *nfpm.Info {
	// own returns the content of a file; kind is that of nfpm, "" for an ordinary one.
	own := func(source, destination, kind string, mode os.FileMode) *files.Content {
		return &files.Content{Source: source, Destination: destination, Type: kind,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: r.time}}
	}
	of := func(name string) string { return filepath.Join(r.source, name) }
	completion := func(shell string) string { return filepath.Join(r.programs, "completions", shell) }
	return &nfpm.Info{
		Name: "seqd", Arch: cmp.Or(map[string]string{"arm": "arm7"}[arch], arch), Platform: "linux", Version: r.version, Release: "1",
		Section: "net", Priority: "optional", Maintainer: "The seqd authors <seqd@localhost>",
		Description: "Issues numbers over HTTP, each of them once", Homepage: "https://github.com/seqd/seqd",
		License: "Apache-2.0", MTime: r.time, DisableGlobbing: true,
		Overridables: nfpm.Overridables{
			Contents: files.Contents{
				own(program, "/usr/bin/seqd", "", 0o755),
				own(of("configs/seqd.yaml"), "/etc/seqd/seqd.yaml", files.TypeConfigNoReplace, 0o644),
				own(filepath.Join(work, "unit"), "/usr/lib/systemd/system/seqd.service", "", 0o644),
				own(of("LICENSE"), "/usr/share/doc/seqd/copyright", "", 0o644),
				own(of("CHANGELOG.md"), "/usr/share/doc/seqd/CHANGELOG.md", "", 0o644),
				own(completion("bash"), "/usr/share/bash-completion/completions/seqd", "", 0o644),
				own(completion("zsh"), "/usr/share/zsh/site-functions/_seqd", "", 0o644),
				own(completion("fish"), "/usr/share/fish/vendor_completions.d/seqd.fish", "", 0o644),
			},
			Scripts: nfpm.Scripts{PostInstall: filepath.Join(work, "after"), PreRemove: filepath.Join(work, "before")},
			RPM:     nfpm.RPM{BuildHost: "localhost"}, // not the name of this machine
		},
	}
}
