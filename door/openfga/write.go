package openfga

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/openfga/language"
	"github.com/ostiary/ostiary/door/openfga/wire"
	"github.com/ostiary/ostiary/rel"
)

// write removes tuples first and adds then, all or nothing.
func (s *service) write(ctx context.Context, c *call, in *wire.WriteRequest) error {
	if err := writeForm(in); err != nil {
		return err
	}
	p, err := s.open(ctx, c, in.StoreID, in.ModelID, wire.ConsistencyUnspecified)
	if err != nil {
		return err
	}
	if len(in.Writes)+len(in.Deletes) == 0 {
		return fail(codeEmptyWrite, "Invalid input. Make sure you provide at least one write, or at least one delete")
	}
	if err := p.ownTuples(ctx, in.Deletes); err != nil {
		return err
	}
	w := ostiary.WriteRequest{SchemaID: c.model}
	if w.Add, err = p.additions(in.Writes); err != nil {
		return err
	}
	var nameless *wire.Key
	if w.Remove, nameless, err = removals(in.Deletes); err != nil {
		return err
	}
	if err := once(in.Deletes, in.Writes); err != nil {
		return err
	}
	if n := len(in.Writes) + len(in.Deletes); n > s.o.WriteTuples {
		return fail(codeEntityLimit, "The number of write operations exceeds the allowed limit of %d", s.o.WriteTuples)
	}
	if w.OnDuplicate, err = policy("on_duplicate", in.OnDuplicate); err != nil {
		return err
	}
	if w.OnMissing, err = policy("on_missing", in.OnMissing); err != nil {
		return err
	}
	if nameless != nil && w.OnMissing == ostiary.Fail {
		return missing(nameless.User, nameless.Relation, nameless.Object)
	}
	c.token, err = p.store.Write(ctx, w)
	return writeFailure(err, &w)
}

// ownTuples refuses to change what is of a namespace: that is written by what
// wrote its schema, under rules (who owns an object, who may share it) that this
// protocol does not know and would go around.
func (p *place) ownTuples(ctx context.Context, deletes []wire.Key) error {
	if p.schema.Namespace != "" {
		return notOwn(p.schema.Namespace)
	}
	for i := range deletes {
		typ, _, _ := strings.Cut(deletes[i].Object, ":")
		namespace, _, ok := strings.Cut(typ, "/")
		if !ok {
			continue
		}
		switch _, err := p.store.CurrentSchema(ctx, namespace); {
		case err == nil:
			return notOwn(namespace)
		case !errors.Is(err, ostiary.ErrNoSchema):
			return fromEngine(err)
		}
	}
	return nil
}

func notOwn(namespace string) error {
	return fail(codeValidation, "the tuples of the namespace '%s' are written by what wrote its schema, not through this API", namespace)
}

const tupleStateText = "tuple to be written already existed or the tuple to be deleted did not exist"

func missing(user, relation, object string) error {
	return fail(codeWriteFailed, "cannot delete a tuple which does not exist: user: '%s', relation: '%s', object: '%s': "+tupleStateText, user, relation, object)
}

// writeFailure says why the engine refused a write.
func writeFailure(err error, w *ostiary.WriteRequest) error {
	if err == nil {
		return nil
	}
	var t *ostiary.TupleError
	if !errors.As(err, &t) {
		return fromEngine(err)
	}
	user, object := t.Key.Subject.String(), t.Key.Object.String()
	switch {
	case errors.Is(err, ostiary.ErrTupleMissing):
		return missing(user, t.Key.Relation, object)
	case w.OnDuplicate == ostiary.Ignore:
		// What is there has another condition: to ignore would be to lose it.
		return fail(codes.Aborted, "transactional write failed due to conflict: attempted to write a tuple which already exists with a different condition: user: '%s', relation: '%s', object: '%s'",
			user, t.Key.Relation, object)
	}
	return fail(codeWriteFailed, "cannot write a tuple which already exists: user: '%s', relation: '%s', object: '%s': "+tupleStateText, user, t.Key.Relation, object)
}

func (p *place) additions(writes []wire.Tuple) ([]rel.Tuple, error) {
	if len(writes) == 0 {
		return nil, nil
	}
	out := make([]rel.Tuple, 0, len(writes))
	for i := range writes {
		in := &writes[i]
		if in.Condition != nil && in.Condition.Name == language.InlineCondition && !p.service.o.InlineExpressions {
			return nil, fail(codeValidation, "$expression requires the %q experimental feature flag", "inline_expressions")
		}
		t, err := tuple(p.schema, in)
		if err != nil {
			return nil, fail(codeValidation, "%v", err)
		}
		if t.Subject == (rel.Subject{Type: t.Object.Type, ID: t.Object.ID, Relation: t.Relation}) {
			return nil, fail(codeValidation, "Invalid tuple '%s'. Reason: cannot write a tuple that is implicit", tupleText(in))
		}
		if in.Condition != nil {
			if n, most := wire.ContextSize(in.Condition.Context), p.service.o.ConditionContextBytes; n > most {
				return nil, fail(codeValidation, "Invalid tuple '%s'. Reason: condition context size limit exceeded: %d bytes exceeds %d bytes", tupleText(in), n, most)
			}
		}
		out = append(out, t)
	}
	return out, nil
}

// removals reads keys by their form alone: what a model no longer admits can
// still be removed. The protocol looks at the user's form only; nameless is a
// key that, for its object or relation, no tuple can have.
func removals(deletes []wire.Key) (keys []rel.Key, nameless *wire.Key, err error) {
	if len(deletes) == 0 {
		return nil, nil, nil
	}
	keys = make([]rel.Key, 0, len(deletes))
	for i := range deletes {
		in := &deletes[i]
		if k, ok := plainKey(in); ok && k.Validate() == nil {
			keys = append(keys, k)
			continue
		}
		if !userForm(in.User) {
			return nil, nil, fail(codeValidation, "Invalid tuple '%s'. Reason: the 'user' field is malformed", keyText(in))
		}
		sub, noSubject := parseSubject(in.User)
		o, noObject := parseObject("object", in.Object)
		k := rel.Key{Object: o, Relation: in.Relation, Subject: sub}
		if noSubject != nil || noObject != nil || k.Validate() != nil {
			nameless = in
			continue
		}
		keys = append(keys, k)
	}
	return keys, nameless, nil
}

// once refuses a request that names a tuple twice.
func once(deletes []wire.Key, writes []wire.Tuple) error {
	if len(deletes)+len(writes) < 2 {
		return nil
	}
	seen := make(map[wire.Key]struct{}, len(deletes)+len(writes))
	twice := func(k wire.Key) error {
		if _, ok := seen[k]; ok {
			return fail(codeDuplicateInWrite, "duplicate tuple in write: user: '%s', relation: '%s', object: '%s'", k.User, k.Relation, k.Object)
		}
		seen[k] = struct{}{}
		return nil
	}
	for _, k := range deletes {
		if err := twice(k); err != nil {
			return err
		}
	}
	for i := range writes {
		if err := twice(writes[i].Key); err != nil {
			return err
		}
	}
	return nil
}

func policy(field, s string) (ostiary.ConflictAction, error) {
	switch s {
	case "", "error":
		return ostiary.Fail, nil
	case "ignore":
		return ostiary.Ignore, nil
	}
	return ostiary.Fail, fail(codeValidation, "invalid %s option: %s", field, s)
}
