package server

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd/server/certificate"
	"github.com/seqd/seqd/server/config"
)

// watchEvery is how often a node looks at its disks and files. A scrape does not look itself: a disk can
// hang.
const watchEvery = 15 * time.Second

// watched is something of the machine that metrics tell of. Each is looked at by a goroutine of its own, so
// one that hangs holds up no other.
type watched interface{ look() }

func watch(ctx context.Context, w watched) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		w.look()
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// disk is a folder that seqd writes to.
type disk struct {
	kind, folder string
	files        []string // of a store that is a file
	seen         atomic.Pointer[[3]int64]
}

// disksOf returns the folders that a configuration names. Files of history are beside the store if
// bizTypeFolder is not set.
func disksOf(cfg *config.Config) (list []*disk) {
	if path, ok := cfg.Store.File(); ok {
		list = append(list, &disk{kind: "store", folder: filepath.Dir(path), files: []string{path, path + "-history"}})
	}
	if cfg.Snapshots.Every > 0 {
		list = append(list, &disk{kind: "snapshots", folder: cfg.Snapshots.Folder})
	}
	if cfg.BizTypeFolder != "" {
		list = append(list, &disk{kind: "bizTypeFolder", folder: cfg.BizTypeFolder})
	}
	return list
}

// look reads the sizes. If that fails, they are not known.
func (d *disk) look() {
	var files int64
	for _, name := range d.files {
		if info, err := os.Stat(name); err == nil {
			files += info.Size()
		}
	}
	free, size, ok := diskSpace(d.folder)
	if !ok || d.files != nil && files == 0 {
		d.seen.Store(nil)
		return
	}
	d.seen.Store(&[3]int64{files, free, size})
}

// clientCertificate is a certificate that seqd shows to servers.
type clientCertificate struct {
	key, path string
	until     atomic.Int64 // seconds since 1970; 0: not known
}

// certificatesOf returns those that a configuration names.
func certificatesOf(cfg *config.Config) (list []*clientCertificate) {
	for key, tls := range map[string]config.ClientTLS{"redis.tls.certFile": cfg.Redis.TLS, "coordination.tls.certFile": cfg.Coordination.TLS} {
		if tls.Enabled && tls.CertFile != "" {
			list = append(list, &clientCertificate{key: key, path: tls.CertFile})
		}
	}
	return list
}

// look reads the file. If that fails, what it said before stays: so do connections.
func (c *clientCertificate) look() {
	if text, err := os.ReadFile(c.path); err == nil {
		if first := certificate.First(text); first != nil {
			c.until.Store(first.NotAfter.Unix())
		}
	}
}

// watchFiles begins to look at what metrics tell of disks and certificates.
func (b *back) watchFiles(ctx context.Context) {
	b.disks, b.certificates = disksOf(b.base.cfg), certificatesOf(b.base.cfg)
	for _, d := range b.disks {
		b.base.background.run(ctx, func(ctx context.Context) { watch(ctx, d) })
	}
	for _, c := range b.certificates {
		b.base.background.run(ctx, func(ctx context.Context) { watch(ctx, c) })
	}
}

func (b *back) tellDisks(tell func(kind string, files, free, size int64)) {
	for _, d := range b.disks {
		if seen := d.seen.Load(); seen != nil {
			tell(d.kind, seen[0], seen[1], seen[2])
		}
	}
}

func (b *back) tellCertificates(tell func(key string, until int64)) {
	for _, c := range b.certificates {
		if until := c.until.Load(); until != 0 {
			tell(c.key, until)
		}
	}
}
