package config_test

import (
	"strings"
	"testing"

	"github.com/seqd/seqd/server/config"
)

// A connection string that would weaken what uniqueness rests on is refused, and no message shows a
// password.
func TestWrongMongoURIs(t *testing.T) {
	for uri, want := range map[string]string{
		"mongodb://u:secret@a:1/?w=1":                      "w or journal",
		"mongodb://u:secret@a:1/?w=0":                      "w or journal",
		"mongodb://u:secret@a:1/?journal=false":            "w or journal",
		"mongodb://u:secret@a:1/?w=majority&journal=false": "w or journal",
		"mongodb://u:secret@a:1/?readPreference=secondary": "readPreference",
		"mongodb://u:secret@a:1/?readPreference=nearest":   "readPreference",
		"http://u:secret@a:1":                              "connection string",
		"mongodb://u:secret@a:99999":                       "",
		"mongodb://u:secret@a:1/?tls=maybe":                "",
		"mongodb://u:sec%zzret@a:1":                        "",
		"mongodb://user:secret":                            "connection string",
		"mongodb://user:secret/db":                         "connection string",
		"mongodb+srv://u:secret@cluster.invalid/?w=1":      "w or journal",
		"mongodb://u:secret@/":                             "",
		"u:secret@a:1":                                     "connection string",
		"":                                                 "connection string",
	} {
		t.Run(uri, func(t *testing.T) {
			_, err := config.LoadYAML([]byte(someBizType), config.Sources{Flags: map[string]string{"store.mongo.uri": uri}})
			wantError(t, err, "store.mongo.uri: ", want)
			if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "ret@") {
				t.Errorf("the error shows the password: %v", err)
			}
		})
	}
}

// The name service is not asked while the configuration is checked.
func TestMongoSRV(t *testing.T) {
	mustLoad(t, someBizType, config.Sources{Flags: map[string]string{"store.mongo.uri": "mongodb+srv://u:secret@cluster.invalid/?tls=true"}})
}

func TestWrongMongoSettings(t *testing.T) {
	for key, values := range map[string][]string{
		"store.mongo.database": {`""`, "a.b", "a/b", `"a b"`, "a$b", strings.Repeat("a", 64)},
		"store.mongo.timeout":  {"99ms", "10001ms"},
	} {
		for _, value := range values {
			_, err := config.LoadYAML([]byte(someBizType+nested(key, value)), config.Sources{})
			wantError(t, err, key+": ")
		}
	}
}

// Strict order over nodes comes from Redis or from the store itself, and is never silently less.
func TestStrictOnMongo(t *testing.T) {
	const mongo = "store: {driver: mongo}\n"
	withRedis := config.Sources{Flags: map[string]string{"redis.addrs": "x:1"}}
	for _, sequencer := range []string{"auto", "store"} {
		text := mongo + "segment: {sequencer: " + sequencer + "}\n" + someBizType
		mustLoad(t, text, config.Sources{})
		mustLoad(t, text, withRedis)
	}
	_, err := config.LoadYAML([]byte(mongo+"segment: {sequencer: redis}\n"+someBizType), config.Sources{})
	wantError(t, err, "bizTypes[0].sequencer: ", "redis.addrs", "store")
	_, err = config.LoadYAML([]byte(mongo+"bizTypes: [{name: a}, {name: b, sequencer: redis}]\n"), config.Sources{})
	wantError(t, err, "bizTypes[1].sequencer: ")
	mustLoad(t, mongo+"segment: {sequencer: redis}\n"+someBizType, withRedis)
	mustLoad(t, mongo+"segment: {sequencer: redis, ordering: per-node}\n"+someBizType, config.Sources{})
	_, err = config.LoadYAML([]byte(mongo+"segment: {sequencer: etcd}\n"+someBizType), config.Sources{})
	wantError(t, err, "segment.sequencer: ", "etcd")
}

// A request may wait for two takes from the store before it waits for numbers.
func TestWaitForTheStore(t *testing.T) {
	const text = "store: {driver: mongo, mongo: {timeout: 3s}}\nserver: {writeTimeout: 9s}\nsegment: {acquireTimeout: 3s}\n" + someBizType
	_, err := config.LoadYAML([]byte(text), config.Sources{})
	wantError(t, err, "server.writeTimeout: ")
	mustLoad(t, text, config.Sources{Flags: map[string]string{"redis.addrs": "x:1"}})
	mustLoad(t, text, config.Sources{Flags: map[string]string{"segment.ordering": "per-node"}})
	mustLoad(t, text, config.Sources{Flags: map[string]string{"server.writeTimeout": "12s"}})
}
