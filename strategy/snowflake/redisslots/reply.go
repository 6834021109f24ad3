package redisslots

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/seqd/seqd/persist"
)

// encode returns the text of a field of the hash, "" for nil. Equal values have equal texts,
// because scripts compare them.
func encode[T persist.SlotSet | persist.Slot](v *T) string {
	if v == nil {
		return ""
	}
	text, _ := json.Marshal(v) // it never fails for strings and numbers
	return string(text)
}

// decode accepts exactly what encode writes. If another text decoded to the same value, a swap
// would never find it as it was seen.
func decode[T interface {
	persist.SlotSet | persist.Slot
	Validate() error
}](field, text string) (v T, err error) {
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return v, damaged(field, text)
	}
	if encode(&v) != text {
		return v, damaged(field, text)
	}
	if err := v.Validate(); err != nil {
		return v, fmt.Errorf("the field %s is damaged: %w", field, err)
	}
	return v, nil
}

func damaged(field, text string) error {
	return fmt.Errorf("%w: the field %.100q is damaged: it holds %.200q", persist.ErrInvalid, field, text)
}

// reply reads the array that a script returned. Anything unexpected sets err.
type reply struct {
	items []any
	err   error
}

// is reports whether the reply begins with word and has at least size items.
func (r *reply) is(word string, size int) bool {
	return len(r.items) >= size && r.items[0] == word
}

// strange is the error for an unexpected answer.
func (r *reply) strange() error {
	return fmt.Errorf("%w: the script in Redis answered %.200q, which this build does not understand", persist.ErrInvalid, fmt.Sprint(r.items))
}

func (r *reply) text(i int) string {
	text, ok := r.items[i].(string)
	if !ok || text == "" {
		r.err = r.strange()
	}
	return text
}

func (r *reply) number(i int) int64 {
	n, err := strconv.ParseInt(r.text(i), 10, 64)
	if err != nil || n < 0 || n > persist.MaxNumber {
		r.err = r.strange()
	}
	return n
}

// contents reads the bootstrap part at i and the slots after it. It leaves out slots that were not
// asked for. ids are ascending; none means all.
func (r *reply) contents(i int, ids []int64) (set *persist.SlotSet, slots []persist.Slot, err error) {
	if r.items[i] != nil {
		text, _ := r.items[i].(string)
		value, err := decode[persist.SlotSet]("set", text)
		if err != nil {
			return nil, nil, err
		}
		set = &value
	}
	rest := r.items[i+1:]
	if len(rest)%2 != 0 {
		return nil, nil, r.strange()
	}
	for ; len(rest) > 0; rest = rest[2:] {
		field, _ := rest[0].(string)
		text, _ := rest[1].(string)
		slot, err := decode[persist.Slot](field, text)
		switch {
		case err != nil:
			return nil, nil, err
		case strconv.FormatInt(slot.ID, 10) != field:
			return nil, nil, damaged(field, text)
		}
		if _, asked := slices.BinarySearch(ids, slot.ID); asked || len(ids) == 0 {
			slots = append(slots, slot)
		}
	}
	slices.SortFunc(slots, func(a, b persist.Slot) int { return int(a.ID - b.ID) })
	for j := 1; j < len(slots); j++ {
		if slots[j].ID == slots[j-1].ID {
			return nil, nil, r.strange()
		}
	}
	return set, slots, nil
}
