package config

// Forget drops what only decoding further definitions needs.
func Forget(c *Config) { c.definitions, c.defaults, c.reach = nil, nil, nil }
