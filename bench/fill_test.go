package main

import (
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
)

func TestRenamed(t *testing.T) {
	record := must.Get(persist.Encode(persist.Counter{BizTag: template, Max: 7, Step: 1000}))(t)
	e := must.Get(parseEnvelope(record))(t)
	c, err := persist.Decode[persist.Counter](e.renamed(typeName(999_999)))
	if want := (persist.Counter{BizTag: "type999999", Max: 7, Step: 1000}); err != nil || c != want {
		t.Errorf("%+v, %v; want %+v", c, err, want)
	}
	if _, err := parseEnvelope([]byte("no record")); err == nil {
		t.Error("what is no record is accepted")
	}
}

func TestCopyStatement(t *testing.T) {
	got := copyStatement("t", []pgColumn{{"kind", "text", false}, {"name", "bytea", true}, {"n", "bigint", false}}, 3)
	const want = "INSERT INTO t (kind, name, n) SELECT replace(kind, 'type000000', 'type' || lpad(i::text, 6, '0')), " +
		"convert_to(replace(convert_from(name, 'UTF8'), 'type000000', 'type' || lpad(i::text, 6, '0')), 'UTF8'), n " +
		"FROM t, generate_series(1, 2) AS i WHERE position('type000000'::bytea IN name) > 0"
	if got != want {
		t.Errorf("the statement is\n%s", got)
	}
	if got := copyStatement("t", []pgColumn{{"one", "boolean", true}, {"name", "text", false}}, 3); got != "" {
		t.Errorf("a table without names in its key gets %q", got)
	}
}
