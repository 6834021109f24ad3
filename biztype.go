package seqd

// MaxNumber is the largest number that is ever issued: 2^53 − 1, the largest integer that
// JavaScript and Lua represent exactly along with all smaller ones.
const MaxNumber int64 = 1<<53 - 1

// MaxCount is the largest number of numbers in one call. It keeps the arithmetic of strategies far
// from overflow.
const MaxCount = 1_000_000

// MaxNameLength is the longest name of a biz type, in bytes.
const MaxNameLength = 64

// BizType is a named business scenario, such as order numbers or invite codes.
type BizType struct {
	// Name is the name that callers use. It is case-sensitive. See [CheckName].
	Name string
	// Strategy is the registered name of the strategy that makes the numbers.
	Strategy string
	// Settings are the settings of the strategy, of the type that it registered. They are shared
	// and must not be modified.
	Settings any
	// Events is whether events are made of what happens to the biz type.
	Events bool
	// Plugins are the bindings in the order of the configuration.
	Plugins []PluginBinding
	// Rejected are the rejection handlers in the order in which they are called.
	Rejected []RejectedBinding
}

// PluginBinding binds a plugin to one biz type. A plugin may be bound to many biz types, and a biz
// type may have many plugins.
type PluginBinding struct {
	// Name is the registered name of the plugin.
	Name string
	// Order is the place in the chain. Plugins with a smaller order run first.
	Order int
	// Settings are the settings of this binding, of the type that the plugin registered.
	Settings any
}

// RejectedBinding binds a rejection handler to a biz type. Biz types with the default of their
// strategy share one binding.
type RejectedBinding struct {
	// Name is the registered name of the handler.
	Name string
	// Settings are the settings of this binding, of the type that the handler registered.
	Settings any
}

// CheckName returns nil for a name of the form [A-Za-z][A-Za-z0-9._-]{0,63}, and an [Error] with
// [CodeInvalidBizType] for any other. It does not allocate for a valid name.
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
			"the biz type %q has a character at byte %d that is not allowed: it starts with a letter and continues with letters, digits, '.', '_' or '-'",
			name, i)
	}
	return nil
}
