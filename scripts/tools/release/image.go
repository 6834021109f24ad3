package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"encoding/pem"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is the user and group in the image.
const user = 65532

// platform is a program of the image.
type platform struct{ arch, program string }

// image writes the image of the Dockerfile for all platforms, as the layout of OCI in a tar. The file
// manifest.json in it is for docker load, which takes one platform by its tag.
func (r *release) image(platforms []platform) error {
	work, err := os.MkdirTemp("", "seqd-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	type loaded struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	var loads []loaded
	blob := func(hash v1.Hash) string { return "blobs/" + hash.Algorithm + "/" + hash.Hex }
	for _, p := range platforms {
		image, err := r.platform(p)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: p.arch}}})
		manifest, err := image.Manifest()
		if err != nil {
			return err
		}
		load := loaded{blob(manifest.Config.Digest), []string{"seqd:" + r.version + "-" + p.arch}, nil}
		for _, layer := range manifest.Layers {
			load.Layers = append(load.Layers, blob(layer.Digest))
		}
		loads = append(loads, load)
	}
	path, err := layout.Write(work, empty.Index)
	if err != nil {
		return err
	}
	named := layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": r.version, "io.containerd.image.name": "docker.io/library/seqd:" + r.version})
	if err := path.AppendIndex(index, named); err != nil {
		return err
	}
	manifest, err := json.Marshal(loads)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(work, "manifest.json"), manifest, 0o600); err != nil {
		return err
	}
	var names []string
	err = filepath.WalkDir(work, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			names = append(names, strings.TrimPrefix(path, work+"/"))
		}
		return err
	})
	if err != nil {
		return err
	}
	slices.Sort(names)
	var files []file
	for _, name := range names {
		more, err := read(work, name, name)
		if err != nil {
			return err
		}
		files = append(files, more...)
	}
	body, err := r.tar(files)
	if err != nil {
		return err
	}
	return r.write("seqd-"+r.version+"-image.tar", body)
}

// platform returns the image for one platform. The test compares it with the Dockerfile.
func (r *release) platform(p platform) (v1.Image, error) {
	program, err := os.ReadFile(p.program)
	if err != nil {
		return nil, err
	}
	config, err := read(r.source, "etc/seqd/seqd.yaml", "configs/seqd.yaml")
	if err != nil {
		return nil, err
	}
	// The program has a layer of its own, as the other one rarely changes.
	image := v1.Image(empty.Image)
	image = mutate.ConfigMediaType(mutate.MediaType(image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, files := range [][]file{
		append(config, file{"etc/ssl/certs/ca-certificates.crt", 0o644, authorities()}, file{"var/lib/seqd/", 0o755, nil}, file{"var/lib/seqd/data/", 0o750, nil}),
		{{"seqd", 0o755, program}},
	} {
		packed, err := r.tar(files)
		if err != nil {
			return nil, err
		}
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed)), nil },
			tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.BestCompression))
		if err != nil {
			return nil, err
		}
		image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: r.time}, CreatedBy: "scripts/release"}})
		if err != nil {
			return nil, err
		}
	}
	set, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	set = set.DeepCopy()
	set.OS, set.Architecture, set.Created = "linux", p.arch, v1.Time{Time: r.time}
	set.Config = r.config()
	return mutate.ConfigFile(image, set)
}

// config says how the image runs, as the Dockerfile does.
func (r *release) config() v1.Config {
	return v1.Config{
		Env:          []string{"SEQD_SERVER_ADDR=0.0.0.0:8080"},
		User:         "65532:65532",
		WorkingDir:   "/var/lib/seqd",
		Volumes:      map[string]struct{}{"/var/lib/seqd": {}},
		ExposedPorts: map[string]struct{}{"8080/tcp": {}},
		StopSignal:   "SIGTERM",
		Healthcheck: &v1.HealthConfig{Test: []string{"CMD", "/seqd", "healthcheck", "--config", "/etc/seqd/seqd.yaml"},
			Interval: 10 * time.Second, Timeout: 3 * time.Second, StartPeriod: 10 * time.Second, Retries: 3},
		Entrypoint: []string{"/seqd"},
		Cmd:        []string{"--config", "/etc/seqd/seqd.yaml"},
		Labels: map[string]string{
			"org.opencontainers.image.title":       "seqd",
			"org.opencontainers.image.description": "Issues numbers over HTTP: GET /seq/{bizType}",
			"org.opencontainers.image.licenses":    "Apache-2.0",
			"org.opencontainers.image.source":      "https://github.com/seqd/seqd",
			"org.opencontainers.image.version":     r.version,
			"org.opencontainers.image.revision":    r.revision,
		},
	}
}

// authorities are the certificates of public authorities, as Mozilla has them in the version that
// go.mod names. Those that are trusted only for earlier certificates are left out: a file cannot say so.
func authorities() []byte {
	var out []byte
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})...)
		}
	}
	return out
}
