package server

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/certificate/certificatetest"
	"github.com/seqd/seqd/server/config"
)

// Each disk that the configuration names is told of by what it is for, and only while it is there.
func TestTellDisks(t *testing.T) {
	folder := t.TempDir()
	b := &back{disks: []*disk{
		{kind: "store", folder: folder, files: []string{filepath.Join(folder, "seqd.db")}},
		{kind: "snapshots", folder: folder},
		{kind: "bizTypeFolder", folder: filepath.Join(folder, "gone")},
	}}
	told := func() []string {
		var uses []string
		for _, d := range b.disks {
			d.look()
		}
		b.tellDisks(func(kind string, files, free, size int64) {
			uses = append(uses, kind)
			if size <= 0 || free > size || (files == 4) != (kind == "store") {
				t.Errorf("%s: files %d, free %d, size %d", kind, files, free, size)
			}
		})
		return uses
	}
	must.Equal(t, strings.Join(told(), ", "), "snapshots") // there is no store yet
	must.Do(t, os.WriteFile(filepath.Join(folder, "seqd.db"), []byte("text"), 0o600))
	must.Equal(t, strings.Join(told(), ", "), "store, snapshots")
}

// What is watched is what the configuration uses.
func TestWatchedOfConfiguration(t *testing.T) {
	shown := config.ClientTLS{Enabled: true, CertFile: "a.crt"}
	cfg := &config.Config{BizTypeFolder: "records", Snapshots: config.Snapshots{Folder: "saved"}}
	cfg.Store.Driver = "postgres"
	cfg.Redis.TLS, cfg.Coordination.TLS = shown, config.ClientTLS{CertFile: "b.crt"}
	uses := func() (uses []string) {
		for _, d := range disksOf(cfg) {
			uses = append(uses, d.kind+" "+d.folder)
		}
		return uses
	}
	must.Equal(t, strings.Join(uses(), ", "), "bizTypeFolder records")
	cfg.Snapshots.Every = time.Hour
	must.Equal(t, strings.Join(uses(), ", "), "snapshots saved, bizTypeFolder records")
	if list := certificatesOf(cfg); len(list) != 1 || list[0].key != "redis.tls.certFile" {
		t.Errorf("%d certificates are watched", len(list))
	}
}

// A certificate is told of until another one is in its file; one that is half written changes nothing.
func TestTellCertificates(t *testing.T) {
	files := certificatetest.Files(t)
	b := &back{certificates: []*clientCertificate{{key: "redis.tls.certFile", path: files.CertFile}}}
	told := func() map[string]int64 {
		all := make(map[string]int64)
		b.certificates[0].look()
		b.tellCertificates(func(key string, until int64) { all[key] = until })
		return all
	}
	if all := told(); len(all) > 0 {
		t.Errorf("there is no file: %v", slices.Collect(maps.Keys(all)))
	}
	until := time.Now().Add(time.Hour)
	cert, key := certificatetest.Pair(t, "node", until)
	certificatetest.Put(t, files, cert, key)
	must.Equal(t, told()["redis.tls.certFile"], until.Unix())
	certificatetest.Put(t, files, cert[:40], key)
	must.Equal(t, told()["redis.tls.certFile"], until.Unix())
}
