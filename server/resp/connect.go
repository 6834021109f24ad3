package resp

import (
	"fmt"
	"strings"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/access"
)

// redisVersion is the version of Redis whose protocol this is. Clients derive from it what they may
// send.
const redisVersion = "7.4.0"

// errWrongPass is the error of a token that is not valid.
var errWrongPass = seqd.Errorf(seqd.CodeUnauthorized, "the token is not valid")

// auth is AUTH [user] token. The user may be any: the token says who calls.
func (c *conn) auth(_ int, args [][]byte) error {
	if err := c.authenticate(args[len(args)-1]); err != nil {
		return err
	}
	c.ok()
	return nil
}

// authenticate remembers a token if it is valid. Each command asks again whether it still is.
func (c *conn) authenticate(secret []byte) error {
	digest, _ := access.DigestOfSecret(string(secret))
	if _, err := c.server.gate.AllowDigest(&digest, "", ""); err != nil {
		if seqd.CodeOf(err) == seqd.CodeUnauthorized {
			return errWrongPass
		}
		return err
	}
	c.secret = digest
	return c.show()
}

// hello is HELLO [2|3] [AUTH user token] [SETNAME name].
func (c *conn) hello(_ int, args [][]byte) error {
	proto, rest := c.proto, args[1:]
	if len(rest) > 0 {
		switch string(rest[0]) {
		case "2", "3":
			proto = int(rest[0][0] - '0')
		default:
			return errNoProto
		}
		rest = rest[1:]
	}
	var secret []byte
	name, named := c.name, false
	for len(rest) > 0 {
		switch option := strings.ToUpper(string(rest[0])); {
		case option == "AUTH" && len(rest) >= 3:
			secret, rest = rest[2], rest[3:]
		case option == "SETNAME" && len(rest) >= 2:
			name, named, rest = string(rest[1]), true, rest[2:]
		default:
			return seqd.Errorf(seqd.CodeInvalidRequest, "syntax error in HELLO: it is HELLO [2|3] [AUTH user token] [SETNAME name]")
		}
	}
	if named {
		if err := checkName(name); err != nil {
			return err
		}
	}
	if secret != nil {
		if err := c.authenticate(secret); err != nil {
			return err
		}
	} else if _, err := c.allow("", ""); err != nil {
		return err
	}
	c.proto, c.name = proto, name
	c.appendHello()
	return nil
}

var errNoProto = seqd.Errorf(seqd.CodeInvalidRequest, "unsupported protocol version: it is 2 or 3")

// appendHello appends the answer to HELLO.
func (c *conn) appendHello() {
	c.appendMap(7)
	for _, text := range [...]string{"server", "seqd", "version", redisVersion} {
		c.out = appendBulk(c.out, text)
	}
	c.out = appendInt(appendBulk(c.out, "proto"), int64(c.proto))
	c.out = appendInt(appendBulk(c.out, "id"), c.id)
	for _, text := range [...]string{"mode", "standalone", "role", "master", "modules"} {
		c.out = appendBulk(c.out, text)
	}
	c.out = appendHead(c.out, '*', 0)
}

// client is CLIENT.
func (c *conn) client(_ int, args [][]byte) error {
	sub := strings.ToUpper(string(args[1]))
	wanted := map[string]int{"SETNAME": 3, "GETNAME": 2, "SETINFO": 4, "ID": 2, "INFO": 2, "NO-EVICT": 3, "NO-TOUCH": 3}
	n, known := wanted[sub]
	switch {
	case !known:
		return seqd.Errorf(seqd.CodeInvalidRequest, "unknown subcommand %.40q: it is CLIENT SETNAME name | GETNAME | SETINFO key value | ID | INFO", args[1])
	case len(args) != n:
		return seqd.Errorf(seqd.CodeInvalidRequest, "wrong number of arguments for 'client|%s' command", strings.ToLower(sub))
	}
	switch sub {
	case "SETNAME":
		name := string(args[2])
		if err := checkName(name); err != nil {
			return err
		}
		c.name = name
		c.ok()
	case "GETNAME":
		if c.name == "" {
			c.appendNull()
		} else {
			c.out = appendBulk(c.out, c.name)
		}
	case "ID":
		c.out = appendInt(c.out, c.id)
	case "INFO":
		c.appendText(fmt.Sprintf("id=%d addr=%s name=%s resp=%d\n", c.id, c.net.RemoteAddr(), c.name, c.proto))
	default: // what they say about the client is not used
		c.ok()
	}
	return nil
}

// longestClientName is the longest name of a connection.
const longestClientName = 128

// checkName returns what is wrong with the name of a connection.
func checkName(name string) error {
	if len(name) > longestClientName {
		return seqd.Errorf(seqd.CodeInvalidRequest, "the name of a connection has at most %d bytes", longestClientName)
	}
	for i := range len(name) {
		if name[i] <= ' ' || name[i] > '~' {
			return seqd.Errorf(seqd.CodeInvalidRequest, "Client names cannot contain spaces, newlines or special characters.")
		}
	}
	return nil
}

// reset is RESET.
func (c *conn) reset(int, [][]byte) error {
	c.proto, c.secret, c.name, c.multi = 2, access.Digest{}, "", false
	c.out = appendSimple(c.out, "RESET")
	return nil
}
