package seqd

// Problem is one setting that is wrong.
type Problem struct {
	// Key is the setting's name as it stands in the configuration.
	Key string
	// Text says what is wrong and what would be right.
	Text string
}

// Validator is what the settings of a strategy or plugin implement to check themselves.
type Validator interface {
	// Validate returns every problem, none for good settings.
	Validate() []Problem
}
