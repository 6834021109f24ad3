// Package redissim tests that internal/testing/sim/redissim answers as a real Redis server does.
package redissim

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/sim/redissim"
)

var (
	seed  = flag.Uint64("redissim.seed", 0, "compare with this `seed` only")
	seeds = flag.Uint64("redissim.seeds", longtest.Or[uint64](8, 60), "how many `seeds` to compare with")
)

const (
	steps = 400
	// Claims of a refill last a minute. A seed that took longer than half of that says nothing.
	quick = 30 * time.Second
)

// connect returns a client that sends each command once. A nil server is a real one.
func connect(t *testing.T, addr string, s *redissim.Server) *redis.Client {
	opts := &redis.Options{
		Addr: addr, Protocol: 2, MaxRetries: -1, ReadTimeout: time.Hour, WriteTimeout: time.Hour, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if s != nil {
		opts.Dialer = func(context.Context, string, string) (net.Conn, error) {
			mine, its := net.Pipe()
			go s.Serve(its)
			return mine, nil
		}
	}
	client := redis.NewClient(opts)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// TestReplies sends random commands and runs of the product's scripts, some on damaged hashes, to a
// real server and to a simulated one.
func TestReplies(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	real := connect(t, server.Addr(), nil)
	for n := range *seeds {
		if *seed != 0 {
			n = *seed - 1
		}
		d := redissim.New(redissim.Options{Servers: 2})
		t.Cleanup(d.Close)
		d.Server(1).Kill()
		p := &pair{
			T: t, Rand: rand.New(rand.NewPCG(n+1, 0)), servers: [2]*redis.Client{real, connect(t, "192.0.2.1:6379", d.Server(0))}, simulated: d.Server(0),
			nobody: d.Server(1), scripts: readScripts(t),
		}
		begun := time.Now()
		difference := p.run()
		switch {
		case difference == "":
		case time.Since(begun) > quick:
			t.Logf("seed %d was too slow to compare", n+1)
		default:
			t.Fatalf("-redissim.seed %d: %s", n+1, difference)
		}
		if *seed != 0 {
			break
		}
	}
}

// pair is a real server and a simulated one.
type pair struct {
	*testing.T
	*rand.Rand
	servers   [2]*redis.Client
	simulated *redissim.Server
	nobody    *redissim.Server // does not run
	scripts   map[string]string
}

// run returns the first difference, "" for none.
func (p *pair) run() string {
	defer p.change("maxmemory 0")
	for _, begin := range []string{"follow", "promote", "flush"} { // the real server has served other seeds
		p.change(begin)
	}
	for step := range steps {
		if p.IntN(20) == 0 {
			p.change(pick(p, "maxmemory 1", "maxmemory 0", "follow", "promote", "flush"))
		}
		command := p.command()
		if why := p.compare(command); why != "" {
			return fmt.Sprintf("step %d: %q: %s", step, p.named(command), why)
		}
		for _, look := range [][]string{{"HGETALL", command[len(command)-1]}, {"HGETALL", cursors[p.IntN(len(cursors))]}} {
			if why := p.compare(look); why != "" {
				return fmt.Sprintf("step %d: after %q: %q: %s", step, p.named(command), look, why)
			}
		}
	}
	return ""
}

// named returns a command with the name of its script instead of the text.
func (p *pair) named(command []string) []string {
	command = slices.Clone(command)
	for name, text := range p.scripts {
		if i := slices.Index(command, text); i >= 0 {
			command[i] = name
		}
	}
	return command
}

// change changes the state of both servers.
func (p *pair) change(what string) {
	var real []any
	switch what {
	case "maxmemory 1":
		real = []any{"CONFIG", "SET", "maxmemory", "1"}
		p.simulated.Refuse(redissim.OutOfMemory)
	case "maxmemory 0":
		real = []any{"CONFIG", "SET", "maxmemory", "0"}
		p.simulated.Refuse("")
	case "follow":
		real = []any{"REPLICAOF", "127.0.0.1", "1"} // nobody is there
		p.simulated.Follow(p.nobody)
	case "promote":
		real = []any{"REPLICAOF", "NO", "ONE"}
		p.simulated.Promote()
	case "flush":
		if !p.simulated.Primary() {
			return
		}
		real = []any{"FLUSHALL"}
		p.simulated.Flush()
	}
	if err := p.servers[0].Do(context.Background(), real...).Err(); err != nil {
		p.Fatalf("%q: %v", real, err)
	}
}

// compare sends a command to both and returns how the replies differ, "" if they do not.
func (p *pair) compare(command []string) string {
	var replies [2]string
	for i, server := range p.servers {
		args := make([]any, len(command))
		for j, arg := range command {
			args[j] = p.fill(server, arg)
		}
		reply, err := server.Do(p.Context(), args...).Result()
		if err != nil {
			reply = err
		}
		if fields, isList := reply.([]any); isList && command[0] == "HGETALL" {
			pairs := slices.Collect(slices.Chunk(fields, 2))
			slices.SortFunc(pairs, func(a, b []any) int { return strings.Compare(a[0].(string), b[0].(string)) })
			reply = pairs
		}
		replies[i] = plain(fmt.Sprintf("%T %#v", reply, reply))
		if err != nil {
			replies[i] = plain("error " + err.Error())
		}
	}
	if replies[0] != replies[1] {
		return fmt.Sprintf("\nreal      %s\nsimulated %s", replies[0], replies[1])
	}
	return ""
}

// fill replaces what is known only when a command is sent, and differs between the servers.
func (p *pair) fill(server *redis.Client, arg string) string {
	if key, isGen := strings.CutPrefix(arg, "gen of "); isGen {
		return server.HGet(p.Context(), key, "gen").Val()
	}
	if arg == "its replid" {
		_, after, _ := strings.Cut(server.Info(p.Context(), "replication").Val(), "master_replid:")
		return after[:40]
	}
	return arg
}

// What differs by chance: times, IDs, and what Lua says of a mistake.
var chance = []struct {
	pattern *regexp.Regexp
	plain   string
}{
	{regexp.MustCompile(`\d{10}\.\d{1,6}`), "TIME"},
	{regexp.MustCompile(`"\d{10}", "\d{1,6}"`), "TIME"},
	{regexp.MustCompile(`"id", \d+`), "CONNECTION"},
	{regexp.MustCompile(`"\d{13}"`), "MS"},
	{regexp.MustCompile(` \d{16}"`), " MICROS"},
	{regexp.MustCompile(`[0-9a-f]{40}`), "ID"},
	{regexp.MustCompile(`ERR user_script:(\d+): .* script:`), "ERR user_script:$1: script:"},
	{regexp.MustCompile(`"(user_script:\d+): [^"]*"`), "$1"},
	{regexp.MustCompile(`(ERR Error compiling script).*`), "$1"},
}

func plain(text string) string {
	for _, c := range chance {
		text = c.pattern.ReplaceAllString(text, c.plain)
	}
	return text
}

var (
	keys    = []string{"k", "l"}
	cursors = []string{"seqd:{a}", "seqd:{b}"}
)

func pick(p *pair, from ...string) string { return from[p.IntN(len(from))] }

func readScripts(t *testing.T) map[string]string {
	scripts := make(map[string]string)
	for name, folder := range map[string]string{
		"cursor": "strategy/segment/rediscursor", "slots": "strategy/snowflake/redisslots", "answer": "server/idempotency", "limit": "plugin/ratelimit",
	} {
		files := must.Get(os.ReadDir("../../" + folder + "/lua"))(t)
		for _, file := range files {
			text := must.Get(os.ReadFile("../../" + folder + "/lua/" + file.Name()))(t)
			scripts[name+" "+strings.TrimSuffix(file.Name(), ".lua")] = string(text)
		}
	}
	return scripts
}

// command draws a command.
func (p *pair) command() []string {
	switch n := p.IntN(20); {
	case n < 10:
		return p.cursor()
	case n < 12:
		return p.slots()
	case n < 13:
		return p.damage()
	case n < 14:
		return p.answer()
	case n < 15:
		return p.small()
	case n < 16:
		// The rate is so low that no token is added meanwhile, and what is taken so little that the bucket still expires.
		return []string{"EVAL", p.scripts["limit take"], "1", pick(p, "bucket", "k"), "0.000000000001", "1000000", pick(p, p.number(400), "2000000")}
	}
	return p.plainCommand()
}

func (p *pair) number(below int) string { return strconv.Itoa(p.IntN(below)) }

// cursor draws a run of a script of the cursor.
func (p *pair) cursor() []string {
	key, epoch := pick(p, cursors...), pick(p, "e", "e", "e", "f", "")
	head := []string{"2", pick(p, "c", "c", "c", "c", "c", "c", "other"), "random" + p.number(1000)}
	if p.IntN(30) == 0 {
		head[0] = pick(p, "1", "3")
	}
	switch p.IntN(8) {
	case 0, 1, 2, 3:
		tail := append(head, pick(p, "0.5", "0.9", "1"), p.number(3), p.number(2), pick(p, "0", "60000"))
		if p.IntN(3) == 0 {
			return append(append([]string{"EVAL", p.scripts["cursor take"], "2"}, append(cursors, tail...)...), p.number(12), epoch, p.number(40), epoch)
		}
		return append(append([]string{"EVAL", p.scripts["cursor take"], "1", key}, tail...), p.number(12), epoch)
	case 4, 5, 6:
		first := p.IntN(3000)
		tail := []string{
			pick(p, "gen of "+key, "gen of "+key, "gen of "+key, "nonsense"), strconv.Itoa(first), strconv.Itoa(first + p.IntN(100)), pick(p, "append", "append", "seed", "advance"),
			p.number(3), epoch, pick(p, "", "old"),
		}
		return append(append([]string{"EVAL", p.scripts["cursor install"], "1", key}, head...), tail...)
	}
	if p.IntN(3) == 0 {
		return append([]string{"EVAL", p.scripts["cursor drop"], "1", key}, head...)
	}
	return append(append([]string{"EVAL", p.scripts["cursor examine"], "1", key}, head...), "channel")
}

// damage writes what does not belong there.
func (p *pair) damage() []string {
	field := pick(p, "v", "cluster", "replid", "gen", "ceil", "epoch", "first", "cur", "last", "queue", "queued", "claim", "set", "7")
	if p.IntN(4) == 0 {
		return []string{"HDEL", pick(p, append(cursors, "slots")...), field}
	}
	return []string{"HSET", pick(p, append(cursors, "slots")...), field, pick(p, "", "x", "-5", "1e15", "010", "0x10", " 7 ", "1_0", "7.5", "9007199254740993", "1-9 ", "21-30 31-40 ")}
}

// slots draws a run of a script of the registry of machine IDs.
func (p *pair) slots() []string {
	tail := []string{pick(p, "slots", "slots", "slots", "k"), pick(p, "1", "1", "1", "2", "0"), pick(p, "c", "c", "c", "other")}
	switch script := pick(p, "look", "look", "swap", "swap", "drop"); script {
	case "swap":
		tail = append(tail, pick(p, "its replid", "its replid", "x"), pick(p, "", "set0", "set1"), pick(p, "", "set0", "set1"), pick(p, "", "7", "8"), pick(p, "", "s0", "s1"), pick(p, "s0", "s1"))
		return append([]string{"EVAL", p.scripts["slots swap"], "1"}, tail...)
	case "look":
		if p.IntN(2) == 0 {
			tail = append(tail, "7", "8", "9")
		} else {
			tail = append(tail, "7")
		}
		return append([]string{"EVAL", p.scripts["slots look"], "1"}, tail...)
	}
	return append([]string{"EVAL", p.scripts["slots drop"], "1"}, tail...)
}

// answer draws a step of an Idempotency-Key.
func (p *pair) answer() []string {
	text := func() string { return "text" + p.number(3) }
	switch p.IntN(3) {
	case 0:
		return []string{"set", pick(p, keys...), text(), "nx", "px", "1000000000"}
	case 1:
		return []string{"EVAL", p.scripts["answer swap"], "1", pick(p, keys...), text(), text(), pick(p, "1000000000", "1000000000", "0", "x")}
	}
	return []string{"EVAL", p.scripts["answer drop"], "1", pick(p, keys...), text()}
}

// small draws a small script.
func (p *pair) small() []string {
	return []string{"EVAL", pick(p,
		"return {1, 1.9, -1.9, true, false, 'x', nil, 3}", "return {1, {2, {'3'}}, {}}", "return {'a', nil, 'b'}", "return nil", "return 1e15", "return 'x'", "return",
		"return redis.call('GET', KEYS[1])", "return redis.pcall('GET', KEYS[1])", "return redis.call('HGET', KEYS[1], 'v')",
		"return redis.call('SET', KEYS[1], 1e15)", "return redis.call('SET', KEYS[1], 0.1)", "return redis.call('SET', KEYS[1], {})", "return redis.call('SET', KEYS[1], true)",
		"return redis.call('DEL', KEYS[1]) + redis.call('EXISTS', KEYS[1])", "return redis.call('HDEL', KEYS[1], 'v')",
		"redis.call('DEL', 'none') return redis.call('SET', KEYS[1], 'written')", "redis.call('SET', KEYS[1], 'kept') error('x')",
		"redis.call('SET', KEYS[1], 'kept') return redis.call('HSET', KEYS[1], 'f', 'v')", "return redis.call('SET', KEYS[1], 'v').ok",
		"return redis.call()", "return redis.call('GET')", "return redis.call('HSET', KEYS[1], 'f')", "return redis.call('SUBSCRIBE', 'x')", "return redis.call('EVAL', 'x', 0)",
		"local ok, err = pcall(redis.call, 'HGET', KEYS[1], 'v') return {tostring(ok), type(err), tostring(err)}",
		"local ok, err = pcall(function() return nil + 1 end) return {tostring(ok), type(err)}", "local ok, a, b = pcall(function() return 1, 2 end) return {a, b}",
		"local err = redis.pcall('HGET', KEYS[1], 'v') return {type(err), type(err) == 'table' and err.err or ''}", "return {err = 'MINE x'}", "return {ok = 'fine'}",
		"return nil + 1", "\n\nreturn nil + 1", "return undefined", "undefined = 1", "x", "return #KEYS + #ARGV", "return KEYS[2]", "return ARGV[1]",
		"return tonumber(ARGV[1])", "return tostring(tonumber(ARGV[1]) == nil)", "return {tonumber('010'), tonumber('1_0'), tonumber('0x10'), tonumber(' 7 '), tonumber('ff', 16), tonumber('')}",
		"return string.format('%.0f %.17g %d %s', 2^53, 0.1, 7, 'x')", "return {string.match('12-34 5-6 ', '^(%d+)-(%d+) (.*)$')}", "return string.gsub('aXbX', 'X', '-')",
		"return {string.find('a+b', '+', 1, true)}", "return redis.call('TIME')[1] + 0 > 0", "return redis.status_reply('fine')", "return redis.error_reply('MINE x')", "return redis.error_reply('Single')", "return type(redis.acl_check_cmd)",
		"local t = {} for f, l in string.gmatch('1-2 3-4 ', '(%d+)-(%d+) ') do t[#t + 1] = f .. l end return t", "return '7' + 1", "return 10 / 4", "return -7 % 3", "return math.floor(-1.5)",
	), "1", pick(p, append(keys, cursors[0])...), pick(p, "7", "x", "", "1e3", "nan", "-0")}
}

// plainCommand draws a command without a script.
func (p *pair) plainCommand() []string {
	key, field := pick(p, append(keys, cursors[0], "slots")...), pick(p, "v", "f")
	switch p.IntN(24) {
	case 0, 1:
		return []string{"GET", key}
	case 2:
		return []string{"set", key, p.number(5)}
	case 3:
		return append([]string{"SET", key, "v"}, strings.Fields(pick(p, "nx", "NX", "px 1000000000", "px", "px 0", "px -1", "px x", "px 9223372036854775807"))...)
	case 4:
		return []string{"DEL", key, "none", key}
	case 5:
		return []string{"EXISTS", key, key, "none"}
	case 6:
		return []string{"HGET", key, field}
	case 7:
		return []string{"HMGET", key, "v", "none", "v"}
	case 8:
		return []string{"HSET", key, field, p.number(3), "f", p.number(3)}
	case 9:
		return []string{"HDEL", key, field, "none"}
	case 10:
		return []string{"HGETALL", key}
	case 11:
		return []string{"PING"}
	case 12:
		return []string{"PING", "text"}
	case 13:
		return []string{"PUBLISH", "nobody", "x"}
	case 14:
		return strings.Fields(pick(p, "CONFIG GET min-replicas-to-write", "CONFIG GET save", "CONFIG GET nothing", "config get maxmemory-policy"))
	case 15, 16:
		return strings.Fields(pick(p, "GET", "GET a b", "SET a", "HSET a b", "HSET a b c d", "HMGET a", "DEL", "EVAL x", "EVALSHA x", "TIME now", "HGETALL", "PUBLISH a", "PING a b"))
	case 17:
		return []string{"EVALSHA", strings.Repeat("0", 40), "0"}
	case 18:
		return append([]string{"EVAL", "return 1"}, strings.Fields(pick(p, "x", "-1", "1", "2 a"))...)
	case 19:
		return strings.Fields(pick(p, "HELLO 2", "HELLO 9"))
	}
	return []string{"TIME"}
}
