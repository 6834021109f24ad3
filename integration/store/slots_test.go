package store

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/mongo"
)

const registry = "order"

var slotSet = persist.SlotSet{Incarnation: strings.Repeat("a1", 16), Layout: "12/10/1ms", Floor: 7, Ahead: 5000}

func leased(id int64) *persist.Slot {
	return &persist.Slot{ID: id, Key: "seqd.8080.10.0.0.1", Token: "t", Until: 100, Reserved: 200, RenewedAt: 50}
}

func swap(t *testing.T, s *mongo.Store, swap persist.SlotSwap, want bool) {
	t.Helper()
	if made, err := s.Slots().Swap(t.Context(), registry, swap); err != nil || made != want {
		t.Fatalf("swap: %v, %v; want %v", made, err, want)
	}
}

// As TestWriteConcern, for machine IDs. Only the requested fields are read, and a swap that
// succeeds reads nothing.
func TestSlotCommands(t *testing.T) {
	server := testenv.StartMongo(t)
	var c commands
	s := open(t, server.URI(), func(o *mongo.Options) { o.Configure = c.monitor })
	c.forget() // ignore the commands that create the database
	swap(t, s, persist.SlotSwap{NewSet: &slotSet}, true)
	swap(t, s, persist.SlotSwap{OldSet: &slotSet, NewSlot: leased(5)}, true)
	swap(t, s, persist.SlotSwap{OldSet: &slotSet, OldSlot: leased(5), NewSlot: leased(5)}, true)
	must.Do(t, s.Slots().Drop(t.Context(), registry))
	if finds := c.with("find"); len(finds) != 0 {
		t.Errorf("the common path reads first: %s", finds)
	}
	for name, want := range map[string]int{"insert": 1, "update": 3} {
		sent := c.with(name)
		if len(sent) != want {
			t.Errorf("%d commands %s, want %d", len(sent), name, want)
		}
		for _, command := range sent {
			if !strings.Contains(command, `"writeConcern": {"w": "majority","j": true}`) || strings.Contains(command, "txnNumber") {
				t.Errorf("not once, with majority and journal: %s", command)
			}
		}
	}
	must.Get(s.Slots().Look(t.Context(), registry, 5, 5))(t)
	finds := c.with("find")
	if len(finds) != 1 || !strings.Contains(finds[0], `"slots.5"`) || !strings.Contains(finds[0], `"level": "majority"`) {
		t.Errorf("a look sent %s", finds)
	}
}

// The order of fields does not matter, because tools change it. Unknown fields are kept when others
// change.
func TestSlotFieldsInAnotherOrder(t *testing.T) {
	server := testenv.StartMongo(t)
	database := "seqd_" + testenv.Unique()
	s := open(t, server.URI(), func(o *mongo.Options) { o.Database = database })
	c := server.Client().Database(database).Collection("slots")
	must.Get(c.InsertOne(t.Context(), bson.D{
		{Key: "slots", Value: bson.D{
			{Key: "10", Value: bson.D{
				{Key: "renewedAt", Value: int32(50)}, {Key: "until", Value: int64(100)}, {Key: "token", Value: "t"},
				{Key: "reserved", Value: int64(200)}, {Key: "key", Value: "seqd.8080.10.0.0.1"},
			}},
			{Key: "5", Value: bson.D{
				{Key: "key", Value: "seqd.8080.10.0.0.1"}, {Key: "reserved", Value: int64(200)}, {Key: "until", Value: int64(100)},
				{Key: "token", Value: "t"}, {Key: "renewedAt", Value: int64(50)},
			}},
		}},
		{Key: "set", Value: bson.D{
			{Key: "source", Value: ""}, {Key: "ahead", Value: int32(5000)}, {Key: "floor", Value: int64(7)}, {Key: "layout", Value: slotSet.Layout},
			{Key: "incarnation", Value: slotSet.Incarnation},
		}},
		{Key: "v", Value: int64(persist.FormatVersion)}, {Key: "more", Value: true}, {Key: "_id", Value: registry},
	}))(t)
	table, err := s.Slots().Look(t.Context(), registry)
	if err != nil || table.Set == nil || *table.Set != slotSet || len(table.Slots) != 2 || table.Slots[0] != *leased(5) || table.Slots[1] != *leased(10) {
		t.Fatalf("%+v, %v", table, err)
	}
	next := leased(10)
	next.Until++
	swap(t, s, persist.SlotSwap{OldSet: &slotSet, OldSlot: leased(10), NewSlot: next}, true)
	swap(t, s, persist.SlotSwap{OldSet: &slotSet, NewSet: &slotSet, OldSlot: next, NewSlot: next}, true)
	raw, err := c.FindOne(t.Context(), bson.M{"_id": registry}).Raw()
	if more, _ := raw.Lookup("more").BooleanOK(); err != nil || !more {
		t.Errorf("%s, %v", raw, err)
	}
}

// A document of a newer version, or a damaged one, is an error and is not changed.
func TestSlotDocumentsThatAreNotOurs(t *testing.T) {
	server := testenv.StartMongo(t)
	database := "seqd_" + testenv.Unique()
	s := open(t, server.URI(), func(o *mongo.Options) { o.Database = database })
	c := server.Client().Database(database).Collection("slots")
	set := func(field string, value any) bson.M { return bson.M{"$set": bson.M{field: value}} }
	unset := func(field string) bson.M { return bson.M{"$unset": bson.M{field: ""}} }
	for name, test := range map[string]struct {
		change bson.M
		want   error
		text   string
	}{
		"newer":              {set("v", persist.FormatVersion+1), persist.ErrNewer, "format 2"},
		"no version":         {unset("v"), persist.ErrInvalid, "damaged"},
		"null set":           {set("set", nil), persist.ErrInvalid, "set"},
		"text set":           {set("set", "x"), persist.ErrInvalid, "set"},
		"no incarnation":     {unset("set.incarnation"), persist.ErrInvalid, "set.incarnation"},
		"no floor":           {unset("set.floor"), persist.ErrInvalid, "set.floor"},
		"broken floor":       {set("set.floor", 7.5), persist.ErrInvalid, "set.floor"},
		"floor below 0":      {set("set.floor", -7), persist.ErrInvalid, "floor -7"},
		"layout is a number": {set("set.layout", 12), persist.ErrInvalid, "set.layout"},
		"no source":          {unset("set.source"), persist.ErrInvalid, "set.source"},
		"empty cluster":      {set("set.cluster", ""), persist.ErrInvalid, "set.cluster"},
		"cluster is a name":  {set("set.cluster", "ours"), persist.ErrInvalid, "cluster ID"},
		"no slots":           {unset("slots"), persist.ErrInvalid, "slots"},
		"text slots":         {set("slots", "x"), persist.ErrInvalid, "slots"},
		"slots in a row":     {set("slots", bson.A{}), persist.ErrInvalid, "slots"},
		"text slot":          {set("slots.5", "x"), persist.ErrInvalid, "slots.5"},
		"no until":           {unset("slots.5.until"), persist.ErrInvalid, "slots.5.until"},
		"true until":         {set("slots.5.until", true), persist.ErrInvalid, "slots.5.until"},
		"no key":             {set("slots.5.key", ""), persist.ErrInvalid, "key"},
		"until too high":     {set("slots.5.until", persist.MaxNumber+1), persist.ErrInvalid, "until"},
	} {
		t.Run(name, func(t *testing.T) {
			must.Get(c.DeleteMany(t.Context(), bson.M{}))(t)
			swap(t, s, persist.SlotSwap{NewSet: &slotSet, NewSlot: leased(5)}, true)
			must.Get(c.UpdateOne(t.Context(), bson.M{"_id": registry}, test.change))(t)
			before := c.FindOne(t.Context(), bson.M{"_id": registry})
			_, look := s.Slots().Look(t.Context(), registry)
			_, one := s.Slots().Look(t.Context(), registry, 5)
			made, err := s.Slots().Swap(t.Context(), registry, persist.SlotSwap{OldSet: &slotSet, NewSet: &slotSet, OldSlot: leased(5), NewSlot: leased(5)})
			anew, errAnew := s.Slots().Swap(t.Context(), registry, persist.SlotSwap{NewSet: &slotSet, NewSlot: leased(5)})
			for what, err := range map[string]error{"look": look, "look for one": one, "swap": err, "swap of nothing": errAnew} {
				if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) || !strings.Contains(err.Error(), registry) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if made || anew {
				t.Error("it was changed")
			}
			old, err1 := before.Raw()
			now, err2 := c.FindOne(t.Context(), bson.M{"_id": registry}).Raw()
			if err1 != nil || err2 != nil || !bytes.Equal(old, now) {
				t.Errorf("%v became %v, %v, %v", old, now, err1, err2)
			}
		})
	}
	for _, name := range []string{"x", "05", "-1", "65536", "1.5"} {
		must.Get(c.DeleteMany(t.Context(), bson.M{}))(t)
		_, err := c.InsertOne(t.Context(), bson.M{"_id": registry, "v": 1, "slots": bson.M{name: bson.M{
			"key": "k", "token": "", "until": int64(1), "reserved": int64(1), "renewedAt": int64(1),
		}}})
		if err != nil {
			t.Logf("slot %s cannot even be stored: %v", name, err)
			continue
		}
		must.Is(t, must.Err(s.Slots().Look(t.Context(), registry)), persist.ErrInvalid, "slot %s", name)
	}
}
