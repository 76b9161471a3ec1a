package openfga

import (
	"context"
	"errors"
	"strings"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door/openfga/internal/wire"
	"github.com/ostiary/ostiary/rel"
)

// read handles Read. It returns a page of stored tuples and the token of the next
// page. Unlike OpenFGA it also reads by the user alone.
func (s *service) read(ctx context.Context, c *headers, in *wire.ReadRequest) (page authz.TuplePage, next string, err error) {
	if err := validateMessage(readRequestMessage(in)); err != nil {
		return page, "", err
	}
	st, err := s.store(ctx, in.StoreID, c.lookup(in.Consistency))
	if err != nil {
		return page, "", err
	}
	filter, empty, err := readFilter(in)
	if err != nil {
		return page, "", err
	}
	at, err := s.consistency(ctx, c, st, in.Consistency)
	if err != nil {
		return page, "", err
	}
	req := authz.ReadRequest{Filter: filter, Limit: pageSize(in.PageSize), Consistency: at}
	if in.Token != "" {
		cursor, err := openToken(tuplesToken, in.Token, in.StoreID)
		if err != nil {
			return page, "", err
		}
		req.Cursor = string(cursor)
	}
	if empty {
		return page, "", nil
	}
	if page, err = st.Read(ctx, req); err != nil {
		if in.Token != "" && (errors.Is(err, authz.ErrCursor) || errors.Is(err, authz.ErrToken) || errors.Is(err, authz.ErrTooOld)) {
			return page, "", badContinuation()
		}
		return page, "", revisionError(err)
	}
	if page.Next != "" {
		next = sealToken(tuplesToken, []byte(page.Next), in.StoreID)
	}
	return page, next, c.setRevision(ctx, st, page.Revision)
}

// readFilter translates the selection of tuples. empty is true if no tuple can match.
func readFilter(in *wire.ReadRequest) (f rel.Filter, empty bool, err error) {
	if !in.HasKey {
		return f, false, nil
	}
	k := &in.Key
	var typed bool
	if k.Object != "" {
		f.ObjectType, f.ObjectID, typed = strings.Cut(k.Object, ":")
		if !typed {
			f.ObjectType = ""
		}
	}
	if f.ObjectType == "" && k.Object != "" || f.ObjectID == "" && k.User == "" {
		return f, false, failf(codeValidation, "the 'tuple_key' field was provided but the object type field is required and both the object id and user cannot be empty")
	}
	f.Relation = k.Relation
	if k.User == "" {
		return f, false, nil
	}
	sub, err := rel.ParseSubject(k.User)
	if err != nil {
		return f, true, nil
	}
	f.SubjectType, f.SubjectID, f.SubjectRelation, f.SubjectPlain = sub.Type, sub.ID, sub.Relation, sub.Relation == ""
	return f, false, nil
}

// tupleMessage translates a stored tuple into the protocol's message.
func tupleMessage(t *rel.Tuple) (*openfgav1.TupleKey, error) {
	k := &openfgav1.TupleKey{User: t.Subject.String(), Relation: t.Relation, Object: t.Object.String()}
	if t.Condition == "" {
		return k, nil
	}
	k.Condition = &openfgav1.RelationshipCondition{Name: t.Condition, Context: &structpb.Struct{}}
	if t.Context == "" {
		return k, nil
	}
	return k, protojson.Unmarshal([]byte(t.Context), k.Condition.Context)
}
