package openfga

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door/openfga/internal/wire"
	"github.com/ostiary/ostiary/door/openfga/language"
	"github.com/ostiary/ostiary/rel"
)

// write handles Write. It removes tuples first, then adds tuples, all or nothing.
func (s *service) write(ctx context.Context, c *headers, in *wire.WriteRequest) error {
	if err := validateWrite(in); err != nil {
		return err
	}
	p, err := s.open(ctx, c, in.StoreID, in.ModelID, wire.ConsistencyUnspecified)
	if err != nil {
		return err
	}
	if err := checkRevision(ctx, c, p.store); err != nil {
		return err
	}
	if len(in.Writes)+len(in.Deletes) == 0 {
		return failf(codeEmptyWrite, "Invalid input. Make sure you provide at least one write, or at least one delete")
	}
	if err := p.refuseNamespaceTuples(ctx, in.Deletes); err != nil {
		return err
	}
	w := authz.WriteRequest{SchemaID: c.model}
	if w.Add, err = p.additions(in.Writes); err != nil {
		return err
	}
	var impossible *wire.Key
	if w.Remove, impossible, err = removals(in.Deletes); err != nil {
		return err
	}
	if err := refuseDuplicates(in.Deletes, in.Writes); err != nil {
		return err
	}
	if n := len(in.Writes) + len(in.Deletes); n > s.o.WriteTuples {
		return failf(codeEntityLimit, "The number of write operations exceeds the allowed limit of %d", s.o.WriteTuples)
	}
	if w.OnDuplicate, err = conflictAction("on_duplicate", in.OnDuplicate); err != nil {
		return err
	}
	if w.OnMissing, err = conflictAction("on_missing", in.OnMissing); err != nil {
		return err
	}
	if impossible != nil && w.OnMissing == authz.Fail {
		return missingTupleError(impossible.User, impossible.Relation, impossible.Object)
	}
	c.token, err = p.store.Write(ctx, w)
	return writeError(err, &w)
}

// refuseNamespaceTuples refuses to change tuples of a namespace. Only the API that
// wrote the namespace's schema may write its tuples. That API has rules, such as who
// owns an object and who may share it, and a write through this protocol would
// bypass them.
func (p *target) refuseNamespaceTuples(ctx context.Context, deletes []wire.Key) error {
	if p.schema.Namespace != "" {
		return namespaceTuplesError(p.schema.Namespace)
	}
	for i := range deletes {
		typ, _, _ := strings.Cut(deletes[i].Object, ":")
		namespace, _, ok := strings.Cut(typ, "/")
		if !ok {
			continue
		}
		switch _, err := p.store.CurrentSchema(ctx, namespace); {
		case err == nil:
			return namespaceTuplesError(namespace)
		case !errors.Is(err, authz.ErrNoSchema):
			return translateError(err)
		}
	}
	return nil
}

func namespaceTuplesError(namespace string) error {
	return failf(codeValidation, "the tuples of namespace '%s' cannot be written through this API: use the API that wrote the namespace's schema", namespace)
}

const tupleStateText = "tuple to be written already existed or the tuple to be deleted did not exist"

func missingTupleError(user, relation, object string) error {
	return failf(codeWriteFailed, "cannot delete a tuple which does not exist: user: '%s', relation: '%s', object: '%s': "+tupleStateText, user, relation, object)
}

// writeError translates the error of a write.
func writeError(err error, w *authz.WriteRequest) error {
	if err == nil {
		return nil
	}
	var t *authz.TupleError
	if !errors.As(err, &t) {
		return translateError(err)
	}
	user, object := t.Key.Subject.String(), t.Key.Object.String()
	switch {
	case errors.Is(err, authz.ErrTupleMissing):
		return missingTupleError(user, t.Key.Relation, object)
	case w.OnDuplicate == authz.Ignore:
		// The existing tuple has another condition. To ignore the write would hide that the new
		// condition is not stored.
		return failf(codes.Aborted, "transactional write failed due to conflict: attempted to write a tuple which already exists with a different condition: user: '%s', relation: '%s', object: '%s'",
			user, t.Key.Relation, object)
	}
	return failf(codeWriteFailed, "cannot write a tuple which already exists: user: '%s', relation: '%s', object: '%s': "+tupleStateText, user, t.Key.Relation, object)
}

// additions translates the tuples to add.
func (p *target) additions(writes []wire.Tuple) ([]rel.Tuple, error) {
	if len(writes) == 0 {
		return nil, nil
	}
	out := make([]rel.Tuple, 0, len(writes))
	for i := range writes {
		in := &writes[i]
		if in.Condition != nil && in.Condition.Name == language.InlineCondition && !p.service.o.InlineExpressions {
			return nil, failf(codeValidation, "$expression requires the %q experimental feature flag", "inline_expressions")
		}
		t, err := parseTuple(p.schema, in)
		if err != nil {
			return nil, failf(codeValidation, "%v", err)
		}
		if t.Subject == (rel.Subject{Type: t.Object.Type, ID: t.Object.ID, Relation: t.Relation}) {
			return nil, failf(codeValidation, "Invalid tuple '%s'. Reason: cannot write a tuple that is implicit", tupleText(in))
		}
		if in.Condition != nil {
			if n, most := wire.ContextSize(in.Condition.Context), p.service.o.ConditionContextBytes; n > most {
				return nil, failf(codeValidation, "Invalid tuple '%s'. Reason: condition context size limit exceeded: %d bytes exceeds %d bytes", tupleText(in), n, most)
			}
		}
		out = append(out, t)
	}
	return out, nil
}

// removals translates the keys to remove. It checks their form only: tuples that
// the model no longer admits can still be removed. The protocol checks only the form
// of the user. impossible is a key that no tuple can have because of its object or
// relation, or nil.
func removals(deletes []wire.Key) (keys []rel.Key, impossible *wire.Key, err error) {
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
		if !looksLikeUser(in.User) {
			return nil, nil, failf(codeValidation, "Invalid tuple '%s'. Reason: the 'user' field is malformed", keyText(in))
		}
		sub, noSubject := parseSubject(in.User)
		o, noObject := parseObject("object", in.Object)
		k := rel.Key{Object: o, Relation: in.Relation, Subject: sub}
		if noSubject != nil || noObject != nil || k.Validate() != nil {
			impossible = in
			continue
		}
		keys = append(keys, k)
	}
	return keys, impossible, nil
}

// refuseDuplicates fails if a request names a tuple twice.
func refuseDuplicates(deletes []wire.Key, writes []wire.Tuple) error {
	if len(deletes)+len(writes) < 2 {
		return nil
	}
	seen := make(map[wire.Key]struct{}, len(deletes)+len(writes))
	twice := func(k wire.Key) error {
		if _, ok := seen[k]; ok {
			return failf(codeDuplicateInWrite, "duplicate tuple in write: user: '%s', relation: '%s', object: '%s'", k.User, k.Relation, k.Object)
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

// conflictAction translates on_duplicate and on_missing.
func conflictAction(field, s string) (authz.ConflictAction, error) {
	switch s {
	case "", "error":
		return authz.Fail, nil
	case "ignore":
		return authz.Ignore, nil
	}
	return authz.Fail, failf(codeValidation, "invalid %s option: %s", field, s)
}
