package query

import (
	"context"
	"encoding/binary"
	"math"
	"time"

	"github.com/ostiary/ostiary/internal/errs"
	"github.com/ostiary/ostiary/internal/eval"
	"github.com/ostiary/ostiary/internal/snapshot"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// ExplainRequest is a check whose answer is explained.
type ExplainRequest struct {
	CheckRequest
	// Options bound the explanation.
	Options eval.ExplainOptions
	// Origins makes the steps of stored tuples name the entries that wrote them: their
	// revision, time, caller and reason. At a past revision this reads all tuples that
	// were removed since, as the first read of that revision does.
	Origins bool
}

// Explanation is a decision and its reasons. The same question at the same
// revision, schema and time has the same explanation.
type Explanation struct {
	eval.Explanation
	// Revision is that of the view that was read.
	Revision storage.Revision
	// Token names the revision, to ask again with AtExactly.
	Token snapshot.Token
	// Schema is the schema that was used.
	Schema snapshot.SchemaInfo
	// Asked is the time that the question was asked at.
	Asked time.Time
}

// Explain answers a question with the path that leads to the subject, or with
// what was tried without success.
func (a *Answerer) Explain(ctx context.Context, r *ExplainRequest) (Explanation, error) {
	const op = "explain"
	id := a.timeline.ID
	v, b, env, err := a.prepare(ctx, &r.QueryOptions, &r.Object)
	if err == nil {
		err = r.Subject.Validate()
	}
	if err != nil {
		return Explanation{}, errs.Wrap(op, id, err)
	}
	x, err := b.Binding.Explain(ctx, v.Graph, r.Question(), &env, r.Options)
	if err == nil && r.Origins {
		err = a.addOrigins(ctx, v, r.Tuples, x.Because)
	}
	if err != nil {
		return Explanation{}, errs.Wrap(op, id, err)
	}
	return Explanation{Explanation: x, Revision: v.Head.Revision, Token: a.timeline.Token(v.Head),
		Schema: b.Info, Asked: env.Now.Time()}, nil
}

// ExpandRequest asks for the usersets and subjects that have a relation on an
// object.
type ExpandRequest struct {
	// Object is what the question is about.
	Object rel.Object
	// Relation is a relation of the object's type.
	Relation string
	// Levels is how many levels of usersets are expanded; 0 means 1.
	Levels int
	QueryOptions
}

// Expansion is a tree of the usersets and subjects that have a relation on an
// object.
type Expansion struct {
	*eval.Tree
	// Revision is that of the view that was read.
	Revision storage.Revision
}

// Expand returns who has a relation on an object, as the rewrites of the schema
// and the tuples define it.
func (a *Answerer) Expand(ctx context.Context, r *ExpandRequest) (Expansion, error) {
	const op = "expand"
	v, b, env, err := a.prepare(ctx, &r.QueryOptions, &r.Object)
	if err != nil {
		return Expansion{}, errs.Wrap(op, a.timeline.ID, err)
	}
	tree, err := b.Binding.Expand(ctx, v.Graph, r.Object, r.Relation, r.Levels, &env)
	if err != nil {
		return Expansion{}, errs.Wrap(op, a.timeline.ID, err)
	}
	return Expansion{tree, v.Head.Revision}, nil
}

// ExpandPageRequest asks for a page of an expansion.
type ExpandPageRequest struct {
	ExpandRequest
	// Limit is the largest number of nodes and tuples in the page; 0 means
	// Bounds.ExpandEntries.
	Limit int
	// Cursor is the Next of the page before; "" asks for the first page. A cursor
	// replaces Consistency.
	Cursor string
}

// ExpansionPage is a page of an expansion. All pages together are the Expansion
// without a bound on its size.
type ExpansionPage struct {
	// ExpandPage is the evaluator's page. Next replaces its position.
	eval.ExpandPage
	// Next is the cursor of the next page; "" on the last one.
	Next string
	// Revision is that of the view that was read.
	Revision storage.Revision
}

func (r *ExpandPageRequest) digest() snapshot.Digest {
	var d snapshot.Digester
	d.Text("expand")
	d.Object(r.Object)
	d.Text(r.Relation)
	d.Number(r.Levels)
	r.QueryOptions.digest(&d)
	return d.Sum()
}

// ExpandPage returns a page of an expansion. All pages read the revision and the
// time of the first one.
func (a *Answerer) ExpandPage(ctx context.Context, r *ExpandPageRequest) (ExpansionPage, error) {
	page, err := a.expandPage(ctx, r)
	return page, errs.Wrap("expand", a.timeline.ID, err)
}

func (a *Answerer) expandPage(ctx context.Context, r *ExpandPageRequest) (page ExpansionPage, err error) {
	bounds := &a.shared.runtime.Bounds
	if err := errs.CheckBound("ExpandEntries", r.Limit, bounds.ExpandEntries); err != nil {
		return page, err
	}
	v, position, err := a.timeline.Pinned(ctx, r.Consistency, r.Cursor, r.digest)
	if err != nil {
		return page, err
	}
	b, env, err := a.prepareOn(ctx, v, &r.QueryOptions, &r.Object)
	if err != nil {
		return page, err
	}
	if r.Limit > 0 {
		env.Bounds.ExpandEntries = min(r.Limit, env.Bounds.ExpandEntries)
	}
	var at eval.ExpandPosition
	if r.Cursor != "" {
		if env.Now, at, err = readExpandPosition(position, env.Now); err != nil {
			return page, err
		}
	}
	page.Revision = v.Head.Revision
	page.ExpandPage, err = b.Binding.ExpandPage(ctx, v.Graph, r.Object, r.Relation, r.Levels, at, &env)
	switch {
	case err != nil:
		return page, err
	case len(page.Parts) == 0 && page.Bound == "":
		return page, errMalformedPosition
	case page.More:
		page.Next = a.timeline.Cursor(v, r.digest(), appendExpandPosition(nil, env.Now, page.ExpandPage.Next))
	}
	return page, nil
}

// appendExpandPosition encodes the time of an expansion and the place where a
// page begins.
func appendExpandPosition(b []byte, now rel.Time, at eval.ExpandPosition) []byte {
	b = binary.AppendVarint(b, int64(now))
	b = binary.AppendUvarint(b, uint64(at.Relations))
	b = binary.AppendUvarint(b, uint64(at.Slot))
	return append(b, at.After...)
}

// readExpandPosition decodes what appendExpandPosition encoded. It fails if the
// time is later than the current one.
func readExpandPosition(b []byte, current rel.Time) (now rel.Time, at eval.ExpandPosition, err error) {
	t, n := binary.Varint(b)
	if n <= 0 || t < 0 || rel.Time(t) > current {
		return 0, at, errMalformedPosition
	}
	b = b[n:]
	for _, field := range [...]*int{&at.Relations, &at.Slot} {
		x, n := binary.Uvarint(b)
		if n <= 0 || x > math.MaxInt32 {
			return 0, at, errMalformedPosition
		}
		*field, b = int(x), b[n:]
	}
	at.After = string(b)
	return rel.Time(t), at, nil
}
