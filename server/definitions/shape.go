package definitions

import (
	"fmt"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/plugin"
	"github.com/seqd/seqd/strategy"
)

// Shape returns what the IDs of a biz type look like, with what its plugins make of the numbers.
func Shape(bizType seqd.BizType) (shape string, err error) {
	defer recovered("the shape of "+bizType.Name, &err)
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
		own, err := factory.Shape(bizType, binding)
		if err != nil {
			return "", fmt.Errorf("plugin %s: %w", binding.Name, err)
		}
		shape += fmt.Sprintf(" %s(%s)", binding.Name, own)
	}
	return shape, nil
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
		shape, err := Shape(b)
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
