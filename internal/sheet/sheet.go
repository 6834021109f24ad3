// Package sheet writes cells of CSV that a spreadsheet shows as they are. A spreadsheet calculates
// texts that begin like a formula, rounds numbers that have more than 15 digits, drops their
// leading zeros, takes 1E5 and MAR-01 for a number and a date, and reads UTF-8 as another encoding
// unless the file begins with a mark. An apostrophe makes a cell text.
package sheet

import (
	"regexp"
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

// converted matches what a spreadsheet may take for a number, a date or a truth: all that does not
// begin with a letter, and words that mean one of them in English.
var converted = regexp.MustCompile(`(?i)^([^\pL]|(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|true$|false$))`)

// ID returns the cell of an ID, with an apostrophe before it if a spreadsheet might change it.
func ID(id string) string {
	if n, err := strconv.ParseInt(id, 10, 64); err == nil && strconv.FormatInt(n, 10) == id {
		return Number(n)
	}
	cell := Text(id)
	if strings.HasPrefix(cell, "'") || !converted.MatchString(id) {
		return cell
	}
	return "'" + cell
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
