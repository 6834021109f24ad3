package definitions

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/literal"
)

// mergePatch applies a merge patch (RFC 7396).
func mergePatch(text, patch []byte) ([]byte, error) {
	to, err := literal.JSON(text)
	if err != nil {
		return nil, seqd.Errorf(seqd.CodeInvalidDefinition, "the patch cannot be applied: %v", err)
	}
	with, err := literal.JSON(patch)
	if _, ok := with.(map[string]any); err == nil && !ok || errors.Is(err, literal.ErrNotJSON) {
		return nil, seqd.Errorf(seqd.CodeInvalidDefinition, "the patch is not one JSON object")
	}
	if err != nil {
		return nil, seqd.Errorf(seqd.CodeInvalidDefinition, "the patch cannot be applied: %v", err)
	}
	if key := twice(with); key != "" {
		return nil, seqd.Errorf(seqd.CodeInvalidDefinition, "the patch has %.100q twice: keys are the same in any case", key)
	}
	return json.Marshal(merged(to, with))
}

// twice returns a key that an object, or an object in it, has twice, ignoring case; "" if there is
// none.
func twice(in any) string {
	fields, _ := in.(map[string]any)
	seen := make(map[string]bool, len(fields))
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		same := strings.ToLower(key)
		if seen[same] {
			return key
		}
		seen[same] = true
		if within := twice(fields[key]); within != "" {
			return within
		}
	}
	return ""
}

// merged returns to with the changes of a patch, whose keys differ in more than their case. It
// takes time in proportion to both.
func merged(to, with any) any {
	changes, ok := with.(map[string]any)
	if !ok {
		return with
	}
	result, known := make(map[string]any), make(map[string]string)
	if fields, ok := to.(map[string]any); ok {
		for key, value := range fields {
			result[key], known[strings.ToLower(key)] = value, key
		}
	}
	for key, value := range changes {
		if before, there := known[strings.ToLower(key)]; there && before != key { // keys of a configuration ignore case
			result[key] = result[before]
			delete(result, before)
		}
		if value == nil {
			delete(result, key)
			continue
		}
		result[key] = merged(result[key], value)
	}
	return result
}

// removesNothing returns the keys that a patch removes from a definition which does not have them:
// a mistyped one is not what was meant. Both are JSON objects.
func removesNothing(text, patch []byte) (keys []string) {
	var fields, removes map[string]json.RawMessage
	_, _ = json.Unmarshal(text, &fields), json.Unmarshal(patch, &removes)
	there := make(map[string]bool, len(fields))
	for key := range fields {
		there[strings.ToLower(key)] = true
	}
	for _, key := range slices.Sorted(maps.Keys(removes)) {
		if string(removes[key]) == "null" && !there[strings.ToLower(key)] {
			keys = append(keys, key)
		}
	}
	return keys
}
