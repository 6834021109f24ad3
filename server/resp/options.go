package resp

import (
	"strings"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/literal"
)

// options are what follows the biz type in a command.
type options struct {
	count   int // 1 if it is not given
	counted bool
	key     []byte        // nil if it is not given
	ttl     time.Duration // 0 if it is not given
}

// options reads the options of a command: what comes after the first two of args.
func (c *conn) options(cmd int, args [][]byte) (o options, err error) {
	o.count = 1
	for rest := args[2:]; len(rest) > 0; rest = rest[2:] {
		option := c.server.table.option(cmd, rest[0])
		switch {
		case option == "":
			list := &c.server.table.list[cmd]
			return o, seqd.Errorf(seqd.CodeInvalidRequest, "syntax error: %.40q is not an option of %s %s", rest[0], list.name, list.usage)
		case len(rest) == 1:
			return o, seqd.Errorf(seqd.CodeInvalidRequest, "syntax error: %s has no value", option)
		case option == "COUNT" && o.counted:
			return o, seqd.Errorf(seqd.CodeInvalidCount, "COUNT is given more than once")
		case option == "KEY" && o.key != nil:
			return o, seqd.Errorf(seqd.CodeInvalidKey, "KEY is given more than once")
		case option == "TTL" && o.ttl != 0:
			return o, seqd.Errorf(seqd.CodeInvalidTTL, "TTL is given more than once")
		}
		switch option {
		case "COUNT":
			o.counted = true
			o.count, err = c.count(rest[1])
		case "KEY":
			o.key = rest[1]
			err = seqd.CheckKey(c.keys.of(rest[1]))
		case "TTL":
			o.ttl, err = ttlOf(rest[1])
		}
		if err != nil {
			return o, err
		}
	}
	return o, nil
}

// option returns the name of an option in the usage of a command, in upper case, "" if it has none
// of this name.
func (t *table) option(cmd int, arg []byte) string {
	for _, name := range [...]string{"COUNT", "KEY", "TTL"} {
		if strings.EqualFold(name, string(arg)) && strings.Contains(t.list[cmd].usage, "["+name+" ") {
			return name
		}
	}
	return ""
}

// ttlOf reads how long numbers are to be reserved, in milliseconds.
func ttlOf(arg []byte) (time.Duration, error) {
	const least, most = time.Second, 24 * time.Hour
	n, ok := literal.Int(string(arg))
	if !ok || n < least.Milliseconds() || n > most.Milliseconds() {
		return 0, seqd.Errorf(seqd.CodeInvalidTTL, "TTL is %.40q and must be milliseconds from %d to %d", arg, least.Milliseconds(), most.Milliseconds())
	}
	return time.Duration(n) * time.Millisecond, nil
}

// count reads how many numbers a client wants.
func (c *conn) count(arg []byte) (int, error) {
	n, ok := literal.Int(string(arg))
	if !ok {
		return 0, seqd.Errorf(seqd.CodeInvalidCount, "the count is %.40q and must be a whole number from 1 to %d", arg, c.server.gate.MaxCount())
	}
	if err := c.server.gate.CheckCount(n); err != nil {
		return 0, err
	}
	return int(n), nil
}
