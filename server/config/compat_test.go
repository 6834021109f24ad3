package config_test

import (
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/config"
)

var withToken = "auth: {tokens: [{name: shop, sha256: \"" + digestOfA + "\", scopes: [\"issue:*\"]}]}\n"

func TestCompat(t *testing.T) {
	c := mustLoad(t, someBizType, config.Sources{})
	must.Equal(t, c.Compat, (config.Compat{CosID: "off", MaxBizTypes: 1000}), "the default")
	const all = `compat: {leaf: true, leafSnowflake: user, tinyid: true, cosid: create, token: shop}
bizTypes: [{name: order}, {name: user, strategy: snowflake}]
`
	want := config.Compat{Leaf: true, LeafSnowflake: "user", Tinyid: true, CosID: "create", MaxBizTypes: 1000, Token: "shop"}
	must.Equal(t, mustLoad(t, withToken+all, config.Sources{}).Compat, want)
	for name, good := range map[string]string{
		"Tinyid's clients send tokens":  withToken + "compat: {tinyid: true}\n" + someBizType,
		"a token of the store":          withToken + "compat: {leaf: true, token: later}\n" + someBizType,
		"a biz type of the store":       "compat: {leaf: true, leafSnowflake: later}\n" + someBizType,
		"no tokens, and one is named":   "compat: {cosid: use, token: later}\n" + someBizType,
		"use, if nothing is changed":    "compat: {cosid: use}\nbizTypesFrom: config\n" + someBizType,
		"no tokens, and none is needed": "compat: {leaf: true, cosid: create}\n" + someBizType,
	} {
		t.Run(name, func(t *testing.T) { mustLoad(t, good, config.Sources{}) })
	}
}

func TestWrongCompat(t *testing.T) {
	const snowflakes = "bizTypes: [{name: order}, {name: user, strategy: snowflake}]\n"
	for text, want := range map[string]string{
		"compat: {cosid: on}\n" + someBizType:                                         `compat.cosid: "on" is not one of ["off" "use" "create"]`,
		"compat: {cosid: true}\n" + someBizType:                                       "compat.cosid",
		"compat: {maxBizTypes: 0}\n" + someBizType:                                    "compat.maxBizTypes: 0 is outside 1 to 10000",
		"compat: {leaf: 1}\n" + someBizType:                                           "compat.leaf",
		"compat: {zookeeper: x}\n" + someBizType:                                      "compat.zookeeper",
		"compat: {cosid: create}\nbizTypesFrom: config\n" + someBizType:               "compat.cosid: create needs bizTypesFrom: store",
		withToken + "compat: {leaf: true}\n" + someBizType:                            "compat.token: it is empty",
		withToken + "compat: {cosid: use}\n" + someBizType:                            "compat.token: it is empty",
		"auth: {mode: token}\ncompat: {cosid: use}\n" + someBizType:                   "compat.token: it is empty",
		"compat: {leafSnowflake: user}\n" + snowflakes:                                "compat.leafSnowflake: it needs compat.leaf: true",
		"compat: {leaf: true, leafSnowflake: order}\n" + snowflakes:                   "compat.leafSnowflake: the biz type order has the strategy segment, not snowflake",
		"compat: {leaf: true, leafSnowflake: 'a b'}\n" + snowflakes:                   `compat.leafSnowflake: the biz type "a b" has a character`,
		"compat: {leaf: true, leafSnowflake: x}\nbizTypesFrom: config\n" + snowflakes: "compat.leafSnowflake: there is no biz type x in bizTypes",
	} {
		_, err := config.LoadYAML([]byte(text), config.Sources{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", text, err, want)
		}
	}
	// a secret in the wrong place is not repeated
	_, err := config.LoadYAML([]byte("compat: {token: '/secret/'}\n"+someBizType), config.Sources{})
	if err == nil || !strings.Contains(err.Error(), "compat.token") || strings.Contains(err.Error(), "secret/") {
		t.Errorf("a secret as the name of a token: %v", err)
	}
}
