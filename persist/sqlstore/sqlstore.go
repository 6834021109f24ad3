// Package sqlstore is what stores in SQL databases share: persist/postgres and persist/mysql are
// thin drivers below it.
package sqlstore
