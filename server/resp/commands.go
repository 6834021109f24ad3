package resp

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/gate"
)

// command is what a client can ask for.
type command struct {
	name string
	// usage is what follows the name, for people.
	usage, summary string
	// least and most are how many arguments it has, with its name.
	least, most int
	// open is true if it is answered without a token.
	open bool
	// run appends the answer, or returns an error. The first commands, as many as takers says,
	// append nothing, but add to the run of requests for numbers. cmd is the index of the command.
	run func(c *conn, cmd int, args [][]byte) error
}

// takers is how many commands ask for numbers. They are the first ones of newCommands.
const takers = 4

// hasBizType reports whether the first argument of a command is the name of a biz type.
func (cmd *command) hasBizType() bool { return strings.HasPrefix(cmd.usage, "bizType") }

// newCommands returns all commands: first those that ask for numbers.
func newCommands() []command {
	return []command{
		{name: "INCR", usage: "bizType", summary: "Returns the next number of a biz type.", least: 2, most: 2, run: (*conn).incr},
		{name: "INCRBY", usage: "bizType n", summary: "Takes n consecutive numbers and returns the last of them.", least: 3, most: 3, run: (*conn).incrBy},
		{name: "SEQ.NEXT", usage: "bizType [COUNT n] [KEY k]", summary: "Returns the next ID as text, or an array of n IDs.", least: 2, most: 6, run: (*conn).seqNext},
		{name: "SEQ.RESERVE", usage: "bizType [COUNT n] [TTL ms] [KEY k]", summary: "Reserves numbers of a gapless biz type.", least: 2, most: 8, run: (*conn).seqReserve},

		{name: "SEQ.CONFIRM", usage: "bizType reservation", summary: "Makes reserved numbers issued.", least: 3, most: 3, run: (*conn).confirm},
		{name: "SEQ.RELEASE", usage: "bizType reservation", summary: "Gives reserved numbers back.", least: 3, most: 3, run: (*conn).release},
		{name: "SEQ.PARSE", usage: "bizType id [KEY k]", summary: "Returns what an ID says.", least: 3, most: 5, run: (*conn).parse},
		{name: "PING", usage: "[text]", summary: "Returns PONG, or the text.", least: 1, most: 2, run: (*conn).ping},
		{name: "ECHO", usage: "text", summary: "Returns the text.", least: 2, most: 2, run: (*conn).echo},
		{name: "SELECT", usage: "0", summary: "Does nothing: there is one database.", least: 2, most: 2, run: (*conn).selectDB},
		{name: "AUTH", usage: "[user] token", summary: "Says which token the client has.", least: 2, most: 3, open: true, run: (*conn).auth},
		{name: "HELLO", usage: "[2|3] [AUTH user token] [SETNAME name]", summary: "Says which protocol the client speaks.", least: 1, most: 7, open: true, run: (*conn).hello},
		{name: "CLIENT", usage: "SETNAME name | GETNAME | SETINFO key value | ID | INFO", summary: "Names the connection.", least: 2, most: mostArgs, run: (*conn).client},
		{name: "COMMAND", usage: "[COUNT | LIST | DOCS | INFO]", summary: "Returns which commands there are.", least: 1, most: mostArgs, run: (*conn).commands},
		{name: "INFO", usage: "[section]", summary: "Returns what this is.", least: 1, most: mostArgs, run: (*conn).info},
		{name: "RESET", summary: "Forgets what AUTH, HELLO and CLIENT SETNAME said.", least: 1, most: 1, open: true, run: (*conn).reset},
		{name: "QUIT", summary: "Ends the connection.", least: 1, most: mostArgs, open: true, run: (*conn).quit},
	}
}

// CommandNames returns the names of all commands.
func CommandNames() []string {
	var names []string
	for _, cmd := range newCommands() {
		names = append(names, cmd.name)
	}
	return names
}

// table finds commands by their names, in upper case.
type table struct {
	list   []command
	byName map[string]int
	names  string // of all commands, for errors
}

func newTable() *table {
	t := &table{list: newCommands(), byName: make(map[string]int)}
	var names []string
	for i, cmd := range t.list {
		t.byName[cmd.name] = i
		names = append(names, cmd.name)
	}
	t.names = strings.Join(names, ", ")
	return t
}

// longestName bounds the names that find looks for.
const longestName = 16

// find returns the index of a command, or that of unknown ones, which is the length of the list.
func (t *table) find(name []byte) int {
	var upper [longestName]byte
	if len(name) > longestName {
		return len(t.list)
	}
	for i, c := range name {
		if c >= 'a' && c <= 'z' {
			c -= 'a' - 'A'
		}
		upper[i] = c
	}
	if i, ok := t.byName[string(upper[:len(name)])]; ok {
		return i
	}
	return len(t.list)
}

// find is that of the table. Most commands of a client are the same as the one before.
func (c *conn) find(name []byte) int {
	if len(name) > 0 && bytes.Equal(name, c.lastName) {
		return c.lastCommand
	}
	i := c.server.table.find(name)
	if i < len(c.server.table.list) {
		c.lastName, c.lastCommand = append(c.lastName[:0], name...), i
	}
	return i
}

// do answers a command, or adds it to the run of requests for numbers.
func (c *conn) do(args [][]byte) {
	i := c.find(args[0])
	if i >= takers {
		c.issue()
	}
	err := c.try(i, args)
	switch {
	case err != nil:
		c.issue()
		c.reject(i, args, err)
	case i >= takers:
		c.server.counters[i]("", 1)
	}
	if len(c.out) >= flushAt {
		c.flush()
	}
}

// reject answers a command with an error.
func (c *conn) reject(i int, args [][]byte, err error) {
	code := seqd.CodeOf(err)
	c.out = appendError(c.out, err)
	c.server.counters[i](code, 1)
	c.noteRefused(i, "", code)
	if c.server.gate.AccessLog.On() {
		c.log(c.server.table.nameOf(i), code, 0, c.about(i, args)...)
	}
}

// about returns what the access log says of a command that was refused.
func (c *conn) about(i int, args [][]byte) (about []slog.Attr) {
	if i < len(c.server.table.list) && c.server.table.list[i].hasBizType() && len(args) > 1 {
		if bizType := shownBizType(string(args[1])); bizType != "" {
			about = append(about, slog.String("bizType", bizType))
		}
	}
	if who, _ := c.server.gate.AllowDigest(&c.secret, "", ""); who.Name != "" {
		about = append(about, slog.String("caller", who.Name))
	}
	return about
}

// noteRefused lets the audit log have a command that the client has no right to.
func (c *conn) noteRefused(i int, token string, code seqd.Code) {
	if f := c.server.opts.Refused; f != nil && (code == seqd.CodeUnauthorized || code == seqd.CodeForbidden) {
		f(c.server.table.nameOf(i), token, c.addr, c.requestID, code)
	}
}

// nameOf returns the name of the command with an index.
func (t *table) nameOf(i int) string {
	if i == len(t.list) {
		return otherCommands
	}
	return t.list[i].name
}

// try runs a command.
func (c *conn) try(i int, args [][]byte) error {
	t := c.server.table
	if c.multi && i < len(t.list) && !t.list[i].open {
		return errTransaction
	}
	if c.place.Spare() && i < len(t.list) && t.list[i].hasBizType() {
		return gate.NoPlace()
	}
	if i < takers { // their tokens are checked when their biz type is known
		return c.call(i, args)
	}
	if i == len(t.list) || !t.list[i].open {
		if _, err := c.allow("", ""); err != nil {
			return err
		}
	}
	if i == len(t.list) {
		return c.other(args[0])
	}
	return c.call(i, args)
}

// errTransaction answers each command of a transaction, as clients show the error of one of them.
var errTransaction = seqd.Errorf(seqd.CodeInvalidRequest, "there are no transactions, and no number was taken: use a pipeline without MULTI, such as pipeline(transaction=False) of redis-py")

// other answers a command that there is not. Clients do not wait for the answer to MULTI: the
// commands until EXEC or DISCARD must take no number.
func (c *conn) other(name []byte) error {
	switch strings.ToUpper(string(name)) {
	case "MULTI":
		c.multi = true
		return errTransaction
	case "DISCARD":
		c.multi = false
		c.ok()
		return nil
	case "EXEC":
		c.multi = false
		return errTransaction
	case "WATCH", "UNWATCH":
		return errTransaction
	}
	return seqd.Errorf(seqd.CodeInvalidRequest, "unknown command %.40q; seqd has %s", name, c.server.table.names)
}

// call runs a command that there is.
func (c *conn) call(i int, args [][]byte) error {
	cmd := &c.server.table.list[i]
	if len(args) < cmd.least || len(args) > cmd.most {
		return seqd.Errorf(seqd.CodeInvalidRequest, "wrong number of arguments for '%s' command: it is %s", strings.ToLower(cmd.name), strings.TrimSpace(cmd.name+" "+cmd.usage))
	}
	return cmd.run(c, i, args)
}

func (c *conn) ping(_ int, args [][]byte) error {
	if len(args) == 2 {
		c.out = appendBulk(c.out, args[1])
	} else {
		c.out = appendSimple(c.out, "PONG")
	}
	return nil
}

func (c *conn) echo(_ int, args [][]byte) error {
	c.out = appendBulk(c.out, args[1])
	return nil
}

func (c *conn) selectDB(_ int, args [][]byte) error {
	if string(args[1]) != "0" {
		return seqd.Errorf(seqd.CodeInvalidRequest, "DB index is out of range: there is only 0")
	}
	c.ok()
	return nil
}

func (c *conn) quit(int, [][]byte) error {
	c.ok()
	c.ends = true
	return nil
}

func (c *conn) ok() { c.out = appendSimple(c.out, "OK") }

// commands is COMMAND.
func (c *conn) commands(_ int, args [][]byte) error {
	t := c.server.table
	if len(args) == 1 {
		c.appendCommands(t.all())
		return nil
	}
	switch sub := strings.ToUpper(string(args[1])); sub {
	case "COUNT":
		c.out = appendInt(c.out, int64(len(t.list)))
	case "LIST":
		c.out = appendHead(c.out, '*', len(t.list))
		for _, cmd := range t.list {
			c.out = appendBulk(c.out, strings.ToLower(cmd.name))
		}
	case "INFO":
		c.appendCommands(t.named(args[2:], true))
	case "DOCS":
		c.appendDocs(t.named(args[2:], false))
	default:
		return seqd.Errorf(seqd.CodeInvalidRequest, "unknown subcommand %.40q: it is COMMAND [COUNT | LIST | DOCS | INFO]", args[1])
	}
	return nil
}

// all returns the indices of all commands.
func (t *table) all() []int {
	list := make([]int, len(t.list))
	for i := range list {
		list[i] = i
	}
	return list
}

// named returns the indices of commands, all if no name is given. Unknown ones are left out unless
// unknown is set.
func (t *table) named(names [][]byte, unknown bool) (list []int) {
	if len(names) == 0 {
		return t.all()
	}
	for _, name := range names {
		if i := t.find(name); i < len(t.list) || unknown {
			list = append(list, i)
		}
	}
	return list
}

// appendCommands appends what Redis tells of commands: name, arity, flags, first key, last key,
// step, and four lists that are empty here. To clients of a cluster the biz type is the key.
func (c *conn) appendCommands(list []int) {
	c.out = appendHead(c.out, '*', len(list))
	for _, i := range list {
		if i == len(c.server.table.list) {
			c.appendNull()
			continue
		}
		cmd := &c.server.table.list[i]
		arity, key := cmd.least, 0
		if cmd.most > cmd.least {
			arity = -cmd.least
		}
		if cmd.hasBizType() {
			key = 1
		}
		c.out = appendHead(c.out, '*', 10)
		c.out = appendBulk(c.out, strings.ToLower(cmd.name))
		c.out = appendInt(c.out, int64(arity))
		c.out = appendHead(c.out, '*', 1)
		c.out = appendSimple(c.out, "fast")
		for range 3 {
			c.out = appendInt(c.out, int64(key))
		}
		for range 4 {
			c.out = appendHead(c.out, '*', 0)
		}
	}
}

// appendDocs appends what redis-cli shows of commands.
func (c *conn) appendDocs(list []int) {
	c.appendMap(len(list))
	for _, i := range list {
		cmd := &c.server.table.list[i]
		c.out = appendBulk(c.out, strings.ToLower(cmd.name))
		c.appendMap(3)
		for _, text := range [...]string{"summary", cmd.summary, "since", "1.0.0", "group", "generic"} {
			c.out = appendBulk(c.out, text)
		}
	}
}

// info is INFO. The sections that clients ask for do not matter: there is one.
func (c *conn) info(int, [][]byte) error {
	loading := 0
	if _, err := c.server.gate.Issuer(); err != nil {
		loading = 1
	}
	c.appendText(fmt.Sprintf("# Server\r\nseqd_version:%s\r\nredis_version:%s\r\nredis_mode:standalone\r\n\r\n"+
		"# Clients\r\nconnected_clients:%d\r\n\r\n# Persistence\r\nloading:%d\r\n\r\n# Replication\r\nrole:master\r\n",
		c.server.opts.Version, redisVersion, c.server.Connections(), loading))
	return nil
}
