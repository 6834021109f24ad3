package config

import (
	"reflect"
	"time"
)

// Setting returns the value of a key in settings, a struct with `config` tags or a pointer to one;
// a key in a nested section is written with a dot. ok is false if there is no such key, or if its
// values are of another kind. It is for callers that do not know the type of the settings.
func Setting[T any](settings any, key string) (value T, ok bool) {
	section := reflect.Indirect(reflect.ValueOf(settings))
	if section.Kind() != reflect.Struct {
		return value, false
	}
	to := reflect.ValueOf(&value).Elem()
	for _, k := range keysOf("", section) {
		if k.Path == key && k.field.Kind() == to.Kind() {
			to.Set(k.field.Convert(to.Type()))
			return value, true
		}
	}
	return value, false
}

// WriteTimeLeft returns how much of server.writeTimeout is left, beyond what writing an answer
// needs, to a request for the biz type that may wait longest, and its name; "" if none waits.
func (c *Config) WriteTimeLeft() (left time.Duration, bizType string) {
	left = c.Server.WriteTimeout
	for _, b := range c.BizTypes {
		if wait := c.wait(b); wait > 0 && c.Server.WriteTimeout-wait-c.spareTime() < left {
			left, bizType = c.Server.WriteTimeout-wait-c.spareTime(), b.Name
		}
	}
	return left, bizType
}
