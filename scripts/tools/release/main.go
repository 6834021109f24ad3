// Command release packs the programs of a release: archives, packages of Debian and of rpm, and an
// image. scripts/release builds the programs and calls it. The same input gives the same bytes: all
// times are that of the commit, and nothing of this machine goes in.
//
//	go run . -version v1.2.3 -revision COMMIT -time SECONDS -source FOLDER -programs FOLDER -out FOLDER
//
// FOLDER/OS-ARCH/seqd are the programs, FOLDER/OS-ARCH.cdx.json their SBOMs, and FOLDER/completions what
// shells complete.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// release is what all artifacts have in common.
type release struct {
	version, revision     string
	time                  time.Time
	source, programs, out string
}

// file is a file of an artifact.
type file struct {
	name string // the path in the artifact
	mode int64
	body []byte
}

func main() {
	var r release
	flag.StringVar(&r.version, "version", "", "such as v1.2.3")
	flag.StringVar(&r.revision, "revision", "", "the commit of the sources")
	seconds := flag.Int64("time", 0, "the time of that commit, in seconds since 1970")
	flag.StringVar(&r.source, "source", "", "the folder of the sources")
	flag.StringVar(&r.programs, "programs", "", "the folder of the programs")
	flag.StringVar(&r.out, "out", "", "the folder for the artifacts")
	flag.Parse()
	r.time = time.Unix(*seconds, 0).UTC()
	if err := r.pack(); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// pack writes the artifacts of all programs.
func (r *release) pack() error {
	found, err := filepath.Glob(filepath.Join(r.programs, "*-*", "seqd*"))
	if err != nil || len(found) == 0 {
		return fmt.Errorf("no program in %s/OS-ARCH", r.programs)
	}
	slices.Sort(found)
	var images []platform
	for _, program := range found {
		system, arch, _ := strings.Cut(filepath.Base(filepath.Dir(program)), "-")
		if err := r.sbom(system, arch); err != nil {
			return fmt.Errorf("SBOM for %s-%s: %w", system, arch, err)
		}
		if err := r.archive(system, arch, program); err != nil {
			return fmt.Errorf("archive for %s-%s: %w", system, arch, err)
		}
		if system != "linux" {
			continue
		}
		if err := r.packages(arch, program); err != nil {
			return fmt.Errorf("packages for %s: %w", arch, err)
		}
		if arch == "amd64" || arch == "arm64" {
			images = append(images, platform{arch, program})
		}
	}
	if len(images) == 0 {
		return nil
	}
	return r.image(images)
}

// sbom writes the SBOM of a program without the hashes of the tool that made it: the tool was compiled
// on this machine.
func (r *release) sbom(system, arch string) error {
	made, err := os.ReadFile(filepath.Join(r.programs, system+"-"+arch+".cdx.json"))
	if err != nil {
		return err
	}
	var bom map[string]any
	if err := json.Unmarshal(made, &bom); err != nil {
		return err
	}
	metadata, _ := bom["metadata"].(map[string]any)
	tools, _ := metadata["tools"].([]any)
	if len(tools) != 1 {
		return fmt.Errorf("it names %d tools, want 1", len(tools))
	}
	if tool, ok := tools[0].(map[string]any); ok {
		delete(tool, "hashes")
	}
	body, err := json.MarshalIndent(bom, "", "  ")
	if err != nil {
		return err
	}
	return r.write(fmt.Sprintf("seqd-%s-%s-%s.cdx.json", r.version, system, arch), append(body, '\n'))
}

// read returns files as they are in the sources or among the completions. names has pairs: the path
// in the artifact, and the path of the source.
func read(folder string, names ...string) ([]file, error) {
	var files []file
	for pair := range slices.Chunk(names, 2) {
		body, err := os.ReadFile(filepath.Join(folder, pair[1]))
		if err != nil {
			return nil, err
		}
		files = append(files, file{pair[0], 0o644, body})
	}
	return files, nil
}

// write writes an artifact.
func (r *release) write(name string, body []byte) error {
	return os.WriteFile(filepath.Join(r.out, name), body, 0o644)
}
