package record

import (
	"encoding/json"
	"fmt"
	"strconv"
)

var (
	_ json.Marshaler   = Runs(nil)
	_ json.Unmarshaler = (*Runs)(nil)
)

// MarshalJSON implements [json.Marshaler].
func (rs Runs) MarshalJSON() ([]byte, error) {
	text := make([]byte, 0, 2+24*len(rs))
	text = append(text, '[')
	for i, r := range rs {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, '[')
		text = strconv.AppendInt(text, r.First, 10)
		text = append(text, ',')
		text = strconv.AppendInt(text, r.Count, 10)
		text = append(text, ',')
		text = strconv.AppendInt(text, r.Step, 10)
		text = append(text, ']')
	}
	return append(text, ']'), nil
}

// UnmarshalJSON implements [json.Unmarshaler]. It rejects invalid runs: without numbers, or not in
// ascending order.
func (rs *Runs) UnmarshalJSON(text []byte) error {
	var all [][3]int64
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	*rs = make(Runs, len(all))
	for i, r := range all {
		if r[1] < 1 || r[2] < 1 {
			return fmt.Errorf("no run: %v", r)
		}
		(*rs)[i] = Run{r[0], r[1], r[2]}
	}
	return nil
}
