package client

import (
	"context"
	"errors"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/rel"
)

// Write is the service's: removals first, then additions, all or nothing.
func (c *Client) Write(ctx context.Context, in *openfgav1.WriteRequest, _ ...grpc.CallOption) (*openfgav1.WriteResponse, error) {
	if err := in.Validate(); err != nil {
		return nil, fail(codeValidation, "%v", err)
	}
	deletes, writes := in.GetDeletes().GetTupleKeys(), in.GetWrites().GetTupleKeys()
	if len(deletes)+len(writes) == 0 {
		return nil, fail(codeEmptyWrite, "Invalid input. Make sure you provide at least one write, or at least one delete")
	}
	p, err := c.open(ctx, in.GetStoreId(), in.GetAuthorizationModelId())
	if err != nil {
		return nil, err
	}
	w := ostiary.Write{SchemaID: p.model}
	if w.Add, err = p.additions(writes); err != nil {
		return nil, err
	}
	var nameless int
	if w.Remove, nameless, err = removals(deletes); err != nil {
		return nil, err
	}
	if err := once(deletes, writes); err != nil {
		return nil, err
	}
	if n := len(writes) + len(deletes); n > writesMax {
		return nil, fail(codeEntityLimit, "The number of write operations exceeds the allowed limit of %d", writesMax)
	}
	if w.OnDuplicate, err = policy("on_duplicate", in.GetWrites().GetOnDuplicate()); err != nil {
		return nil, err
	}
	if w.OnMissing, err = policy("on_missing", in.GetDeletes().GetOnMissing()); err != nil {
		return nil, err
	}
	if nameless > 0 && w.OnMissing == ostiary.Fail {
		return nil, fail(codeWriteFailed, "cannot delete a tuple which does not exist")
	}
	_, err = p.store.Write(ctx, w)
	switch {
	case err == nil:
		return &openfgav1.WriteResponse{}, nil
	case w.OnDuplicate == ostiary.Ignore && errors.Is(err, ostiary.ErrTupleExists):
		// What is there has another condition: to ignore would be to lose it.
		return nil, fail(codes.Aborted, "%v", err)
	}
	return nil, wire(err)
}

func (p place) additions(writes []*openfgav1.TupleKey) ([]rel.Tuple, error) {
	var out []rel.Tuple
	for _, tk := range writes {
		t, err := tuple(p.schema, tk)
		if err != nil {
			return nil, fail(codeValidation, "%v", err)
		}
		if t.Subject == (rel.Subject{Type: t.Object.Type, ID: t.Object.ID, Relation: t.Relation}) {
			return nil, fail(codeValidation, "Invalid tuple '%s'. Reason: cannot write a tuple that is implicit", tk)
		}
		if n := proto.Size(tk.GetCondition().GetContext()); n > contextBytesMax {
			return nil, fail(codeValidation, "Invalid tuple '%s'. Reason: condition context size limit exceeded: %d bytes exceeds %d bytes", tk, n, contextBytesMax)
		}
		out = append(out, t)
	}
	return out, nil
}

// removals reads keys by their form alone: what a model no longer admits can
// still be removed. The service looks at the user's form only; nameless counts
// the keys that, for their object or relation, no tuple can have.
func removals(deletes []*openfgav1.TupleKeyWithoutCondition) (keys []rel.Key, nameless int, err error) {
	for _, tk := range deletes {
		if !userForm(tk.GetUser()) {
			return nil, 0, fail(codeValidation, "Invalid tuple '%s'. Reason: the 'user' field is malformed", tk)
		}
		sub, noSubject := parseSubject(tk.GetUser())
		o, noObject := parseObject("object", tk.GetObject())
		k := rel.Key{Object: o, Relation: tk.GetRelation(), Subject: sub}
		if noSubject != nil || noObject != nil || k.Validate() != nil {
			nameless++
			continue
		}
		keys = append(keys, k)
	}
	return keys, nameless, nil
}

// once refuses a request that names a tuple twice.
func once(deletes []*openfgav1.TupleKeyWithoutCondition, writes []*openfgav1.TupleKey) error {
	type key struct{ object, relation, user string }
	seen := map[key]bool{}
	twice := func(object, relation, user string) error {
		k := key{object, relation, user}
		if seen[k] {
			return fail(codeDuplicateInWrite, "duplicate tuple in write: user: '%s', relation: '%s', object: '%s'", user, relation, object)
		}
		seen[k] = true
		return nil
	}
	for _, tk := range deletes {
		if err := twice(tk.GetObject(), tk.GetRelation(), tk.GetUser()); err != nil {
			return err
		}
	}
	for _, tk := range writes {
		if err := twice(tk.GetObject(), tk.GetRelation(), tk.GetUser()); err != nil {
			return err
		}
	}
	return nil
}

func policy(field, s string) (ostiary.Policy, error) {
	switch s {
	case "", "error":
		return ostiary.Fail, nil
	case "ignore":
		return ostiary.Ignore, nil
	}
	return ostiary.Fail, fail(codeValidation, "invalid %s option: %s", field, s)
}
