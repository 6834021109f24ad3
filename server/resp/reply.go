package resp

import "strconv"

// The functions of this file append answers, or parts of them, to a buffer.

const crlf = "\r\n"

func appendInt(dst []byte, n int64) []byte {
	dst = append(dst, ':')
	dst = strconv.AppendInt(dst, n, 10)
	return append(dst, crlf...)
}

// appendHead appends what begins an array ('*'), a string ('$') or a map ('%') of that length.
func appendHead(dst []byte, kind byte, length int) []byte {
	dst = append(dst, kind)
	dst = strconv.AppendInt(dst, int64(length), 10)
	return append(dst, crlf...)
}

func appendBulk[T string | []byte](dst []byte, text T) []byte {
	dst = appendHead(dst, '$', len(text))
	dst = append(dst, text...)
	return append(dst, crlf...)
}

// appendSimple appends a string without line breaks.
func appendSimple(dst []byte, text string) []byte {
	dst = append(dst, '+')
	dst = append(dst, text...)
	return append(dst, crlf...)
}

// appendMap begins a map: in RESP2 an array of keys and values.
func (c *conn) appendMap(entries int) {
	if c.proto == 3 {
		c.out = appendHead(c.out, '%', entries)
	} else {
		c.out = appendHead(c.out, '*', 2*entries)
	}
}

// appendBool appends a boolean: in RESP2 an integer.
func (c *conn) appendBool(b bool) {
	switch {
	case c.proto == 3 && b:
		c.out = append(c.out, "#t"+crlf...)
	case c.proto == 3:
		c.out = append(c.out, "#f"+crlf...)
	case b:
		c.out = appendInt(c.out, 1)
	default:
		c.out = appendInt(c.out, 0)
	}
}

// appendNull appends the answer that there is nothing.
func (c *conn) appendNull() {
	if c.proto == 3 {
		c.out = append(c.out, "_"+crlf...)
	} else {
		c.out = append(c.out, "$-1"+crlf...)
	}
}

// appendText appends text for people: in RESP3 a string that says so.
func (c *conn) appendText(text string) {
	if c.proto != 3 {
		c.out = appendBulk(c.out, text)
		return
	}
	c.out = appendHead(c.out, '=', len("txt:")+len(text))
	c.out = append(c.out, "txt:"...)
	c.out = append(c.out, text...)
	c.out = append(c.out, crlf...)
}
