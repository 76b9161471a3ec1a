package query

import (
	"context"
	"encoding/binary"
	"math"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/internal/engine/eval"
	"github.com/ostiary/ostiary/internal/engine/snapshot"
	"github.com/ostiary/ostiary/rel"
)

// Explain answers a question with the path that leads to the subject, or with
// what was tried without success.
func (a *Answerer) Explain(ctx context.Context, r *authz.ExplainRequest) (x authz.Explanation, err error) {
	const op = "explain"
	ctx, end := a.shared.runtime.Begin(ctx, op)
	if end != nil {
		defer func() { end(err) }()
	}
	id := a.timeline.ID
	v, b, env, err := a.prepare(ctx, &r.QueryOptions, &r.Object)
	if err == nil {
		err = r.Subject.Validate()
	}
	if err != nil {
		return authz.Explanation{}, errs.Wrap(op, id, err)
	}
	x, err = b.Binding.Explain(ctx, v.Graph, Question(&r.CheckRequest), &env, r.Options)
	if err == nil && r.Origins {
		err = a.addOrigins(ctx, v, r.Tuples, x.Because)
	}
	if err != nil {
		return authz.Explanation{}, errs.Wrap(op, id, err)
	}
	x.Revision, x.Token, x.Schema, x.Asked = v.Head.Revision, a.timeline.Token(v.Head), b.Info, env.Now.Time()
	return x, nil
}

// Expand returns who has a relation on an object, as the rewrites of the schema
// and the tuples define it.
func (a *Answerer) Expand(ctx context.Context, r *authz.ExpandRequest) (_ authz.Expansion, err error) {
	const op = "expand"
	ctx, end := a.shared.runtime.Begin(ctx, op)
	if end != nil {
		defer func() { end(err) }()
	}
	v, b, env, err := a.prepare(ctx, &r.QueryOptions, &r.Object)
	if err != nil {
		return authz.Expansion{}, errs.Wrap(op, a.timeline.ID, err)
	}
	tree, err := b.Binding.Expand(ctx, v.Graph, r.Object, r.Relation, r.Levels, &env)
	if err != nil {
		return authz.Expansion{}, errs.Wrap(op, a.timeline.ID, err)
	}
	return authz.Expansion{Tree: tree, Revision: v.Head.Revision}, nil
}

func expandDigest(r *authz.ExpandPageRequest) snapshot.Digest {
	var d snapshot.Digester
	d.Text("expand")
	d.Object(r.Object)
	d.Text(r.Relation)
	d.Number(r.Levels)
	addOptions(&r.QueryOptions, &d)
	return d.Sum()
}

// ExpandPage returns a page of an expansion. All pages read the revision and the
// time of the first one.
func (a *Answerer) ExpandPage(ctx context.Context, r *authz.ExpandPageRequest) (authz.ExpansionPage, error) {
	const op = "expand"
	ctx, end := a.shared.runtime.Begin(ctx, op)
	page, err := a.expandPage(ctx, r)
	if end != nil {
		end(err)
	}
	return page, errs.Wrap(op, a.timeline.ID, err)
}

func (a *Answerer) expandPage(ctx context.Context, r *authz.ExpandPageRequest) (page authz.ExpansionPage, err error) {
	bounds := &a.shared.runtime.Bounds
	if err := errs.CheckBound("ExpandEntries", r.Limit, bounds.ExpandEntries); err != nil {
		return page, err
	}
	v, position, err := a.timeline.Pinned(ctx, r.Consistency, r.Cursor, func() snapshot.Digest { return expandDigest(r) })
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
	part, err := b.Binding.ExpandPage(ctx, v.Graph, r.Object, r.Relation, r.Levels, at, &env)
	page.Parts, page.More, page.Bound = part.Parts, part.More, part.Bound
	switch {
	case err != nil:
		return page, err
	case len(page.Parts) == 0 && page.Bound == "":
		return page, errMalformedPosition
	case page.More:
		page.Next = a.timeline.Cursor(v, expandDigest(r), appendExpandPosition(nil, env.Now, part.Next))
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
