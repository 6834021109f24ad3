package config_test

import (
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/config"
)

func TestWrongRedis(t *testing.T) {
	const sentinels = "addrs: [a:1], masterName: m"
	for yaml, want := range map[string]string{
		`addrs: [a]`:                                      "redis.addrs[0]: it is not host:port",
		`addrs: ["a:1", "b:"]`:                            "redis.addrs[1]: it is not host:port",
		`addrs: ["a:0"]`:                                  "redis.addrs[0]: it is not host:port",
		`addrs: ["a:65536"]`:                              "redis.addrs[0]: it is not host:port",
		`addrs: ["a:redis"]`:                              "redis.addrs[0]: it is not host:port",
		`addrs: [":6379"]`:                                "redis.addrs[0]: it is not host:port",
		`addrs: ["::1:6379"]`:                             "redis.addrs[0]: it is not host:port",
		`addrs: [""]`:                                     "redis.addrs[0]: it is not host:port",
		`addrs: ["a b:1"]`:                                "redis.addrs[0]: it is not host:port",
		`addrs: ["a:1", "b:1", "A:1"]`:                    "redis.addrs[2]: it is the same as redis.addrs[0]",
		`addrs: ["a:1", "b:1"], db: 1`:                    "redis.db: 1: several addresses without redis.masterName are a Redis Cluster",
		`masterName: m`:                                   "redis.masterName: it is set, but redis.addrs names no server",
		`password: p`:                                     "redis.password: it is set, but redis.addrs names no server",
		`username: u, password: p`:                        "redis.username: it is set, but redis.addrs names no server",
		`tls: {enabled: true}`:                            "redis.tls.enabled: it is set, but redis.addrs names no server",
		`addrs: [a:1], username: u`:                       "redis.username: it is set without redis.password",
		`addrs: [a:1], sentinelPassword: p`:               "redis.sentinelPassword: it is set, but there are no Sentinels",
		sentinels + `, sentinelUsername: u`:               "redis.sentinelUsername: it is set without redis.sentinelPassword",
		`addrs: [a:1], tls: {caFile: x}`:                  "redis.tls.caFile: it is set, but redis.tls.enabled is false",
		`addrs: [a:1], tls: {keyFile: x}`:                 "redis.tls.keyFile: it is set, but redis.tls.enabled is false",
		`addrs: [a:1], tls: {serverName: x}`:              "redis.tls.serverName: it is set, but redis.tls.enabled is false",
		`addrs: [a:1], tls: {enabled: true, certFile: x}`: "redis.tls.keyFile: it is empty, and redis.tls.certFile needs it",
		`addrs: [a:1], tls: {enabled: true, keyFile: x}`:  "redis.tls.certFile: it is empty, and redis.tls.keyFile needs it",
		`addrs: [a:1], tls: {enabled: maybe}`:             "redis.tls.enabled: \"maybe\" is not true or false",
		`keyPrefix: "a b"`:                                "redis.keyPrefix: ",
		`keyPrefix: "{a}"`:                                "redis.keyPrefix: ",
		`keyPrefix: "ä"`:                                  "redis.keyPrefix: ",
		`keyPrefix: "a\n"`:                                "redis.keyPrefix: ",
		`keyPrefix: "a\x7f"`:                              "redis.keyPrefix: ",
		`keyPrefix: ` + strings.Repeat("a", 65):           "redis.keyPrefix: ",
		`addrs: a:1`:                                      "redis.addrs: its value, which is not shown, is not a list of text",
		`tls: true`:                                       "redis.tls: it is a section",
	} {
		t.Run(yaml, func(t *testing.T) {
			_, err := config.LoadYAML([]byte(someBizType+"redis: {"+yaml+"}\n"), config.Sources{})
			wantError(t, err, want)
		})
	}
}

func TestGoodRedis(t *testing.T) {
	for _, yaml := range []string{
		``, `addrs: []`, `addrs: ["[::1]:6379"]`, `addrs: [a:1, a:2, b:1]`, `addrs: [a:1, b:1], masterName: m, db: 15`,
		`addrs: [a:1], masterName: m, username: u, password: p, sentinelUsername: u, sentinelPassword: p`,
		`addrs: [a:1], tls: {enabled: true}`, `addrs: [a:1], tls: {enabled: true, caFile: x, certFile: x, keyFile: x, serverName: x}`,
	} {
		c := mustLoad(t, someBizType+"redis: {"+yaml+"}\n", config.Sources{})
		must.Equal(t, c.Redis.Cluster(), strings.Contains(yaml, "a:2"), "%s: a Redis Cluster", yaml)
		if got, want := c.Redis.Configured(), strings.Contains(yaml, ":1") || strings.Contains(yaml, ":6379"); got != want {
			t.Errorf("%s: configured: %v", yaml, got)
		}
	}
}

// Whatever is wrong, what may hold a password is not shown.
func TestPasswordsAreNotShown(t *testing.T) {
	for _, yaml := range []string{
		`redis: {password: 4711}`, `redis: {password: [4711]}`, `redis: {password: "4711"}`, `redis: {addrs: [a:1], sentinelPassword: 4711}`,
		`redis: {addrs: ["redis://u:4711@a:1"]}`, `redis: {addrs: ["u:4711@a:1"]}`, `redis: {addrs: "redis://u:4711@a:1"}`, `redis: {addrs: [4711]}`,
		`redis: {addrs: ["u:4711@a:1", "u:4711@a:1"]}`, `store: {mongo: {uri: ["mongodb://u:4711@a"]}}`, `store: {mongo: {uri: 4711}}`,
	} {
		_, err := config.LoadYAML([]byte(someBizType+yaml+"\n"), config.Sources{})
		wantError(t, err)
		if strings.Contains(err.Error(), "4711") {
			t.Errorf("%s: the error shows the password: %v", yaml, err)
		}
	}
}

// A command to a Redis that does not answer is waited for twice, which writeTimeout must leave time
// for.
func TestWaitForRedisFitsIntoTheAnswer(t *testing.T) {
	const timeouts = "server: {writeTimeout: 7s}\nsegment: {acquireTimeout: 2s}\n" + someBizType
	mustLoad(t, timeouts, config.Sources{Flags: map[string]string{"redis.timeout": "5s"}})
	mustLoad(t, timeouts, config.Sources{Flags: map[string]string{"redis.addrs": "a:1", "redis.timeout": "1s"}})
	_, err := config.LoadYAML([]byte(timeouts), config.Sources{Flags: map[string]string{"redis.addrs": "a:1", "redis.timeout": "1001ms"}})
	wantError(t, err, "server.writeTimeout: 7s is too short", "5.002s")
}
