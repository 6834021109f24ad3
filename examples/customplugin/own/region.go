package own

import (
	"context"
	"strings"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/plugin"
)

func init() {
	plugin.Register(plugin.Factory{
		Name:     "region",
		Help:     "Writes a region before each ID, and bounds how many a request gets.",
		Order:    300, // after obfuscate (100) and format (200)
		Quick:    true,
		Pure:     true, // so a dry run can show an example
		Settings: func() any { return &regionSettings{MaxBatch: 100} },
		New: func(_ plugin.Env, _ seqd.BizType, binding seqd.PluginBinding) (seqd.Plugin, error) {
			return &region{settings: *binding.Settings.(*regionSettings)}, nil
		},
		// What IDs look like depends on the code: with another one, seqd refuses to continue under
		// the same name.
		Shape: func(_ seqd.BizType, binding seqd.PluginBinding) (string, error) {
			return binding.Settings.(*regionSettings).Code, nil
		},
	})
}

// regionSettings are what a binding says: {name: region, code: EU, maxBatch: 10}.
type regionSettings struct {
	// Code stands before every ID: two capital letters.
	Code string `config:"code"`
	// MaxBatch is how many IDs one request may ask for.
	MaxBatch int `config:"maxBatch" range:"at least 1" unit:"IDs"`
}

// Validate is asked when the configuration is read; every problem it finds names its key.
func (s *regionSettings) Validate() []seqd.Problem {
	var problems seqd.Problems
	problems.Check(len(s.Code) == 2 && strings.Trim(s.Code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "", "code", "%q is not two capital letters", s.Code)
	problems.Check(s.MaxBatch >= 1, "maxBatch", "%d is less than 1", s.MaxBatch)
	return problems
}

// region puts a code before IDs and refuses large batches.
type region struct {
	seqd.NopPlugin // what is not replaced below does nothing
	settings       regionSettings
}

var (
	_ seqd.Plugin = (*region)(nil)
	_ seqd.Reader = (*region)(nil)
)

// Before vetoes before a number is spent.
func (r *region) Before(_ context.Context, call *seqd.Call) error {
	if call.Count > r.settings.MaxBatch {
		return seqd.Errorf(seqd.CodeInvalidCount, "region %s gives at most %d IDs at once", r.settings.Code, r.settings.MaxBatch)
	}
	return nil
}

// After rewrites how each number is shown, never the number.
func (r *region) After(_ context.Context, call *seqd.Call) error {
	call.Sequence.Show(r.rewrite)
	return nil
}

func (r *region) rewrite(dst []byte, _ int64, shown []byte) []byte {
	dst = append(dst, r.settings.Code...)
	dst = append(dst, '-')
	return append(dst, shown...)
}

// Read takes the code off again, for GET /seq/{bizType}/parse/{id}.
func (r *region) Read(_ context.Context, shown string, _ seqd.Counter) (seqd.Reading, error) {
	rest, ok := strings.CutPrefix(shown, r.settings.Code+"-")
	if !ok {
		return seqd.Reading{}, seqd.Errorf(seqd.CodeInvalidID, "the ID does not begin with %s-", r.settings.Code)
	}
	return seqd.Reading{Shown: rest}, nil
}
