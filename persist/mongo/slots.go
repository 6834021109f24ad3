package mongo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/seqd/seqd/persist"
)

// slots keeps each registry of machine IDs as one document: {_id: registry, v: format, set: {…},
// slots: {"5": {…}}}. A change is one command whose filter contains every field that was seen. The
// clock of a registry is that of the primary.
type slots struct {
	*link
	collection *mongo.Collection
	clock      clock
}

var _ persist.SlotStore = (*slots)(nil)

// Look implements [persist.SlotStore].
func (s *slots) Look(ctx context.Context, registry string, ids ...int64) (persist.SlotTable, error) {
	if err := persist.CheckLook(registry, ids...); err != nil {
		return persist.SlotTable{}, err
	}
	ctx, cancel, err := s.begin(ctx)
	defer cancel()
	if err != nil {
		return persist.SlotTable{}, err
	}
	t, err := s.read(ctx, registry, ids...)
	if err != nil && !errors.Is(err, persist.ErrNotFound) {
		return persist.SlotTable{}, err
	}
	// After the document: the clock must not be behind the times in the document.
	if t.Now, err = s.clock.now(ctx); err != nil {
		return persist.SlotTable{}, about(registry, err)
	}
	return t, nil
}

// read reads a registry, or returns ErrNotFound. If IDs are given, only their slots are read.
func (s *slots) read(ctx context.Context, registry string, ids ...int64) (persist.SlotTable, error) {
	// some servers refuse a projection that names a path twice
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	projection := bson.D{{Key: "v", Value: 1}, {Key: shutVersion, Value: 1}, {Key: "set", Value: 1}}
	for _, id := range ids {
		projection = append(projection, bson.E{Key: slotPath(id), Value: 1})
	}
	find := options.FindOne()
	if len(ids) > 0 {
		find.SetProjection(projection)
	}
	raw, err := s.collection.FindOne(ctx, bson.D{{Key: "_id", Value: registry}}, find).Raw()
	if err != nil {
		return persist.SlotTable{}, about(registry, translate(err))
	}
	return table(registry, raw)
}

// Swap implements [persist.SlotStore].
func (s *slots) Swap(ctx context.Context, registry string, swap persist.SlotSwap) (bool, error) {
	if err := persist.CheckSwap(registry, swap); err != nil {
		return false, err
	}
	if swap.Source != "" {
		return false, ctx.Err()
	}
	ctx, cancel, err := s.begin(ctx)
	defer cancel()
	if err != nil {
		return false, err
	}
	if swap.OldSet == nil && swap.OldSlot == nil {
		_, err := s.collection.InsertOne(ctx, newRegistry(registry, swap))
		if err = translate(err); !errors.Is(err, persist.ErrExists) {
			return err == nil, about(registry, err)
		}
	}
	result, err := s.collection.UpdateOne(ctx, seen(registry, swap), bson.D{{Key: "$set", Value: change(swap)}})
	switch {
	case err != nil:
		return false, about(registry, translate(err))
	case result.MatchedCount > 0:
		return true, nil
	}
	return false, s.orShut(ctx, s.whyNot(ctx, registry, swap))
}

// whyNot finds out why a filter selected nothing: a damaged document or one of another format is an
// error.
func (s *slots) whyNot(ctx context.Context, registry string, swap persist.SlotSwap) error {
	id := int64(0)
	if swap.NewSlot != nil {
		id = swap.NewSlot.ID
	}
	if _, err := s.read(ctx, registry, id); !errors.Is(err, persist.ErrNotFound) {
		return err
	}
	return nil
}

// Drop implements [persist.SlotStore].
func (s *slots) Drop(ctx context.Context, registry string) error {
	if err := persist.CheckLook(registry); err != nil {
		return err
	}
	ctx, cancel, err := s.begin(ctx)
	defer cancel()
	if err != nil {
		return err
	}
	filter := append(knownRegistry(registry), bson.E{Key: "set", Value: bson.D{{Key: "$exists", Value: true}}})
	result, err := s.collection.UpdateOne(ctx, filter, bson.D{{Key: "$unset", Value: bson.D{{Key: "set", Value: ""}}}})
	if err == nil && result.MatchedCount == 0 {
		if err := s.whyNot(ctx, registry, persist.SlotSwap{}); err != nil {
			return err
		}
		err = mongo.ErrNoDocuments
	}
	return about(registry, translate(err))
}

// slotPath is the path of a slot.
func slotPath(id int64) string { return "slots." + slotKey(id) }

// slotKey is the field name of a slot.
func slotKey(id int64) string { return strconv.FormatInt(id, 10) }

// setDocument omits an empty cluster, as the first versions do.
func setDocument(s persist.SlotSet) bson.D {
	d := bson.D{
		{Key: "incarnation", Value: s.Incarnation}, {Key: "layout", Value: s.Layout}, {Key: "floor", Value: s.Floor},
		{Key: "ahead", Value: s.Ahead}, {Key: "source", Value: s.Source},
	}
	if s.Cluster != "" {
		d = append(d, bson.E{Key: "cluster", Value: s.Cluster})
	}
	return d
}

func slotDocument(s persist.Slot) bson.D {
	return bson.D{
		{Key: "key", Value: s.Key}, {Key: "token", Value: s.Token}, {Key: "until", Value: s.Until},
		{Key: "reserved", Value: s.Reserved}, {Key: "renewedAt", Value: s.RenewedAt},
	}
}

// newRegistry is the document of a registry whose first change is swap.
func newRegistry(registry string, swap persist.SlotSwap) bson.D {
	d := bson.D{{Key: "_id", Value: registry}, {Key: "v", Value: persist.FormatVersion}}
	if swap.NewSet != nil {
		d = append(d, bson.E{Key: "set", Value: setDocument(*swap.NewSet)})
	}
	granted := bson.D{}
	if swap.NewSlot != nil {
		granted = append(granted, bson.E{Key: slotKey(swap.NewSlot.ID), Value: slotDocument(*swap.NewSlot)})
	}
	return append(d, bson.E{Key: "slots", Value: granted})
}

// change returns the fields that a swap sets.
func change(swap persist.SlotSwap) (fields bson.D) {
	if swap.NewSet != nil {
		fields = append(fields, bson.E{Key: "set", Value: setDocument(*swap.NewSet)})
	}
	if swap.NewSlot != nil {
		fields = append(fields, bson.E{Key: slotPath(swap.NewSlot.ID), Value: slotDocument(*swap.NewSlot)})
	}
	return fields
}

// seen selects a registry in which everything is as a swap says it was. It compares field by field:
// whole documents are equal only if their fields are in the same order, which some tools change.
func seen(registry string, swap persist.SlotSwap) bson.D {
	filter := knownRegistry(registry)
	if swap.OldSet == nil {
		filter = append(filter, absent("set"))
	} else {
		filter = append(filter, under("set", setDocument(*swap.OldSet))...)
		if swap.OldSet.Cluster == "" {
			filter = append(filter, absent("set.cluster"))
		}
	}
	switch {
	case swap.NewSlot == nil:
	case swap.OldSlot == nil:
		filter = append(filter, absent(slotPath(swap.NewSlot.ID)))
	default:
		filter = append(filter, under(slotPath(swap.OldSlot.ID), slotDocument(*swap.OldSlot))...)
	}
	return filter
}

// knownRegistry selects a document of the format that this build knows, with an object of slots.
func knownRegistry(registry string) bson.D {
	return bson.D{
		{Key: "_id", Value: registry}, {Key: "v", Value: persist.FormatVersion}, {Key: "slots", Value: bson.D{{Key: "$type", Value: "object"}}},
	}
}

// absent selects documents without a field.
func absent(path string) bson.E {
	return bson.E{Key: path, Value: bson.D{{Key: "$exists", Value: false}}}
}

// under compares the fields of a document below a path. $eq: a text is never a pattern.
func under(path string, document bson.D) (moved bson.D) {
	for _, e := range document {
		moved = append(moved, bson.E{Key: path + "." + e.Key, Value: bson.D{{Key: "$eq", Value: e.Value}}})
	}
	return moved
}

// table decodes a document or the part of one that was read.
func table(registry string, raw bson.Raw) (t persist.SlotTable, err error) {
	if err := checkDocument(registry, registry, versionOf(raw.Lookup("v"), raw.Lookup(shutVersion))); err != nil {
		return t, err
	}
	if set := raw.Lookup("set"); !set.IsZero() {
		f := fields{document: set}
		t.Set = &persist.SlotSet{
			Incarnation: f.text("incarnation"), Layout: f.text("layout"), Floor: f.number("floor"), Ahead: f.number("ahead"), Source: f.text("source"),
		}
		if !f.value("cluster").IsZero() {
			t.Set.Cluster = f.text("cluster")
			if t.Set.Cluster == "" { // seqd never writes that
				f.damaged = "cluster"
			}
		}
		if f.damaged != "" {
			return t, damagedField(registry, "set."+f.damaged)
		}
		if err := t.Set.Validate(); err != nil {
			return t, about(registry, err)
		}
	}
	granted, ok := raw.Lookup("slots").DocumentOK()
	if !ok {
		return t, damagedField(registry, "slots")
	}
	elements, err := granted.Elements()
	if err != nil {
		return t, damagedField(registry, "slots")
	}
	for _, e := range elements {
		slot, err := storedSlot(registry, e)
		if err != nil {
			return t, err
		}
		t.Slots = append(t.Slots, slot)
	}
	slices.SortFunc(t.Slots, func(a, b persist.Slot) int { return int(a.ID - b.ID) })
	return t, nil
}

// storedSlot decodes one slot.
func storedSlot(registry string, e bson.RawElement) (slot persist.Slot, err error) {
	name := e.Key()
	id, err := strconv.ParseInt(name, 10, 64)
	if err != nil || slotKey(id) != name {
		return slot, damagedField(registry, "slots."+name)
	}
	f := fields{document: e.Value()}
	slot = persist.Slot{
		ID: id, Key: f.text("key"), Token: f.text("token"), Until: f.number("until"), Reserved: f.number("reserved"), RenewedAt: f.number("renewedAt"),
	}
	if f.damaged != "" {
		return slot, damagedField(registry, "slots."+name+"."+f.damaged)
	}
	if err := slot.Validate(); err != nil {
		return slot, about(registry, err)
	}
	return slot, nil
}

func damagedField(registry, field string) error {
	return fmt.Errorf("%w: %s", damaged(registry), field)
}

// fields reads the fields of a document without conversions. damaged names a field that is missing
// or of another type.
type fields struct {
	document bson.RawValue
	damaged  string
}

func (f *fields) value(name string) bson.RawValue {
	document, _ := f.document.DocumentOK()
	return document.Lookup(name)
}

func (f *fields) text(name string) string {
	text, ok := f.value(name).StringValueOK()
	if !ok {
		f.damaged = name
	}
	return text
}

func (f *fields) number(name string) int64 {
	n, ok := integer(f.value(name))
	if !ok {
		f.damaged = name
	}
	return n
}
