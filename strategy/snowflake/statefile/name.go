package statefile

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"runtime"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Name returns the name of the state file of an instance, without a folder:
// <app>:<port>:<ip-number>.properties.
//
// The number of an IPv4 address, or of one mapped into IPv6, is decimal: 10.0.0.1 is 167772161.
// That of an IPv6 address has 32 hexadecimal digits, so that ::1 is not taken for 0.0.0.1; its zone
// is left out. The zero Addr has the number of ::.
//
// The percent sign, and characters in app that a file name cannot contain (a slash, control
// characters, bytes that are not UTF-8; on Windows also \:*?"<>|), become %XX for each byte, in
// upper case. On Windows the two colons become %3A. So different apps have different names, except
// on file systems that ignore case or normalize Unicode; there File.Load returns ErrForeign. The
// result may be longer than the file system allows, which Open reports.
func Name(app string, port int, ip netip.Addr) string { return nameOn(runtime.GOOS, app, port, ip) }

func nameOn(goos, app string, port int, ip netip.Addr) string {
	colon, forbidden := ":", "%/"
	if goos == "windows" {
		colon, forbidden = "%3A", `%/\:*?"<>|`
	}
	return escapeName(app, forbidden) + colon + strconv.Itoa(port) + colon + Number(ip) + ".properties"
}

// Number returns an IP address as a number: an IPv4 address in decimal, an IPv6 address as 32
// hexadecimal digits.
func Number(ip netip.Addr) string {
	if ip = ip.Unmap(); ip.Is4() {
		b := ip.As4()
		return strconv.FormatUint(uint64(b[0])<<24|uint64(b[1])<<16|uint64(b[2])<<8|uint64(b[3]), 10)
	}
	b := ip.As16()
	return hex.EncodeToString(b[:])
}

func escapeName(app, forbidden string) string {
	var out strings.Builder
	for len(app) > 0 {
		r, size := utf8.DecodeRuneInString(app)
		if r == utf8.RuneError && size == 1 || unicode.IsControl(r) || strings.ContainsRune(forbidden, r) {
			for _, b := range []byte(app[:size]) {
				_, _ = fmt.Fprintf(&out, "%%%02X", b)
			}
		} else {
			_, _ = out.WriteString(app[:size])
		}
		app = app[size:]
	}
	return out.String()
}
