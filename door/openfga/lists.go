package openfga

import (
	"context"
	"errors"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/openfga/internal/wire"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
)

// truncatedResults is the value of the header Ostiary-Truncated for a list that
// reached Options.ListResults.
const truncatedResults = "max-results"

// listObjects handles ListObjects. It returns the ids of at most
// Options.ListResults objects.
func (s *service) listObjects(ctx context.Context, c *headers, in *wire.ListObjectsRequest) (ids []string, err error) {
	if err := validateListObjects(in, false); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.ListTime)
	defer cancel()
	p, req, err := s.objectsRequest(ctx, c, in)
	if err != nil {
		return nil, err
	}
	req.Limit = s.o.ListResults
	for {
		list, err := p.objectsPage(ctx, &req)
		if err != nil {
			return nil, err
		}
		if ids == nil {
			ids = list.IDs
		} else {
			ids = append(ids, list.IDs...)
		}
		if len(ids) >= s.o.ListResults || list.Next == "" {
			if len(ids) > s.o.ListResults || list.Next != "" {
				c.truncated = truncatedResults
			}
			return ids[:min(len(ids), s.o.ListResults)], nil
		}
		req.Cursor = list.Next
	}
}

// streamObjects handles StreamedListObjects. It calls yield with the ids of all
// objects, page by page, and returns an error of yield. Options.ListTime bounds the
// search only, not the time in yield.
func (s *service) streamObjects(ctx context.Context, c *headers, in *wire.ListObjectsRequest, yield func(ids []string) error) error {
	if err := validateListObjects(in, true); err != nil {
		return err
	}
	p, req, err := s.objectsRequest(ctx, c, in)
	if err != nil {
		return err
	}
	for remaining := s.o.ListTime; ; {
		started := time.Now()
		search, cancel := context.WithTimeout(ctx, remaining)
		list, err := p.objectsPage(search, &req)
		cancel()
		if err != nil {
			return err
		}
		remaining -= time.Since(started)
		if err := door.Hold(ctx, len(list.IDs)*bytesPerID); err != nil {
			return err
		}
		if err := yield(list.IDs); err != nil {
			return err
		}
		if list.Next == "" {
			return nil
		}
		req.Cursor = list.Next
	}
}

// bytesPerID is what a page of a list keeps for each id, in bytes. The text of the
// id belongs to the store.
const bytesPerID = 16

// objectsPage lists a page of objects. It fails if a bound cut the search, or if a
// candidate is unknown.
func (p *target) objectsPage(ctx context.Context, req *authz.ListObjectsRequest) (authz.ObjectList, error) {
	list, err := p.store.ListObjects(ctx, *req)
	if pageTooLarge(err) {
		req.Limit = 0 // the engine's own limit; the rest comes with further pages
		list, err = p.store.ListObjects(ctx, *req)
	}
	if err != nil {
		return list, revisionError(err)
	}
	if err := listError(list.Bound, list.Reasons); err != nil {
		return list, err
	}
	return list, p.headers.setRevision(ctx, p.store, list.Revision)
}

// pageTooLarge reports whether the engine refused a list because the limit of the
// door is above the engine's maximum page.
func pageTooLarge(err error) bool {
	var b *authz.BoundError
	return errors.As(err, &b) && b.Name == "ListItems"
}

// objectsRequest translates a list of objects.
func (s *service) objectsRequest(ctx context.Context, c *headers, in *wire.ListObjectsRequest) (p target, req authz.ListObjectsRequest, err error) {
	if p, err = s.open(ctx, c, in.StoreID, in.ModelID, in.Consistency); err != nil {
		return p, req, err
	}
	if req.QueryOptions, err = p.queryOptions(in.Context, in.Tuples); err != nil {
		return p, req, listNameError(err)
	}
	if err := hasRelation(p.schema, in.Type, in.Relation); err != nil {
		return p, req, listNameError(err)
	}
	if req.Subject, err = parseKnownSubject(p.schema, in.User); err != nil {
		return p, req, failf(codeValidation, "invalid 'user' value: %v", err)
	}
	req.Type, req.Relation = in.Type, in.Relation
	return p, req, nil
}

// listUsers handles ListUsers. It returns at most Options.ListResults users.
func (s *service) listUsers(ctx context.Context, c *headers, in *wire.ListUsersRequest) ([]rel.Subject, error) {
	if err := validateListUsers(in); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.ListTime)
	defer cancel()
	p, err := s.open(ctx, c, in.StoreID, in.ModelID, in.Consistency)
	if err != nil {
		return nil, err
	}
	options, err := p.queryOptions(in.Context, in.Tuples)
	if err != nil {
		return nil, listNameError(err)
	}
	filter := in.Filters[0] // validateListUsers checks that there is exactly one
	if err := p.hasFilter(filter); err != nil {
		return nil, listNameError(err)
	}
	if err := hasRelation(p.schema, in.Object.Type, in.Relation); err != nil {
		return nil, listNameError(err)
	}
	o := rel.Object{Type: in.Object.Type, ID: in.Object.ID}
	if o.Validate() != nil { // no tuple can name it, and the protocol does not check it
		return nil, nil
	}
	return p.users(ctx, authz.ListSubjectsRequest{
		Object: o, Relation: in.Relation, SubjectType: filter.Type, SubjectRelation: filter.Relation,
		Limit: s.o.ListResults, QueryOptions: options,
	})
}

// hasFilter checks that the model has what a user filter names.
func (p *target) hasFilter(f wire.UserFilter) error {
	if f.Relation == "" {
		return hasType(p.schema, f.Type)
	}
	return hasRelation(p.schema, f.Type, f.Relation)
}

// users lists users page by page. A page can be full of users that a wildcard
// excludes: they count for the engine's limit, but the protocol's list leaves them
// out.
func (p *target) users(ctx context.Context, req authz.ListSubjectsRequest) (out []rel.Subject, err error) {
	for {
		list, err := p.store.ListSubjects(ctx, req)
		if pageTooLarge(err) {
			req.Limit = 0
			list, err = p.store.ListSubjects(ctx, req)
		}
		if err != nil {
			return nil, revisionError(err)
		}
		if err := listError(list.Bound, list.Reasons); err != nil {
			return nil, err
		}
		if list.Wildcard == expr.True && req.Cursor == "" {
			out = append(out, rel.Subject{Type: req.SubjectType, ID: rel.Wildcard})
		}
		for _, id := range list.IDs {
			if len(out) == p.service.o.ListResults {
				p.headers.truncated = truncatedResults
				return out, p.headers.setRevision(ctx, p.store, list.Revision)
			}
			out = append(out, rel.Subject{Type: req.SubjectType, ID: id, Relation: req.SubjectRelation})
		}
		if list.Next == "" {
			return out, p.headers.setRevision(ctx, p.store, list.Revision)
		}
		req.Cursor = list.Next
	}
}
