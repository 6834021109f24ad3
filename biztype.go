package seqd

// MaxNumber is the largest number that is ever issued: 2^53 − 1, the last integer that JavaScript
// and Lua hold exactly.
const MaxNumber int64 = 1<<53 - 1

// MaxCount is how many numbers one call can ask for. It keeps the sums of strategies far from
// overflow.
const MaxCount = 1_000_000

// MaxNameLength is the longest name of a biz type, in bytes.
const MaxNameLength = 64

// BizType is the definition of one business scenario, such as order numbers or invite codes.
type BizType struct {
	// Name is what callers ask for, see [CheckName]. Case-sensitive.
	Name string
	// Strategy is the registered name of the strategy that makes the numbers.
	Strategy string
	// Settings are the strategy's own settings, of the type the strategy registered. They are
	// shared and never written to.
	Settings any
	// Plugins stand around the strategy, in the order of the configuration.
	Plugins []PluginBinding
	// Rejected are told of refusals, in this order.
	Rejected []RejectedBinding
}

// PluginBinding puts a plugin into the chain of one biz type. One plugin may be bound to many biz
// types, and many to one.
type PluginBinding struct {
	// Name is the registered name of the plugin.
	Name string
	// Order is its place in the chain: smaller runs first.
	Order int
	// Settings are the plugin's own settings for this binding, of the type the plugin registered.
	Settings any
}

// RejectedBinding is a rejection handler as the configuration asks for it. Biz types that take the
// default of their strategy share one binding.
type RejectedBinding struct {
	// Name is the registered name of the handler.
	Name string
	// Settings are the handler's own settings, of the type the handler registered.
	Settings any
}

// CheckName returns nil for a name of the form [A-Za-z][A-Za-z0-9._-]{0,63}, else an [Error] with
// [CodeInvalidBizType] that says what is wrong. It does not allocate for a good name.
func CheckName(name string) error {
	if name == "" {
		return Errorf(CodeInvalidBizType, "the biz type is empty")
	}
	if len(name) > MaxNameLength {
		return Errorf(CodeInvalidBizType, "the biz type has %d bytes, more than %d", len(name), MaxNameLength)
	}
	for i := range len(name) {
		c := name[i]
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		inner := '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-'
		if letter || i > 0 && inner {
			continue
		}
		return Errorf(CodeInvalidBizType,
			"the biz type %q has a character at byte %d that is not allowed: it starts with a letter and goes on with letters, digits, '.', '_' or '-'",
			name, i)
	}
	return nil
}
