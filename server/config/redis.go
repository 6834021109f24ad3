package config

import (
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/seqd/seqd/internal/literal"
)

// Redis is where nodes keep what they share at every request. Without addresses there is none.
type Redis struct {
	// Addrs are the servers, as host:port. None means no Redis, one a single server, several a
	// Redis Cluster. With `redis.masterName` they are the Sentinels.
	Addrs []string `config:"addrs" secret:"true"` // it may contain redis://user:password@host
	// MasterName is what the Sentinels call the primary. Empty means no Sentinels.
	MasterName string `config:"masterName"`
	// Username is the user of the servers. It needs a password.
	Username string `config:"username"`
	// Password is the password of the servers. It is never logged.
	Password string `config:"password" secret:"true"`
	// PasswordFile is a file with the password instead. Each new connection reads it.
	PasswordFile string `config:"passwordFile" applies:"contents"`
	// SentinelUsername is the user of the Sentinels.
	SentinelUsername string `config:"sentinelUsername"`
	// SentinelPassword is the password of the Sentinels. It is never logged.
	SentinelPassword string `config:"sentinelPassword" secret:"true"`
	// SentinelPasswordFile is a file with that password instead. It is read at the start.
	SentinelPasswordFile string `config:"sentinelPasswordFile"`
	// DB is the number of the database. A Redis Cluster has only 0.
	DB  int       `config:"db" range:"0 to 15" zero:"the default database"`
	TLS ClientTLS `config:"tls"`
	// KeyPrefix is the beginning of every key: printable ASCII without spaces and braces.
	KeyPrefix string `config:"keyPrefix" range:"0 to 64 bytes"`
	// Timeout is the bound of every command.
	Timeout time.Duration `config:"timeout" range:"50ms to 5s"`
}

// ClientTLS is how connections to servers are encrypted, Sentinels included. The files are PEM and
// are read for each connection.
type ClientTLS struct {
	// Enabled is true if connections are encrypted.
	Enabled bool `config:"enabled"`
	// CAFile is the PEM file with the certificates that sign the servers'. Empty means those of the
	// system.
	CAFile string `config:"caFile" applies:"contents"`
	// CertFile is the PEM file with the client's certificate. Empty means none. It is read again
	// when it changes.
	CertFile string `config:"certFile" applies:"contents"`
	// KeyFile is the PEM file with the key of the client's certificate.
	KeyFile string `config:"keyFile" applies:"contents"`
	// ServerName is the name that the servers' certificates must be for. Empty means the host of
	// each address.
	ServerName string `config:"serverName"`
}

// Configured reports whether there is a Redis.
func (r *Redis) Configured() bool { return len(r.Addrs) > 0 }

// Cluster reports whether the addresses are those of a Redis Cluster.
func (r *Redis) Cluster() bool { return len(r.Addrs) > 1 && r.MasterName == "" }

// Changes is the channel on which nodes of a cluster announce changes.
func (r *Redis) Changes(cluster string) string { return r.KeyPrefix + "changes:" + cluster }

const (
	mostRedisDB   = 15
	mostKeyPrefix = 64
)

func (r *Redis) validate(p *problems) {
	p.addresses("redis.addrs", r.Addrs, "redis.example:6379; user and password are keys of their own")
	r.validateUsers(p)
	p.check(r.DB >= 0 && r.DB <= mostRedisDB, "redis.db", "%d is outside 0 to %d", r.DB, mostRedisDB)
	p.check(r.DB == 0 || !r.Cluster(), "redis.db", "%d: several addresses without redis.masterName are a Redis Cluster, which has only database 0", r.DB)
	r.TLS.validate(p, "redis.tls")
	p.check(isKeyPrefix(r.KeyPrefix), "redis.keyPrefix", "%.80q is not printable ASCII without spaces and braces, of at most %d bytes", r.KeyPrefix, mostKeyPrefix)
	p.duration("redis.timeout", r.Timeout, 50*time.Millisecond, 5*time.Second)
}

// validateUsers checks what is said about access. A setting that would do nothing is a mistake.
func (r *Redis) validateUsers(p *problems) {
	needs := func(key string, set, met bool, why string) { p.check(!set || met, key, "it is set, but %s", why) }
	const noServer, noSentinel = "redis.addrs names no server", "there are no Sentinels without redis.masterName"
	needs("redis.masterName", r.MasterName != "", r.Configured(), noServer)
	needs("redis.username", r.Username != "", r.Configured(), noServer)
	needs("redis.password", r.Password != "", r.Configured(), noServer)
	needs("redis.tls.enabled", r.TLS.Enabled, r.Configured(), noServer)
	needs("redis.sentinelUsername", r.SentinelUsername != "", r.MasterName != "", noSentinel)
	needs("redis.sentinelPassword", r.SentinelPassword != "", r.MasterName != "", noSentinel)
	p.check(r.Username == "" || r.Password+r.PasswordFile != "", "redis.username", "it is set without redis.password, and would not be used")
	p.check(r.SentinelUsername == "" || r.SentinelPassword+r.SentinelPasswordFile != "", "redis.sentinelUsername", "it is set without redis.sentinelPassword, and would not be used")
}

// addresses checks the addresses of servers. example is how one looks.
func (p *problems) addresses(key string, addrs []string, example string) {
	seen := make(map[string]int, len(addrs))
	for i, addr := range addrs {
		one := fmt.Sprintf("%s[%d]", key, i)
		p.check(isHostPort(addr), one, "it is not host:port with a port from 1 to 65535, such as %s", example)
		first, twice := seen[strings.ToLower(addr)]
		p.check(!twice, one, "it is the same as %s[%d]", key, first)
		seen[strings.ToLower(addr)] = i
	}
}

func (t *ClientTLS) validate(p *problems, section string) {
	for _, setting := range []struct{ key, value string }{
		{".caFile", t.CAFile}, {".certFile", t.CertFile}, {".keyFile", t.KeyFile}, {".serverName", t.ServerName},
	} {
		p.check(setting.value == "" || t.Enabled, section+setting.key, "it is set, but %s.enabled is false", section)
	}
	p.check(t.CertFile == "" || t.KeyFile != "", section+".keyFile", "it is empty, and %s.certFile needs it", section)
	p.check(t.KeyFile == "" || t.CertFile != "", section+".certFile", "it is empty, and %s.keyFile needs it", section)
}

// isHostPort reports whether addr names a host and a port to connect to.
func isHostPort(addr string) bool {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host == "" || strings.ContainsAny(host, "/@ \t\r\n") {
		return false
	}
	n, ok := literal.Port(port)
	return ok && n > 0
}

// isKeyPrefix reports whether keys may begin with prefix. In a Redis Cluster braces mark the part
// of a key that decides its slot: seqd sets them itself.
func isKeyPrefix(prefix string) bool {
	outside := func(r rune) bool { return r <= ' ' || r > '~' || r == '{' || r == '}' }
	return len(prefix) <= mostKeyPrefix && !strings.ContainsFunc(prefix, outside)
}
