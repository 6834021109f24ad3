package postgres

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/sqlstore"
)

// safe returns the settings of a server that can be used, with changes: name=value sets a value,
// -name removes it.
func safe(changes ...string) settings {
	values := map[string]string{
		"fsync": "on", "full_page_writes": "on", "data_sync_retry": "off", "zero_damaged_pages": "off", "ignore_checksum_failure": "off",
		"synchronous_commit": "on", "synchronous_standby_names": "",
	}
	for _, change := range changes {
		if name, gone := strings.CutPrefix(change, "-"); gone {
			delete(values, name)
			continue
		}
		name, value, _ := strings.Cut(change, "=")
		values[name] = value
	}
	s := settings{version: 15_00_04, values: make(map[string]*string)}
	for name, value := range maps.All(values) {
		s.values[name] = &value
	}
	return s
}

// with changes settings.
func (s settings) with(change func(*settings)) settings {
	change(&s)
	return s
}

func TestSettings(t *testing.T) {
	inStep := func(s *settings) { s.standbys, s.inStep = 2, 1 }
	for name, test := range map[string]struct {
		settings settings
		lossless bool
		refused  string // "" for a server that can be used
		away     bool   // it can pass
	}{
		"the defaults":              {settings: safe()},
		"commits wait for one disk": {settings: safe("synchronous_commit=local")},
		"or for a standby as well":  {settings: safe("synchronous_commit=remote_apply", "synchronous_standby_names=*")},
		"no fsync":                  {settings: safe("fsync=off"), refused: "fsync is off: a crash of the machine loses acknowledged numbers; set it to on"},
		"half pages":                {settings: safe("full_page_writes=off"), refused: "full_page_writes is off"},
		"retried syncs":             {settings: safe("data_sync_retry=on"), refused: "data_sync_retry is on"},
		"emptied pages":             {settings: safe("zero_damaged_pages=on"), refused: "zero_damaged_pages is on"},
		"damaged pages":             {settings: safe("ignore_checksum_failure=on"), refused: "ignore_checksum_failure is on"},
		"late commits":              {settings: safe("synchronous_commit=off"), refused: "synchronous_commit is off"},
		"two at once":               {settings: safe("fsync=off", "synchronous_commit=off"), refused: "fsync is off: a crash of the machine loses acknowledged numbers; set it to on; synchronous_commit is off"},
		"another product":           {settings: safe("-fsync"), refused: "does not know the setting fsync"},
		"too old":                   {settings: safe().with(func(s *settings) { s.version = 12_00_17 }), refused: "version 12.17, and seqd needs PostgreSQL 13"},
		"far too old":               {settings: safe().with(func(s *settings) { s.version = 9_06_24 }), refused: "version 9.6.24"},
		"the oldest":                {settings: safe().with(func(s *settings) { s.version = 13_00_00 })},
		"a standby":                 {settings: safe().with(func(s *settings) { s.recovery, s.readOnly = true, true }), refused: "a standby", away: true},
		"a standby without fsync":   {settings: safe("fsync=off").with(func(s *settings) { s.recovery = true }), refused: "a standby", away: true},
		"read only":                 {settings: safe().with(func(s *settings) { s.readOnly = true }), refused: "default_transaction_read_only", away: true},

		"functions of others": {settings: safe().with(func(s *settings) { s.catalogLater = true }), refused: "search_path has pg_catalog behind"},

		"lossless":                      {settings: safe("synchronous_standby_names=s1").with(inStep), lossless: true},
		"lossless, remote_apply":        {settings: safe("synchronous_standby_names=s1", "synchronous_commit=remote_apply").with(inStep), lossless: true},
		"lossless, no names":            {settings: safe().with(inStep), lossless: true, refused: "synchronous_standby_names is empty"},
		"lossless, no warnings":         {settings: safe("synchronous_standby_names=s1", "client_min_messages=error").with(inStep), lossless: true, refused: "client_min_messages is error"},
		"lossless, local commits":       {settings: safe("synchronous_standby_names=s1", "synchronous_commit=local").with(inStep), lossless: true, refused: "synchronous_commit is local"},
		"lossless, remote_write":        {settings: safe("synchronous_standby_names=s1", "synchronous_commit=remote_write").with(inStep), lossless: true, refused: "synchronous_commit is remote_write"},
		"lossless, no fsync":            {settings: safe("synchronous_standby_names=s1", "fsync=off").with(inStep), lossless: true, refused: "fsync is off"},
		"lossless, no standby":          {settings: safe("synchronous_standby_names=s1"), lossless: true, refused: "no standby is connected", away: true},
		"lossless, asynchronous":        {settings: safe("synchronous_standby_names=s1").with(func(s *settings) { s.standbys = 2 }), lossless: true, refused: "no connected standby (there are 2)", away: true},
		"lossless, and it is not shown": {settings: safe("synchronous_standby_names=s1").with(func(s *settings) { s.standbys, s.hidden = 1, true }), lossless: true, refused: "GRANT pg_read_all_stats"},
	} {
		err := test.settings.check(test.lossless)
		if test.refused == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		_, refused := errors.AsType[sqlstore.Refused](err)
		if err == nil || !strings.Contains(err.Error(), test.refused) || errors.Is(err, persist.ErrUnavailable) != test.away || refused == test.away {
			t.Errorf("%s: %v (%T), want one with %q, away %t", name, err, err, test.refused, test.away)
		}
	}
}
