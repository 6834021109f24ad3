package config_test

import (
	"fmt"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/config"
)

func TestWrongCoordination(t *testing.T) {
	const shared = "store: {driver: postgres, postgres: {url: postgres://u@x/y}}\n"
	for yaml, want := range map[string]string{
		`driver: etcd`:                               "coordination.driver: \"etcd\" is not one of",
		`driver: consul`:                             "coordination.addrs: it is empty, and coordination.driver consul needs it",
		`addrs: [a:1]`:                               "coordination.addrs: it is set, but coordination.driver is store",
		`token: x`:                                   "coordination.token: it is set, but coordination.driver is store",
		`tls: {enabled: true}`:                       "coordination.tls.enabled: it is set, but coordination.driver is store",
		`driver: consul, addrs: [a, b:1]`:            "coordination.addrs[0]: it is not host:port",
		`driver: consul, addrs: [b:1, B:1]`:          "coordination.addrs[1]: it is the same as coordination.addrs[0]",
		`driver: zookeeper, addrs: [b:1], token: x`:  "coordination.token: it is not user:password",
		`driver: consul, addrs: [b:1], token: "x\n"`: "coordination.token: it has a line break or another character that cannot be shown",
		`prefix: /a`:                                 "coordination.prefix: ",
		`prefix: a//b`:                               "coordination.prefix: ",
		`prefix: ".."`:                               "coordination.prefix: ",
		`timeout: 2s`:                                "coordination.timeout: ",
		`driver: consul, addrs: [b:1], tls: {enabled: true, certFile: x}`: "coordination.tls.keyFile: it is empty, and coordination.tls.certFile needs it",
	} {
		_, err := config.LoadYAML([]byte(someBizType+shared+"coordination: {"+yaml+"}\n"), config.Sources{})
		wantError(t, err, want)
	}
	_, err := config.LoadYAML([]byte(someBizType+"coordination: {driver: consul, addrs: [a:1]}\n"), config.Sources{})
	wantError(t, err, "coordination.driver: consul coordinates nodes, and this store is that of one node")
	c := mustLoad(t, someBizType+shared+"coordination: {driver: zookeeper, addrs: [a:1, b:1], token: 'u:p', prefix: a/b}\n", config.Sources{})
	must.Equal(t, c.Coordination.Apart(), true)

	const inCoordinator = "bizTypes: [{name: user, strategy: snowflake, registry: coordinator}]\n"
	mustLoad(t, inCoordinator+shared+"coordination: {driver: zookeeper, addrs: [a:1]}\n", config.Sources{})
	_, err = config.LoadYAML([]byte(inCoordinator+shared), config.Sources{})
	wantError(t, err, "bizTypes[0].registry: coordinator needs coordination.driver to be consul or zookeeper, and it is store")
	_, problems := mustLoad(t, someBizType+shared, config.Sources{}).DecodeDefinition("user", []byte(`{"strategy":"snowflake","registry":"coordinator"}`))
	must.Equal(t, fmt.Sprint(problems), "[{registry coordinator needs coordination.driver to be consul or zookeeper, and it is store}]")
}
