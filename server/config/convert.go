package config

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

var (
	durationType = reflect.TypeFor[time.Duration]()
	wordType     = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// assign sets field to raw, a value as a configuration file gives it, without guessing: text is not
// a number, a whole number has no fraction, a duration has a unit.
func assign(field reflect.Value, raw any) error {
	if field.Type() == durationType {
		return assignDuration(field, raw)
	}
	if word, ok := field.Addr().Interface().(encoding.TextUnmarshaler); ok {
		// A number that has a word for some value is still a number: its text parses words only.
		if _, isText := raw.(string); isText || field.Kind() != reflect.Int64 {
			return assignWord(word, raw)
		}
	}
	switch field.Kind() {
	case reflect.String:
		text, ok := raw.(string)
		if !ok {
			return wrongType("text", raw)
		}
		field.SetString(text)
	case reflect.Bool:
		b, ok := raw.(bool)
		if !ok {
			return wrongType("true or false", raw)
		}
		field.SetBool(b)
	case reflect.Int, reflect.Int64:
		n, err := wholeNumber(raw)
		if err != nil {
			return err
		}
		if field.OverflowInt(n) {
			return fmt.Errorf("%d is too large", n)
		}
		field.SetInt(n)
	case reflect.Float64:
		f, err := number(raw)
		if err != nil {
			return err
		}
		field.SetFloat(f)
	case reflect.Slice:
		return assignList(field, raw)
	default:
		return fmt.Errorf("settings of type %s are not supported", field.Type())
	}
	return nil
}

// assignWord gives text to a field that parses it itself, also if YAML read it as a number or a
// time.
func assignWord(field encoding.TextUnmarshaler, raw any) error {
	var text string
	switch v := raw.(type) {
	case string:
		text = v
	case time.Time: // which YAML makes of text that looks like one
		text = v.Format(time.RFC3339Nano)
	default:
		n, err := wholeNumber(raw)
		if err != nil {
			return wrongType("text or a whole number", raw)
		}
		text = strconv.FormatInt(n, 10)
	}
	return field.UnmarshalText([]byte(text))
}

// wrongType says which type a setting without secrets must have. Of sections and lists it shows
// nothing: there may be secrets in them.
func wrongType(want string, raw any) error {
	switch v := raw.(type) {
	case string:
		return fmt.Errorf("%q is not %s", v, want)
	case bool, int, int64, uint64, float64, time.Time:
		return fmt.Errorf("%v is not %s", v, want)
	}
	return wrongKind(want, raw)
}

// wrongKind is wrongType for a place that can have a section with secrets: its value is not shown.
func wrongKind(want string, raw any) error {
	if raw == nil {
		return fmt.Errorf("it has no value; %s is needed", want)
	}
	kind := "a value"
	switch reflect.TypeOf(raw).Kind() {
	case reflect.Map:
		kind = "a section"
	case reflect.Slice:
		kind = "a list"
	}
	return fmt.Errorf("%s is not %s", kind, want)
}

func assignDuration(field reflect.Value, raw any) error {
	text, ok := raw.(string)
	if !ok {
		if n, err := wholeNumber(raw); err == nil && n == 0 {
			field.SetInt(0)
			return nil
		}
		return wrongType("a duration with a unit, such as 500ms, 2s or 30m", raw)
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return wrongType("a duration with a unit, such as 500ms, 2s or 30m", raw)
	}
	field.SetInt(int64(d))
	return nil
}

func wholeNumber(raw any) (int64, error) {
	const want = "a whole number"
	switch v := raw.(type) {
	case int:
		return int64(v), nil
	case int64:
		return v, nil
	case uint64:
		if v <= math.MaxInt64 {
			return int64(v), nil
		}
	case float64:
		if v == math.Trunc(v) && math.Abs(v) <= 1<<53 {
			return int64(v), nil
		}
	}
	return 0, wrongType(want, raw)
}

func number(raw any) (float64, error) {
	f := math.NaN()
	switch v := raw.(type) {
	case float64:
		f = v
	default:
		if n, err := wholeNumber(raw); err == nil {
			f = float64(n)
		}
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, wrongType("a number", raw)
	}
	return f, nil
}

func assignList(field reflect.Value, raw any) error {
	items, ok := raw.([]any)
	if !ok {
		if texts, isTexts := raw.([]string); isTexts {
			field.Set(reflect.ValueOf(texts))
			return nil
		}
		return wrongType("a list", raw)
	}
	texts := make([]string, len(items))
	for i, item := range items {
		if texts[i], ok = item.(string); !ok {
			return fmt.Errorf("item %d: %w", i, wrongType("text", item))
		}
	}
	field.Set(reflect.ValueOf(texts))
	return nil
}

// fromText turns the text of an environment variable or a flag into what a configuration file would
// hold for this field.
func fromText(field reflect.Value, text string) (any, error) {
	if field.Type() == durationType {
		return text, nil
	}
	switch field.Kind() {
	case reflect.Bool:
		if b, err := strconv.ParseBool(text); err == nil {
			return b, nil
		}
		return nil, wrongType("true or false", text)
	case reflect.Int, reflect.Int64:
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, nil
		}
		if reflect.PointerTo(field.Type()).Implements(wordType) {
			return text, nil
		}
		return nil, wrongType("a whole number", text)
	case reflect.Float64:
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			return f, nil
		}
		return nil, wrongType("a number", text)
	case reflect.Slice:
		items := []any{}
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item != "" {
				items = append(items, item)
			}
		}
		return items, nil
	}
	return text, nil
}
