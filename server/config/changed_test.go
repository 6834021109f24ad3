package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/config"
)

const (
	shopToken = `[{"name":"shop","sha256":"0000000000000000000000000000000000000000000000000000000000000001","scopes":["issue:*"]}]`
	tillToken = `[{"name":"till","sha256":"0000000000000000000000000000000000000000000000000000000000000002","scopes":["admin"]}]`
)

// from loads a configuration from variables and flags.
func from(t *testing.T, flags map[string]string, env ...string) *config.Config {
	t.Helper()
	env = append([]string{`SEQD_BIZTYPES=[{"name":"user"}]`}, env...)
	return must.Get(config.Load(config.Sources{Flags: flags, Env: env}))(t)
}

func TestReread(t *testing.T) {
	dir := t.TempDir()
	password, url := filepath.Join(dir, "password"), filepath.Join(dir, "url")
	files := map[string]string{"redis.addrs": "r:1", "redis.passwordFile": password, "store.driver": "postgres", "store.postgres.urlFile": url}
	written := func(pass, text string) *config.Config {
		must.Do(t, os.WriteFile(password, []byte(pass), 0o600))
		must.Do(t, os.WriteFile(url, []byte(text), 0o600))
		return from(t, files)
	}
	plain, asked := from(t, nil), from(t, nil, "SEQD_AUTH_TOKENS="+shopToken)
	secret := written("a", "postgres://u:a@db/seqd")
	for name, tt := range map[string]struct {
		started, read    *config.Config
		applied, restart string
	}{
		"nothing":            {plain, from(t, nil), "", ""},
		"both":               {plain, from(t, map[string]string{"log.level": "debug", "server.maxCount": "7", "server.addr": "localhost:1"}), "server.maxCount log.level", "server.addr"},
		"hosts":              {plain, from(t, map[string]string{"server.hosts": "a", "idempotency.maxBytes": "0"}), "server.hosts idempotency.maxBytes", ""},
		"biz types":          {plain, from(t, nil, `SEQD_BIZTYPES=[{"name":"order"}]`), "", "bizTypes"},
		"a section":          {plain, from(t, map[string]string{"segment.step": "7"}), "", "segment.step"},
		"handlers":           {plain, from(t, nil, `SEQD_SEGMENT_REJECTED=[]`), "", ""},
		"other handlers":     {plain, from(t, nil, `SEQD_GAPLESS_REJECTED=[{"name":"webhook","url":"https://h/"}]`), "", "gapless.rejected"},
		"tokens":             {asked, from(t, nil, "SEQD_AUTH_TOKENS="+tillToken), "auth.tokens", ""},
		"no tokens":          {asked, plain, "auth.tokens", "auth.tokens"},
		"first tokens":       {plain, asked, "", "auth.tokens"},
		"nobody is asked":    {asked, from(t, map[string]string{"auth.mode": "none"}), "auth.tokens", "auth.mode"},
		"password of a file": {secret, written("b", "postgres://u:a@db/seqd"), "redis.passwordFile", ""},
		"login of a file":    {secret, written("a", "postgres://v:b@db/seqd"), "store.postgres.urlFile", ""},
		"server of a file":   {secret, written("a", "postgres://u:a@other/seqd"), "", "store.postgres.urlFile"},
		"another file":       {secret, from(t, map[string]string{"redis.addrs": "r:1", "redis.password": "a", "store.driver": "postgres", "store.postgres.urlFile": url}), "", "store.postgres.urlFile redis.passwordFile"},
	} {
		before, _ := tt.started.Version()
		change := tt.started.Reread(tt.started, tt.read)
		must.Equal(t, strings.Join(change.Applied, " "), tt.applied, "%s: applied", name)
		must.Equal(t, strings.Join(change.Restart, " "), tt.restart, "%s: needs a restart", name)
		if after, _ := tt.started.Version(); after != before {
			t.Errorf("%s: the configuration of the start has changed", name)
		}
		again := tt.started.Reread(tt.read, tt.read)
		must.Equal(t, len(again.Applied), 0, "%s: applied by a second reload", name)
		must.Equal(t, slices.Equal(again.Restart, change.Restart), true, "%s: needs a restart still: %q", name, again.Restart)
	}
	change := plain.Reread(plain, from(t, map[string]string{"server.maxCount": "7", "server.stopTimeout": "7s"}))
	must.Equal(t, change.Now.Server.MaxCount, 7, "the largest count")
	must.Equal(t, change.Now.Server.StopTimeout, plain.Server.StopTimeout, "the time of a stop")
}

// What is read at the start only needs a restart.
func TestRereadAtTheStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	for key, flags := range map[string]map[string]string{
		"redis.sentinelPasswordFile": {"redis.addrs": "r:1", "redis.masterName": "m"},
		"store.mongo.uriFile":        {"store.driver": "mongo"},
		"coordination.tokenFile":     {"coordination.driver": "zookeeper", "coordination.addrs": "z:1", "store.driver": "mongo"},
	} {
		flags[key] = path
		var loaded []*config.Config
		for _, user := range []string{"a", "b"} {
			secret := user + ":x"
			if key == "store.mongo.uriFile" {
				secret = "mongodb://" + user + ":x@db/"
			}
			must.Do(t, os.WriteFile(path, []byte(secret), 0o600))
			loaded = append(loaded, from(t, flags))
		}
		change := loaded[0].Reread(loaded[0], loaded[1])
		must.Equal(t, strings.Join(change.Restart, " "), key, "needs a restart")
		must.Equal(t, len(change.Applied), 0, "applied")
	}
}

// The version of a configuration tells nothing of its secrets, and what nodes need alike has one of its own.
func TestVersion(t *testing.T) {
	versions := func(flags map[string]string, env ...string) [2]string {
		all, alike := from(t, flags, env...).Version()
		return [2]string{all, alike}
	}
	plain := versions(nil)
	must.Equal(t, len(plain[0]), 12, "digits")
	for name, tt := range map[string]struct {
		versions   [2]string
		all, alike bool // whether they are the same
	}{
		"the same":  {versions(nil), true, true},
		"a limit":   {versions(map[string]string{"server.maxCount": "7"}), false, true},
		"jobs":      {versions(map[string]string{"jobs.most": "7"}), false, false},
		"biz types": {versions(nil, `SEQD_BIZTYPES=[{"name":"order"}]`), false, true},
		"handlers":  {versions(nil, `SEQD_GAPLESS_REJECTED=[{"name":"webhook","url":"https://h/"}]`), false, true},
		"secrets":   {versions(map[string]string{"store.mongo.uri": "mongodb://a:b@c/"}), true, true},
	} {
		must.Equal(t, tt.versions[0] == plain[0], tt.all, "%s: the version is the same", name)
		must.Equal(t, tt.versions[1] == plain[1], tt.alike, "%s: the version of what nodes need alike is the same", name)
	}
	a, b := versions(nil, "SEQD_AUTH_TOKENS="+shopToken), versions(nil, "SEQD_AUTH_TOKENS="+strings.ReplaceAll(shopToken, "1", "3"))
	must.Equal(t, a, b, "the version with another secret of a token")
	if c := versions(nil, "SEQD_AUTH_TOKENS="+tillToken); a[0] == c[0] {
		t.Error("another token has the same version")
	}
}
