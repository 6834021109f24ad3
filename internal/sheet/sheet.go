// Package sheet writes cells of CSV that a spreadsheet shows as they are. A spreadsheet calculates
// texts that begin like a formula, rounds numbers that have more than 15 digits, and reads UTF-8
// as another encoding unless the file begins with a mark. An apostrophe makes a cell text.
package sheet

import (
	"strconv"
	"strings"
)

// Mark is the byte order mark that a file begins with, so that spreadsheets read it as UTF-8.
const Mark = "\ufeff"

// exactDigits is how many digits of a number a spreadsheet keeps.
const exactDigits = 15

// Number returns the cell of a number: its decimal digits, with an apostrophe before them if a
// spreadsheet would round it.
func Number(n int64) string {
	digits := strconv.FormatInt(n, 10)
	if len(strings.TrimPrefix(digits, "-")) > exactDigits {
		return "'" + digits
	}
	return digits
}

// Text returns the cell of a text that people wrote, with an apostrophe before each = + - or @
// that begins it. Where a spreadsheet separates cells by other characters than commas, a cell
// begins after those too.
func Text(text string) string {
	var cell strings.Builder
	begins := true
	for _, r := range text {
		if begins && strings.ContainsRune("=+-@＝＋－＠", r) {
			cell.WriteByte('\'')
		}
		begins = strings.ContainsRune(`,;|"`, r) || begins && r == ' '
		cell.WriteRune(r)
	}
	return cell.String()
}
