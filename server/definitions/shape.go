package definitions

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/bounded"
	"github.com/seqd/seqd/plugin"
	"github.com/seqd/seqd/strategy"
)

// Shape returns what the IDs of a biz type look like, with what its plugins make of the numbers.
// known is the shape that it has on record, or that was forced upon its definition, "" if there is
// none: plugins that have several ways of showing numbers go on with the one in it.
func Shape(bizType seqd.BizType, known string) (shape string, err error) {
	defer bounded.Recover("the shape of "+bizType.Name, &err)
	factory, err := strategy.Lookup(bizType.Strategy)
	if err != nil {
		return "", err
	}
	shape = factory.Shape(bizType)
	for _, binding := range plugin.Chain(bizType) {
		factory, err := plugin.Lookup(binding.Name)
		if err != nil {
			return "", err
		}
		if factory.Shape == nil {
			continue
		}
		own, err := shapeLike(factory, bizType, binding, ofPlugin(binding.Name, known))
		if err != nil {
			return "", fmt.Errorf("plugin %s: %w", binding.Name, err)
		}
		shape += inShape(binding.Name, own)
	}
	return shape, nil
}

// displayOf returns the text that changes with how the numbers of a stored definition are shown, ""
// if the plugins do not say. It makes no key.
func displayOf(b seqd.BizType, said stored) string {
	if maker(b) != "" {
		return ""
	}
	shape, _ := Shape(b, said.Shape)
	return display(shape, b, said.Definition)
}

// display is displayOf for a shape, which may leave open which of its ways a plugin goes on with. So
// the settings of the plugins that change how numbers are shown belong to it, and the time zone, in
// which these show dates: a shape has that only if numbers reset.
func display(shape string, b seqd.BizType, definition []byte) string {
	if shape == "" {
		return ""
	}
	var plugins []json.RawMessage
	_ = json.Unmarshal(keyOf(definition, "plugins"), &plugins) // there are none
	hash := sha256.New()
	_, _ = io.WriteString(hash, shape)
	for _, binding := range plugins {
		var name string
		_ = json.Unmarshal(keyOf(binding, "name"), &name)
		if factory, err := plugin.Lookup(name); err == nil && factory.Shape != nil {
			_, _ = hash.Write(canonical(binding))
			_, _ = io.WriteString(hash, seqd.TraitsOf(b.Settings).Calendar.Zone.String())
		}
	}
	return hex.EncodeToString(hash.Sum(nil)[:8])
}

func shapeLike(factory plugin.Factory, bizType seqd.BizType, binding seqd.PluginBinding, known string) (string, error) {
	if factory.ShapeLike != nil {
		return factory.ShapeLike(bizType, binding, known)
	}
	return factory.Shape(bizType, binding)
}

// inShape returns the part of a shape that is of a plugin.
func inShape(name, own string) string { return fmt.Sprintf(" %s(%s)", name, own) }

// ofPlugin returns the part of a shape that is of a plugin, and what follows it.
func ofPlugin(name, shape string) string {
	_, own, _ := strings.Cut(shape, " "+name+"(")
	return own
}

// checkNew returns what the plugins of a biz type must know before it gets its first shape, or
// before another one is forced upon it. known is the one before, "" if there is none.
func checkNew(bizType seqd.BizType, known string) []seqd.Problem {
	return unrecorded(bizType, known, known != "")
}

// Unrecorded returns what the plugins of a biz type must know before it goes on above numbers that
// were issued, if the store has no record of their shape.
func Unrecorded(bizType seqd.BizType) []seqd.Problem { return unrecorded(bizType, "", true) }

// unrecorded returns what the plugins of a biz type must know. known is its last shape, "" if that
// is not known, and issued is whether it has issued.
func unrecorded(bizType seqd.BizType, known string, issued bool) (problems []seqd.Problem) {
	for i, binding := range bizType.Plugins {
		factory, err := plugin.Lookup(binding.Name)
		own := ofPlugin(binding.Name, known)
		if err != nil || factory.CheckNew == nil || own != "" && sameOwn(bizType, known) {
			continue
		}
		for _, problem := range factory.CheckNew(bizType, binding, issued, own) {
			problems = append(problems, seqd.Problem{Key: fmt.Sprintf("plugins[%d].%s", i, problem.Key), Text: problem.Text})
		}
	}
	return problems
}

// Alone returns the biz types that can issue although the store cannot be reached, all of one
// cluster, and that cluster. See [strategy.Factory].Alone.
func Alone(bizTypes []seqd.BizType, env strategy.Env) (alone map[string]bool, cluster string) {
	alone = make(map[string]bool)
	for _, b := range bizTypes {
		factory, err := strategy.Lookup(b.Strategy)
		if err != nil || factory.Alone == nil || maker(b) != "" { // its shape would make a new key
			continue
		}
		shape, err := Shape(b, "") // plugins have one way for what such strategies make: no keys, no periods
		if err != nil {
			continue // building it reports the error
		}
		remembered, ok := factory.Alone(env, b, shape)
		if ok && (cluster == "" || cluster == remembered) {
			cluster, alone[b.Name] = remembered, true
		}
	}
	return alone, cluster
}
