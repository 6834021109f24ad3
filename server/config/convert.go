package config

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/seqd/seqd/internal/literal"
)

var durationType = reflect.TypeFor[time.Duration]()

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

// assignWord gives text to a field that parses it itself, also if it looks like a number.
func assignWord(field encoding.TextUnmarshaler, raw any) error {
	var text string
	switch v := raw.(type) {
	case string:
		text = v
	case json.Number:
		text = v.String()
	default:
		return wrongType("text or a whole number", raw)
	}
	return field.UnmarshalText([]byte(text))
}

// wrongType says which type a setting without secrets must have. Of sections and lists it shows
// nothing: there may be secrets in them.
func wrongType(want string, raw any) error {
	switch v := raw.(type) {
	case string:
		return fmt.Errorf("%.200q is not %s", v, want)
	case bool:
		return fmt.Errorf("%v is not %s", v, want)
	case json.Number:
		return fmt.Errorf("%.200s is not %s", v, want)
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
	if number, isNumber := raw.(json.Number); isNumber && number == "0" {
		text, ok = "0", true
	}
	d, good := literal.Duration(text)
	if !ok || !good {
		return wrongType("a duration with a unit, such as 500ms, 2s or 30m", raw)
	}
	field.SetInt(int64(d))
	return nil
}

func wholeNumber(raw any) (int64, error) {
	number, ok := raw.(json.Number)
	n, good := literal.Int(number.String())
	if !ok || !good {
		return 0, wrongType("a whole number, such as 1000", raw)
	}
	return n, nil
}

func number(raw any) (float64, error) {
	number, ok := raw.(json.Number)
	f, good := literal.Float(number.String())
	if !ok || !good {
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
func fromText(field reflect.Value, text string) any {
	if field.Type() == durationType {
		return text
	}
	switch field.Kind() {
	case reflect.Bool:
		if b, ok := literal.Bool(text); ok {
			return b
		}
	case reflect.Int, reflect.Int64, reflect.Float64:
		if _, ok := literal.Float(text); ok {
			return json.Number(text)
		}
	case reflect.Slice:
		items := []any{}
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item != "" {
				items = append(items, item)
			}
		}
		return items
	}
	return text
}
