// Package openfiles returns the limit of open files of this process.
package openfiles
