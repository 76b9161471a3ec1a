package client

import (
	"context"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/grpc"
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
	if w.Remove, err = removals(deletes); err != nil {
		return nil, err
	}
	if err := once(w.Add, w.Remove); err != nil {
		return nil, err
	}
	if n := len(w.Add) + len(w.Remove); n > writesMax {
		return nil, fail(codeEntityLimit, "The number of write operations exceeds the allowed limit of %d", writesMax)
	}
	if w.OnDuplicate, err = policy("on_duplicate", in.GetWrites().GetOnDuplicate()); err != nil {
		return nil, err
	}
	if w.OnMissing, err = policy("on_missing", in.GetDeletes().GetOnMissing()); err != nil {
		return nil, err
	}
	if _, err := p.store.Write(ctx, w); err != nil {
		return nil, wire(err)
	}
	return &openfgav1.WriteResponse{}, nil
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
// still be removed.
func removals(deletes []*openfgav1.TupleKeyWithoutCondition) ([]rel.Key, error) {
	var out []rel.Key
	for _, tk := range deletes {
		sub, err := parseSubject(tk.GetUser())
		if err != nil {
			return nil, fail(codeValidation, "Invalid tuple '%s'. Reason: %v", tk, err)
		}
		o, err := parseObject("object", tk.GetObject())
		if err != nil {
			return nil, fail(codeValidation, "Invalid tuple '%s'. Reason: %v", tk, err)
		}
		out = append(out, rel.Key{Object: o, Relation: tk.GetRelation(), Subject: sub})
	}
	return out, nil
}

// once refuses a request that names a tuple twice.
func once(add []rel.Tuple, remove []rel.Key) error {
	seen := map[rel.Key]bool{}
	keys := append([]rel.Key{}, remove...)
	for _, t := range add {
		keys = append(keys, t.Key())
	}
	for _, k := range keys {
		if seen[k] {
			return fail(codeDuplicateInWrite, "duplicate tuple in write: user: '%s', relation: '%s', object: '%s'", k.Subject, k.Relation, k.Object)
		}
		seen[k] = true
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
