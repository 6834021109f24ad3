// Package openfiles says how many files this process may have open.
package openfiles
