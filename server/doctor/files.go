package doctor

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/config"
)

// filesCheck looks at the files and folders that the configuration names.
type filesCheck struct{ d *Doctor }

// run checks the files of biz types and those of redis.tls.
func (c filesCheck) run(_ context.Context, f *findings) {
	c.bizTypeFiles(f, c.d.Config.BizTypes)
	c.redisFiles(f)
}

func (c filesCheck) bizTypeFiles(f *findings, bizTypes []seqd.BizType) {
	seen := make(map[string]bool)
	once := func(path string, look func()) {
		if !seen[path] {
			seen[path] = true
			look()
		}
	}
	for _, b := range bizTypes {
		offline, _ := config.Setting[int64](b.Settings, "offlineStart") // a duration
		if dir, _ := config.Setting[string](b.Settings, "stateDir"); dir != "" && offline > 0 {
			once(dir, func() { c.folder(f, b.Name+".stateDir", dir) })
		}
		for _, p := range b.Plugins {
			c.pluginFiles(f, b, p, once)
		}
	}
}

func (c filesCheck) pluginFiles(f *findings, b seqd.BizType, p seqd.PluginBinding, once func(string, func())) {
	key := b.Name + "." + p.Name
	if file, _ := config.Setting[string](p.Settings, "keyFile"); file != "" {
		once(file, func() { c.keyFile(f, key+".keyFile", file) })
	}
	to, _ := config.Setting[string](p.Settings, "to")
	if file, _ := config.Setting[string](p.Settings, "file.path"); to == "file" && file != "" {
		once(file, func() { c.historyFile(f, key+".file.path", file) })
	}
}

// keyFile checks a file with a secret, which seqd creates if it does not exist.
func (c filesCheck) keyFile(f *findings, key, path string) {
	file, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.folder(f, key, filepath.Dir(path))
		f.add(Warn, key, "where other nodes have it, or numbers were issued with it, put it there first", "there is no %s: seqd makes one, with a new key", path)
	case err != nil:
		f.add(Fail, key, "give it to the user that seqd runs as", "%v", err)
	default:
		_ = file.Close()
		c.secret(f, key, path, nobodyElse, Fail)
	}
}

// The users who must not read a secret, as bits of a file's mode.
const (
	nobodyElse = 0o077 // seqd refuses such a file
	noStranger = 0o007 // a group may be meant to
)

// secret reports a secret that others can read, at the given level.
func (c filesCheck) secret(f *findings, key, path string, others fs.FileMode, level Level) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		f.add(Fail, key, "", "%v", err)
	case info.Mode().Perm()&others != 0 && runtime.GOOS != "windows": // where a mode says nothing
		f.add(level, key, "chmod 600 "+path, "%s can be used by others than its owner (mode %#o)", path, info.Mode().Perm())
	default:
		f.ok(key, "%s can be read, and not by others", path)
	}
}

// written checks a file that seqd creates and writes.
func (c filesCheck) written(f *findings, key, path string) {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.folder(f, key, filepath.Dir(path))
	case err != nil:
		f.add(Fail, key, "give it to the user that seqd runs as", "%v", err)
	default:
		_ = file.Close()
		f.ok(key, "%s can be written", path)
	}
}

// historyFile checks a file of records. Its lock and the previous files are beside it, so the
// folder matters even if the file exists.
func (c filesCheck) historyFile(f *findings, key, path string) {
	c.folder(f, key, filepath.Dir(path))
	for _, file := range []string{path, path + ".lock"} {
		switch _, err := os.Stat(file); {
		case !errors.Is(err, fs.ErrNotExist):
			c.written(f, key, file)
		case file == path:
			f.add(Info, key, "if records were kept there before, put the file back before seqd starts", "there is no %s: seqd creates it, without previous records", path)
		}
	}
}

// folder checks a folder that seqd creates files in. seqd creates the folder too.
func (c filesCheck) folder(f *findings, key, path string) {
	there := path
	for {
		info, err := os.Stat(there)
		switch {
		case errors.Is(err, fs.ErrNotExist) && filepath.Dir(there) != there:
			there = filepath.Dir(there)
			continue
		case err != nil:
			f.add(Fail, key, "", "%v", err)
		case !info.IsDir():
			f.add(Fail, key, "", "%s is not a folder", there)
		case !c.d.Host.Writable(there):
			f.add(Fail, key, "give it to the user that seqd runs as", "the folder %s cannot be written by this user", there)
		case there != path:
			f.add(Info, key, "", "there is no folder %s; seqd makes it", path)
		default:
			f.ok(key, "the folder %s can be written", path)
		}
		return
	}
}

// redisFiles checks the files of redis.tls.
func (c filesCheck) redisFiles(f *findings) {
	files := c.d.Config.Redis.TLS
	if files.CertFile != "" {
		c.pair(f, "redis.tls", files.CertFile, files.KeyFile)
	}
	if files.CAFile != "" {
		if _, err := os.ReadFile(files.CAFile); err != nil {
			f.add(Fail, "redis.tls.caFile", "", "%v", err)
		}
	}
}

// pair checks a certificate and its key.
func (c filesCheck) pair(f *findings, key, certFile, keyFile string) {
	cert, err := os.ReadFile(certFile)
	if err != nil {
		f.add(Fail, key+".certFile", "", "%v", err)
		return
	}
	private, err := os.ReadFile(keyFile)
	if err != nil {
		f.add(Fail, key+".keyFile", "", "%v", err)
		return
	}
	c.secret(f, key+".keyFile", keyFile, noStranger, Warn)
	pair, err := tls.X509KeyPair(bytes.TrimSpace(cert), private)
	if err != nil {
		f.add(Fail, key, "", "%s and %s do not make a pair: %v", certFile, keyFile, err)
		return
	}
	c.expiry(f, key+".certFile", pair.Leaf)
}

func (c filesCheck) expiry(f *findings, key string, leaf *x509.Certificate) {
	now, until := c.d.Now(), leaf.NotAfter.UTC().Format(time.RFC3339)
	switch left := leaf.NotAfter.Sub(now); {
	case left <= 0:
		f.add(Fail, key, "get a new one", "the certificate expired at %s", until)
	case now.Before(leaf.NotBefore):
		f.add(Fail, key, "look at the clock", "the certificate is valid from %s on only", leaf.NotBefore.UTC().Format(time.RFC3339))
	case left <= soon:
		f.add(Warn, key, "get a new one", "the certificate expires at %s, in %s", until, days(left))
	default:
		f.ok(key, "the certificate is valid until %s", until)
	}
}
