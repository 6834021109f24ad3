package redissim

import (
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A reply is nil, a string, an int64, a status, a failure or a []any of replies.
type (
	status  string
	failure string // an error; it begins with its code
)

// Error implements [error].
func (f failure) Error() string { return string(f) }

// RedisError makes a failure a redis.Error.
func (failure) RedisError() {}

const (
	ok          = status("OK")
	wrongType   = failure("WRONGTYPE Operation against a key holding the wrong kind of value")
	syntaxError = failure("ERR syntax error")
	notInteger  = failure("ERR value is not an integer or out of range")
)

type flags int

const (
	writes   flags = 1 << iota // a command that writes
	frees                      // and needs no memory
	keyed                      // a command that has keys, or a script
	outside                    // not from scripts
	loadable                   // also while the server is loading
	pubsub                     // also from a connection that has subscribed
)

// command is a command of Redis.
type command struct {
	name        string
	run         func(s *Server, c *conn, args []string) any
	least, most int // how many arguments, without its name; most is -1 for no limit
	flags       flags
}

// commands are all commands, by name, in lower and in upper case.
var commands = make(map[string]*command)

func init() {
	for _, c := range []command{
		{"config", config, 2, -1, outside | loadable},
		{"del", del, 1, -1, writes | frees | keyed},
		{"eval", eval, 2, -1, keyed | outside},
		{"evalsha", evalsha, 2, -1, keyed | outside},
		{"exists", exists, 1, -1, keyed},
		{"get", get, 1, 1, keyed},
		{"hdel", hdel, 2, -1, writes | frees | keyed},
		{"hello", hello, 0, -1, outside | loadable},
		{"hget", hget, 2, 2, keyed},
		{"hgetall", hgetall, 1, 1, keyed},
		{"hmget", hmget, 2, -1, keyed},
		{"hset", hset, 3, -1, writes | keyed},
		{"info", info, 0, -1, loadable},
		{"ping", ping, 0, 1, pubsub},
		{"publish", publish, 2, 2, loadable},
		{"set", set, 2, -1, writes | keyed},
		{"subscribe", subscribe, 1, -1, outside | loadable | pubsub},
		{"time", clock, 0, 0, 0},
		{"unsubscribe", unsubscribe, 0, -1, outside | loadable | pubsub},
	} {
		commands[c.name], commands[strings.ToUpper(c.name)] = &c, &c
	}
}

// lookUp returns a command, nil if there is none.
func lookUp(name string) *command {
	if c := commands[name]; c != nil {
		return c
	}
	return commands[strings.ToLower(name)]
}

// takes reports whether the number of arguments is right.
func (c *command) takes(n int) bool { return n >= c.least && (c.most < 0 || n <= c.most) }

func (c *command) wrongNumber() failure {
	return failure("ERR wrong number of arguments for '" + c.name + "' command")
}

// execute executes a command of a client, or of the simulation if c is nil.
func (s *Server) execute(c *conn, args []string) any {
	cmd := lookUp(args[0])
	switch {
	case cmd == nil:
		return s.d.doesNotKnow("the command " + strings.ToLower(args[0]))
	case !cmd.takes(len(args) - 1):
		return cmd.wrongNumber()
	case c != nil && len(c.channels) > 0 && cmd.flags&pubsub == 0:
		return failure("ERR Can't execute '" + cmd.name + "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context")
	case c != nil && s.loading && cmd.flags&loadable == 0:
		return stillLoading
	case c == nil && cmd.flags&outside != 0:
		return failure("ERR " + cmd.name + " needs a connection")
	}
	s.expire()
	if cmd.flags&writes != 0 && c != nil {
		if r := s.refuses(cmd); r != "" {
			return failure(r)
		}
	}
	if c != nil && cmd.flags&keyed != 0 && s.lose > 0 {
		s.lose--
		c.lost = true
	}
	return cmd.run(s, c, args[1:])
}

func hello(s *Server, c *conn, args []string) any {
	if len(args) > 0 && args[0] != "2" {
		return failure("NOPROTO unsupported protocol version")
	}
	role := "master"
	if s.primary != nil {
		role = "replica"
	}
	return []any{"server", "redis", "version", version, "proto", int64(2), "id", c.id, "mode", "standalone", "role", role, "modules", []any{}}
}

func ping(_ *Server, c *conn, args []string) any {
	switch {
	case c != nil && len(c.channels) > 0:
		return []any{"pong", strings.Join(args, "")}
	case len(args) == 1:
		return args[0]
	}
	return status("PONG")
}

func config(s *Server, _ *conn, args []string) any {
	if !strings.EqualFold(args[0], "get") {
		return s.d.doesNotKnow("config " + args[0])
	}
	reply := []any{}
	for _, name := range slices.Sorted(maps.Keys(s.d.opts.Settings)) {
		for _, pattern := range args[1:] {
			if matched, _ := path.Match(pattern, name); matched {
				reply = append(reply, name, s.d.opts.Settings[name])
				break
			}
		}
	}
	return reply
}

func info(s *Server, _ *conn, args []string) any { return s.info(args) }

func clock(s *Server, _ *conn, _ []string) any {
	us := s.now().UnixMicro()
	return []any{strconv.FormatInt(us/1e6, 10), strconv.FormatInt(us%1e6, 10)}
}

func get(s *Server, _ *conn, args []string) any {
	switch e := s.find(args[0]); {
	case e == nil:
		return nil
	case e.hash != nil:
		return wrongType
	default:
		return e.text
	}
}

func set(s *Server, _ *conn, args []string) any {
	var onlyNew bool
	var expires int64
	for options := args[2:]; len(options) > 0; options = options[1:] {
		switch option := strings.ToLower(options[0]); {
		case option == "nx":
			onlyNew = true
		case option == "px" && len(options) > 1:
			ms, err := strconv.ParseInt(options[1], 10, 64)
			if err != nil {
				return notInteger
			}
			if expires = s.now().UnixMilli() + ms; ms <= 0 || expires <= 0 {
				return failure("ERR invalid expire time in 'set' command")
			}
			options = options[1:]
		case option == "px":
			return syntaxError
		default:
			return s.d.doesNotKnow("set " + option)
		}
	}
	if onlyNew && s.find(args[0]) != nil {
		return nil
	}
	s.setText(args[0], args[1], expires)
	return ok
}

func exists(s *Server, _ *conn, args []string) any {
	var n int64
	for _, key := range args {
		if s.find(key) != nil {
			n++
		}
	}
	return n
}

func del(s *Server, _ *conn, args []string) any {
	var n int64
	for _, key := range args {
		if s.find(key) != nil {
			s.remove(key)
			n++
		}
	}
	return n
}

func hget(s *Server, _ *conn, args []string) any {
	hash, err := s.findHash(args[0])
	if err != nil {
		return err
	}
	if value, found := hash[args[1]]; found {
		return value
	}
	return nil
}

func hmget(s *Server, _ *conn, args []string) any {
	hash, err := s.findHash(args[0])
	if err != nil {
		return err
	}
	values := make([]any, len(args)-1)
	for i, field := range args[1:] {
		if value, found := hash[field]; found {
			values[i] = value
		}
	}
	return values
}

// hgetall returns the fields sorted, so that a simulation can be repeated. Redis promises no order.
func hgetall(s *Server, _ *conn, args []string) any {
	hash, err := s.findHash(args[0])
	if err != nil {
		return err
	}
	reply := []any{}
	for _, field := range slices.Sorted(maps.Keys(hash)) {
		reply = append(reply, field, hash[field])
	}
	return reply
}

func hset(s *Server, _ *conn, args []string) any {
	if len(args)%2 == 0 {
		return commands["hset"].wrongNumber()
	}
	hash, err := s.findHash(args[0])
	if err != nil {
		return err
	}
	before := len(hash)
	s.setFields(args[0], args[1:])
	return int64(len(s.keys[args[0]].hash) - before)
}

func hdel(s *Server, _ *conn, args []string) any {
	hash, err := s.findHash(args[0])
	if err != nil {
		return err
	}
	before := len(hash)
	s.removeFields(args[0], args[1:])
	return int64(before - len(hash))
}

// publish sends a message to the subscribers here and, in time, to those of the replicas. It returns
// how many are here.
func publish(s *Server, _ *conn, args []string) any {
	channel, message := args[0], args[1]
	n := len(s.subscribers[channel])
	s.write(func(t *Server) {
		for _, c := range t.subscribers[channel] {
			c.send([]any{"message", channel, message}, true)
		}
	})
	return int64(n)
}

func subscribe(s *Server, c *conn, args []string) any {
	return c.subscriptions("subscribe", args, func(channel string) {
		if !slices.Contains(c.channels, channel) {
			c.channels = append(c.channels, channel)
			s.subscribers[channel] = append(s.subscribers[channel], c)
		}
	})
}

// unsubscribe ends the subscriptions to some channels, without arguments to all.
func unsubscribe(s *Server, c *conn, args []string) any {
	if len(args) == 0 {
		args = slices.Clone(c.channels)
	}
	return c.subscriptions("unsubscribe", args, func(channel string) {
		c.channels = slices.DeleteFunc(c.channels, func(held string) bool { return held == channel })
		s.leave(channel, c)
	})
}

// subscriptions changes subscriptions. There is a reply for each channel; all but the last are sent
// here.
func (c *conn) subscriptions(kind string, channels []string, change func(channel string)) any {
	reply := []any{kind, nil, int64(0)}
	for i, channel := range channels {
		if i > 0 {
			c.send(reply, false)
		}
		change(channel)
		reply = []any{kind, channel, int64(len(c.channels))}
	}
	return reply
}

// leave ends a subscription.
func (s *Server) leave(channel string, c *conn) {
	rest := slices.DeleteFunc(s.subscribers[channel], func(held *conn) bool { return held == c })
	if s.subscribers[channel] = rest; len(rest) == 0 {
		delete(s.subscribers, channel)
	}
}
