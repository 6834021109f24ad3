package load

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/seqd/seqd/internal/testing/record"
)

// Shape is a biz type under load: its configuration, its properties for the checker, and how
// the load uses it.
type Shape struct {
	record.BizType
	weight  int   // how often mixed loops use it
	counts  []int // the counts that they ask for
	hammer  bool  // also batches of 10,000
	Late    bool  // it is created by the API under load
	ranged  bool  // it has consecutive numbers: callers take ranges of it
	Booked  bool  // callers reserve numbers of it
	Setting map[string]any
}

type Settings = map[string]any

// epoch is the default of seqd.
var epoch = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()

const (
	hammerCount   = 10_000
	MutableName   = "mutable"   // the load changes and disables it
	TemporaryName = "temp"      // the load deletes it and creates it again
	SwitchedName  = "switched"  // faults change its ordering
	MovingName    = "moving"    // faults change its sequencer
	CosIDName     = "shop.cart" // CosId's names have a namespace
	// created by the API after the first backup that a fault restores
	LateName = "late"
)

// Options are what the system under load has.
type Options struct {
	NoRedis bool
	// Lossy means that a failover of the store may lose what it has acknowledged.
	Lossy bool
}

// Shapes are the biz types under load, which differ in every setting that matters.
func Shapes(o Options) []Shape {
	all := []Shape{
		segment("order", 10, 1000, 1_000_000, []int{1, 2, 10, 100}, Settings{"start": 100}),
		segment("tiny", 6, 5, 50, []int{1, 3, 20}, Settings{"reserveSegments": 2}),
		segment("huge", 4, 100_000, 10_000_000, []int{1, 1000}, Settings{}),
		segment("fenced", 6, 500, 100_000, []int{1, 5, 50}, Settings{"onRedisDown": record.Reject}),
		segment("local", 6, 100, 1_000_000, []int{1, 10, 500}, Settings{"ordering": record.PerNode}),
		segment("invoice", 5, 100, 10_000, []int{1, 4, 30}, Settings{"reset": record.Daily, "plugins": plugins(Settings{"name": "format", "template": "INV-{date:20060102}-{seq:06}{check}", "check": "luhn"})}),
		segment("invite", 5, 1000, 100_000, []int{1, 2, 25}, Settings{"plugins": plugins(
			Settings{"name": "obfuscate", "digits": 12, "key": "a key of the laboratory, known to all"}, Settings{"name": "format", "template": "C{seq:012}-{check}", "check": "damm"})}),
		segment("audit", 2, 500, 100_000, []int{1, 3}, Settings{"plugins": plugins(Settings{"name": "history", "retention": "1h"})}),
		segment("limited", 3, 500, 100_000, []int{1, 2}, Settings{"plugins": plugins(Settings{"name": "rate-limit", "rate": 20, "burst": 40, "scope": "cluster"})}),
		segment(MutableName, 5, 200, 100_000, []int{1, 7}, Settings{}),
		segment(TemporaryName, 4, 200, 100_000, []int{1, 7}, Settings{}),
		segment(SwitchedName, 6, 200, 100_000, []int{1, 10, 50}, Settings{}),
		segment(LateName, 4, 1000, 100_000, []int{1, 10}, Settings{}),
		segment(CosIDName, 4, 1000, 100_000, []int{1, 10}, Settings{}),
		segment(MovingName, 6, 200, 100_000, []int{1, 10, 50}, Settings{}),
		segment("ledger", 8, 100, 100_000, []int{1, 2, 10, 100}, Settings{"sequencer": record.Store, "start": 50}),
		segment("receipt", 5, 100, 10_000, []int{1, 4, 30}, Settings{"sequencer": record.Store, "reset": record.Daily, "plugins": plugins(Settings{"name": "format", "template": "R-{date:20060102}-{seq:06}"})}),
		segment("bulk", 3, 1000, 100_000, []int{1, 1000}, Settings{"sequencer": record.Store}),
		keyed(segment("parcel", 6, 50, 10_000, []int{1, 5, 60}, Settings{"liveKeys": 3}), 8),
		keyed(segment("shelf", 4, 20, 10_000, []int{1, 5, 60}, Settings{"ordering": record.PerNode, "liveKeys": 2}), 5),
		gapless("bill", 4, Settings{"reservationTTL": "5s"}),
		gapless("credit", 3, Settings{"reservationTTL": "3s", "onRelease": record.Void}),
		gapless("voucher", 3, Settings{"reservationTTL": "5s", "reset": record.Daily, "start": 10,
			"plugins": plugins(Settings{"name": "format", "template": "V-{date:20060102}-{seq:06}"})}),
		keyed(gapless("rent", 4, Settings{"reservationTTL": "4s", "liveKeys": 2}), 5),
		snowflake("user", "wide", 8, []int{1, 10, 200}, 10, 12, Settings{}),
		snowflake("guest", "wide", 3, []int{1, 10}, 10, 12, Settings{}),
		snowflake("device", "offline", 5, []int{1, 10, 200}, 8, 13, Settings{"offlineStart": "4s"}),
	}
	byName := map[string]*Shape{}
	for i := range all {
		byName[all[i].Name] = &all[i]
	}
	for _, name := range []string{"huge", "local", "user", "bulk"} {
		byName[name].hammer, byName[name].MaxAsked = true, hammerCount
	}
	for _, name := range []string{"order", "tiny", "huge", "fenced", "local", SwitchedName, MovingName, "ledger", "bulk", CosIDName} {
		byName[name].ranged = true
	}
	byName["invoice"].Display = `^INV-(?P<period>\d{8})-(?P<number>\d{6,})\d$`
	byName["receipt"].Display = `^R-(?P<period>\d{8})-(?P<number>\d{6,})$`
	byName["voucher"].Display = `^V-(?P<period>\d{8})-(?P<number>\d{6,})$`
	byName["invite"].Display = `^C\d{12}-\d$`
	byName[LateName].Late = true
	// while the biz type is deleted and created again, a node may have either of the two
	byName[TemporaryName].NoOrder = true
	if o.NoRedis {
		withoutRedis(byName)
	}
	if o.Lossy {
		widen(all)
	}
	return all
}

// LossGap is above what a failover can lose here: batches of hammerCount for some seconds.
const LossGap = 20_000_000

// widen makes the gap above a failover so large that what is lost fits into it.
func widen(all []Shape) {
	for i := range all {
		if s := &all[i]; s.Strategy == record.Segment {
			s.Setting["restoreGap"], s.RestoreGap = LossGap, LossGap
		}
	}
}

// withoutRedis leaves out what needs Redis. The sequencer is not given then: the store is the
// default.
func withoutRedis(all map[string]*Shape) {
	for _, s := range all {
		delete(s.Setting, "sequencer")
		delete(s.Setting, "onRedisDown")
		if s.Ordering == record.Strict {
			s.Sequencer, s.OnRedisDown = record.Store, ""
		}
	}
	all["limited"].Setting["plugins"] = plugins(Settings{"name": "rate-limit", "rate": 20, "burst": 40})
}

func plugins(all ...Settings) []Settings { return all }

func segment(name string, weight int, step, maxStep int64, counts []int, more Settings) Shape {
	b := record.BizType{Name: name, Strategy: record.Segment, Ordering: record.Strict, OnRedisDown: record.Degrade, Start: 1, Step: step, MaxStep: maxStep, Reserve: 1, RestoreGap: 1_000_000}
	conf := Settings{"name": name, "step": step, "maxStep": maxStep, "targetDuration": "10s"}
	for key, value := range more {
		conf[key] = value
	}
	if value, given := more["ordering"].(string); given {
		b.Ordering, b.OnRedisDown = value, ""
	}
	if value, given := more["onRedisDown"].(string); given {
		b.OnRedisDown = value
	}
	if value, given := more["sequencer"].(string); given {
		b.Sequencer, b.OnRedisDown = value, ""
	}
	if value, given := more["reset"].(string); given {
		b.Reset = value
	}
	if value, given := more["start"].(int); given {
		b.Start = int64(value)
	}
	if value, given := more["reserveSegments"].(int); given {
		b.Reserve = int64(value)
	}
	b.MaxAsked = int64(counts[len(counts)-1])
	return Shape{BizType: b, weight: weight, counts: counts, Setting: conf}
}

// gapless is a biz type without gaps, whose numbers callers also reserve.
func gapless(name string, weight int, more Settings) Shape {
	b := record.BizType{Name: name, Strategy: record.Gapless, Start: 1, MaxAsked: 10, OnRelease: record.Reuse}
	conf := Settings{"name": name, "strategy": record.Gapless, "maxReserved": 3000}
	maps.Copy(conf, more)
	if value, given := more["onRelease"].(string); given {
		b.OnRelease = value
	}
	if value, given := more["reset"].(string); given {
		b.Reset = value
	}
	if value, given := more["start"].(int); given {
		b.Start = int64(value)
	}
	return Shape{BizType: b, weight: weight, counts: []int{1, 3, 10}, Booked: true, Setting: conf}
}

// keyed makes a biz type count for each of some keys.
func keyed(s Shape, keys int) Shape {
	s.Setting["keyed"] = true
	for i := range keys {
		s.Keys = append(s.Keys, fmt.Sprintf("t%d", i+1))
	}
	return s
}

// key draws the key of a call, "" if the biz type is not keyed.
func (s *Shape) key(r *rand.Rand) string {
	if len(s.Keys) == 0 {
		return ""
	}
	return Pick(r, s.Keys)
}

// Counters returns the names of the counters of a biz type, without periods.
func (s *Shape) Counters() (names []string) {
	for _, key := range s.Keys {
		names = append(names, s.Name+"/"+key)
	}
	if len(names) == 0 {
		names = []string{s.Name}
	}
	return names
}

func snowflake(name, group string, weight int, counts []int, bitsMachine, bitsSequence int, more Settings) Shape {
	conf := Settings{"name": name, "strategy": record.Snowflake, "bitsMachine": bitsMachine, "bitsSequence": bitsSequence}
	for key, value := range more {
		conf[key] = value
	}
	b := record.BizType{Name: name, Strategy: record.Snowflake, Group: group, Epoch: epoch, BitsMachine: bitsMachine, BitsSequence: bitsSequence, MaxAsked: int64(counts[len(counts)-1])}
	return Shape{BizType: b, weight: weight, counts: counts, Setting: conf}
}

// Configuration returns the value of SEQD_BIZTYPES: for a node that names all biz types, and for one
// that names few, and reads the others when it needs them. It names those that can begin without the
// store, and those whose numbers in hand it would skip each time it drops them.
func Configuration(all []Shape) (full, sparse string, err error) {
	var list, few []Settings
	for i := range all {
		if !all[i].Late {
			list = append(list, all[i].Setting)
		}
		_, offline := all[i].Setting["offlineStart"]
		if offline || all[i].Ordering == record.PerNode {
			few = append(few, all[i].Setting)
		}
	}
	text, err := json.Marshal(list)
	if err != nil {
		return "", "", err
	}
	short, err := json.Marshal(few)
	return string(text), string(short), err
}
