package statefile

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

func sample() record {
	return record{
		identity: Identity{Cluster: "00112233445566778899aabbccddeeff", Layout: ` unit=1ms, \ ü 😀`, Key: "shop.8080.10.0.0.1"},
		state:    State{MachineID: 7, Token: "a1", Lower: 1000, Until: 6000, Reserved: 60000, Progress: 7000, Users: "order,user"},
		inode:    inode{device: 65024, number: 12, born: 1_700_000_000_123_456_789},
	}
}

func TestEncode(t *testing.T) {
	r := sample()
	want := header + `format=1
cluster=00112233445566778899aabbccddeeff
layout=\ unit=1ms, \\ \u00FC \uD83D\uDE00
key=shop.8080.10.0.0.1
machineId=7
token=a1
lower=1000
until=6000
reserved=60000
progress=7000
users=order,user
device=65024
inode=12
born=1700000000123456789
`
	got := string(r.encode())
	if rest, found := strings.CutPrefix(got, want); !found || len(rest) != len("checksum=")+64+1 {
		t.Errorf("got\n%s", got)
	}
	if back, err := parse([]byte(got)); err != nil || back != r {
		t.Errorf("%+v became %+v, %v", r, back, err)
	}
}

func TestParseRefuses(t *testing.T) {
	r := sample()
	body, _, _ := strings.Cut(string(r.encode()), checksumKey)
	for _, c := range []struct{ old, new string }{
		{"format=1", "format=0"}, {"format=1", "format=01"}, {"format=1\n", ""}, {"format=1", "format"},
		{"machineId=7\n", ""}, {"machineId=7", "machineId=+7"}, {"machineId=7", "machineId=-7"}, {"machineId=7", "machineId=07"},
		{"machineId=7", "machineId=7\nmachineId=7"}, {"machineId=7", "machineId=7\nanother=7"}, {"lower=1000", "lower=9223372036854775808"},
		{"lower=1000", "lower=6001"}, {"until=6000", "until=-1"}, {"token=a1", "token="}, {"token=a1", `token=a\`}, {"token=a1", `token=\u00`},
		{"token=a1", `token=\u0061`}, {"token=a1", `token=\uD83D`}, {"token=a1", `token=\uzzzz`}, {"token=a1", "token=ä"}, {"aabbcc", "AABBCC"}, {"cluster=00", "cluster=0"},
		{"device=65024", "device=-1"}, {"device=", "Device="}, {"# All", "# all"}, {"token=a1", "token=a1\r"},
		{"token=a1", "token=" + strings.Repeat("a", maxText+1)}, {"token=a1", "token=" + strings.Repeat("a", maxSize)},
	} {
		changed := strings.Replace(body, c.old, c.new, 1)
		if changed == body {
			t.Fatalf("%q is not in the text", c.old)
		}
		if got, err := parse(seal([]byte(changed))); !errors.Is(err, ErrDamaged) {
			t.Errorf("%q instead of %q: %+v, %v", c.new, c.old, got, err)
		}
	}
	newer := seal([]byte("# Something else\nformat=2\nwhatever=1\n"))
	if _, err := parse(newer); !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), "format 2") {
		t.Errorf("format 2: %v", err)
	}
}

func TestParseRefusesEveryDamage(t *testing.T) {
	r := sample()
	whole := r.encode()
	for size := range whole {
		must.Is(t, must.Err(parse(whole[:size])), ErrDamaged, "cut to %d bytes", size)
	}
	for i := range whole {
		for bit := range 8 {
			flipped := slices.Clone(whole)
			flipped[i] ^= 1 << bit
			must.Is(t, must.Err(parse(flipped)), ErrDamaged, "bit %d of byte %d flipped", bit, i)
		}
	}
	must.Is(t, must.Err(parse(append(whole, '\n'))), ErrDamaged, "a line more")
}

// FuzzParse also parses each text with a correct checksum, because random texts never have one.
func FuzzParse(f *testing.F) {
	r := sample()
	whole := r.encode()
	f.Add(whole)
	body, _, _ := strings.Cut(string(whole), checksumKey)
	f.Add([]byte(body))
	f.Add([]byte(strings.Replace(body, "token=a1", `token=\ \\\u0000`, 1)))
	f.Add([]byte("format=2\n"))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, text := range [][]byte{text, seal(slices.Clone(text))} {
			r, err := parse(text)
			switch {
			case err == nil && string(r.encode()) != string(text):
				t.Errorf("accepted\n%q\nwrites\n%q", text, r.encode())
			case err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNewer):
				t.Errorf("%q: %v", text, err)
			}
		}
	})
}
