package persist

import (
	"context"
	"iter"
	"time"
)

// ShapeKind is the kind of the documents that say what the IDs of a biz type look like: the key is
// the biz type, the body the shape.
const ShapeKind = "shape"

// Shape is what the IDs of a biz type look like: a text that changes with everything that could
// make an ID appear a second time (strategy, bit layout, plugins that rewrite). It is compared,
// never interpreted.
type Shape struct {
	BizType string
	Shape   string
	// Timestamp is when the shape was recorded, in ms since the Unix epoch.
	Timestamp int64
	// Revision is 1 in a new shape and one more with each change.
	Revision int64
}

// Document returns the document of the shape.
func (s Shape) Document() Document {
	return Document{Kind: ShapeKind, Key: s.BizType, Revision: s.Revision, Body: s.Shape, Timestamp: s.Timestamp}
}

// Validate returns ErrInvalid and the field that is out of its range.
func (s Shape) Validate() error {
	if s.Shape == "" {
		return invalid("the shape of %q is empty", s.BizType)
	}
	return s.Document().Validate()
}

// Shapes keeps the shapes of biz types as documents. What [Documents] promises holds for them.
type Shapes struct{ documents Documents }

// ShapesIn returns the shapes that a store keeps.
func ShapesIn(documents Documents) Shapes { return Shapes{documents} }

// Create records the shape of a biz type that has none, or returns ErrExists.
func (s Shapes) Create(ctx context.Context, bizType, shape string, at time.Time) error {
	made := Shape{BizType: bizType, Shape: shape, Timestamp: at.UnixMilli(), Revision: 1}
	if err := made.Validate(); err != nil {
		return err
	}
	return s.documents.Create(ctx, made.Document())
}

// Read returns the shape of a biz type, or ErrNotFound.
func (s Shapes) Read(ctx context.Context, bizType string) (Shape, error) {
	doc, err := s.documents.Read(ctx, ShapeKind, bizType)
	if err != nil {
		return Shape{}, err
	}
	return shapeOf(doc)
}

// Replace puts another shape in the place of a known one and returns it as it is now. It returns
// ErrConflict if the known one is no longer the latest.
func (s Shapes) Replace(ctx context.Context, known Shape, shape string, at time.Time) (Shape, error) {
	next := Shape{BizType: known.BizType, Shape: shape, Timestamp: at.UnixMilli(), Revision: known.Revision + 1}
	if err := next.Validate(); err != nil {
		return Shape{}, err
	}
	return next, s.documents.Update(ctx, next.Document())
}

// Every yields all shapes in byte order of their biz types, and at last an error if there is one.
func (s Shapes) Every(ctx context.Context) iter.Seq2[Shape, error] {
	return func(yield func(Shape, error) bool) {
		for doc, err := range EveryDocument(ctx, s.documents, ShapeKind) {
			var shape Shape
			if err == nil {
				shape, err = shapeOf(doc)
			}
			if !yield(shape, err) || err != nil {
				return
			}
		}
	}
}

func shapeOf(doc Document) (Shape, error) {
	s := Shape{BizType: doc.Key, Shape: doc.Body, Timestamp: doc.Timestamp, Revision: doc.Revision}
	return s, s.Validate()
}
