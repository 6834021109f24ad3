package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
)

// archive writes the program with its configuration: a zip for Windows, a tar.gz for all others.
func (r *release) archive(system, arch, program string) error {
	folder := fmt.Sprintf("seqd-%s-%s-%s", r.version, system, arch)
	pairs := []string{"LICENSE", "LICENSE", "README.md", "README.md", "CHANGELOG.md", "CHANGELOG.md", "seqd.yaml", "configs/seqd.yaml"}
	if system == "linux" {
		pairs = append(pairs, "seqd.service", "deploy/seqd.service")
	}
	files, err := read(r.source, pairs...)
	if err != nil {
		return err
	}
	completions, err := read(r.programs, "completions/seqd.bash", "completions/bash", "completions/_seqd", "completions/zsh",
		"completions/seqd.fish", "completions/fish", "completions/seqd.ps1", "completions/powershell")
	if err != nil {
		return err
	}
	body, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	name := "seqd"
	if system == "windows" {
		name += ".exe"
	}
	files = append(append([]file{{name, 0o755, body}}, files...), completions...)
	for i := range files {
		files[i].name = folder + "/" + files[i].name
	}
	if system == "windows" {
		zipped, err := r.zip(files)
		if err != nil {
			return err
		}
		return r.write(folder+".zip", zipped)
	}
	var out bytes.Buffer
	packed, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return err
	}
	tarred, err := r.tar(files)
	if err != nil {
		return err
	}
	if _, err := packed.Write(tarred); err != nil {
		return err
	}
	if err := packed.Close(); err != nil {
		return err
	}
	return r.write(folder+".tar.gz", out.Bytes())
}

// tar returns a tar of files that belong to root. A name that ends in / is a folder of the user of
// the image.
func (r *release) tar(files []file) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.body)), ModTime: r.time, Format: tar.FormatPAX}
		if f.name[len(f.name)-1] == '/' {
			header.Typeflag, header.Uid, header.Gid = tar.TypeDir, user, user
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.body); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// zip returns a zip of files.
func (r *release) zip(files []file) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range files {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: r.time}
		header.SetMode(os.FileMode(f.mode))
		part, err := w.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := part.Write(f.body); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}
