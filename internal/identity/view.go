package identity

import (
	"context"
	"iter"
	"slices"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/rel"
)

// View is a deployment at one revision: all that its methods return belongs
// together, whatever is written meanwhile. It keeps that revision in memory as long
// as it is referenced. Its methods may be called concurrently.
type View struct {
	service   *Service
	directory *directory
	at        authz.Consistency // of the directory's revision
}

// View returns the newest revision.
func (s *Service) View(ctx context.Context) (*View, error) {
	newest, err := s.documents.Newest(ctx)
	if err != nil {
		return nil, err
	}
	at, err := s.store.Hold(ctx, authz.AtExactly(newest.Token))
	if err != nil {
		return nil, err
	}
	return &View{s, newest.Value, at}, nil
}

// Get returns a record. It fails with NotFound.
func (v *View) Get(k Kind, id string) (*Record, error) {
	r, err := v.directory.get(k, id)
	return v.service.present(r), err
}

// Records yields the selected records in the order of their ids, without regard to
// r.Limit. It ends with an error when ctx ends.
func (v *View) Records(ctx context.Context, r ListRequest) iter.Seq2[*Record, error] {
	return v.service.list(ctx, v.directory, r)
}

// visitsMax is how many records or tuples a walk visits before it looks whether its
// context has ended.
const visitsMax = 1024

// list yields the records of a directory that a request selects.
func (s *Service) list(ctx context.Context, d *directory, r ListRequest) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		visits := 0
		visit := func(_ string, x *Record) bool {
			if visits++; visits%visitsMax == 0 && ctx.Err() != nil {
				yield(nil, ctx.Err())
				return false
			}
			x = s.present(x)
			return r.Match != nil && !r.Match(x) || yield(x, nil)
		}
		if r.Name != "" {
			for _, x := range d.withName(r.Kind, r.Name) {
				if x.ID > r.After && !visit(x.ID, x) {
					return
				}
			}
			return
		}
		from := r.After
		if from != "" {
			from += "\x00" // the next possible id
		}
		t := d.tables[r.Kind]
		t.byID.Ascend(from, visit)
	}
}

// Grants yields the grants of a user, of a group, or on a target. Empty arguments
// select all. They are in no particular order. It ends with an error when ctx ends.
func (v *View) Grants(ctx context.Context, user, group, target, role string) iter.Seq2[Grant, error] {
	f := rel.Filter{ObjectType: bindingType, Relation: subjectRelation}
	switch {
	case user != "":
		f.SubjectType, f.SubjectID = userType, user
	case group != "":
		f.SubjectType, f.SubjectID, f.SubjectRelation = groupType, group, memberRelation
	case target != "":
		return v.grantsOn(ctx, target, role)
	}
	return func(yield func(Grant, error) bool) {
		for t, err := range v.service.store.Tuples(ctx, f, v.at) {
			if err != nil {
				yield(Grant{}, err)
				return
			}
			if g := grantOf(t); (target == "" || g.Target == target) && (role == "" || g.RoleID == role) && !yield(g, nil) {
				return
			}
		}
	}
}

// grantsOn yields the grants on one target.
func (v *View) grantsOn(ctx context.Context, target, role string) iter.Seq2[Grant, error] {
	return func(yield func(Grant, error) bool) {
		bindings, err := v.read(ctx, rel.Filter{ObjectType: projectType, ObjectID: target})
		if err != nil {
			yield(Grant{}, err)
			return
		}
		for _, b := range bindings {
			if b.Subject.Type != bindingType || role != "" && parseBinding(b.Subject.ID).role != role {
				continue
			}
			for t, err := range v.service.store.Tuples(ctx, rel.Filter{ObjectType: bindingType, ObjectID: b.Subject.ID, Relation: subjectRelation}, v.at) {
				if err != nil {
					yield(Grant{}, err)
					return
				}
				if !yield(grantOf(t), nil) {
					return
				}
			}
		}
	}
}

// Members returns the users of a group, in the order of their ids.
func (v *View) Members(ctx context.Context, group string) ([]*Record, error) {
	tuples, err := v.read(ctx, rel.Filter{ObjectType: groupType, ObjectID: group, Relation: memberRelation})
	return v.records(User, subjectIDs(tuples)), err
}

// GroupsOf returns the groups of a user, in the order of their ids.
func (v *View) GroupsOf(ctx context.Context, user string) ([]*Record, error) {
	tuples, err := v.read(ctx, rel.Filter{ObjectType: groupType, Relation: memberRelation, SubjectType: userType, SubjectID: user})
	var ids []string
	for _, t := range tuples {
		ids = append(ids, t.Object.ID)
	}
	return v.records(Group, ids), err
}

// records returns the records with the ids that exist, in the order of the ids.
func (v *View) records(k Kind, ids []string) (records []*Record) {
	slices.Sort(ids)
	for _, id := range ids {
		if r, err := v.Get(k, id); err == nil {
			records = append(records, r)
		}
	}
	return records
}

// Implied returns the ids of the roles that a role implies directly, sorted.
func (v *View) Implied(ctx context.Context, prior string) ([]string, error) {
	tuples, err := v.read(ctx, rel.Filter{ObjectType: roleType, ObjectID: prior, Relation: impliesRelation})
	return subjectIDs(tuples), err
}

// Below returns the projects directly below a project or a domain, in the order of
// their ids.
func (v *View) Below(project string) []*Record { return v.directory.below(Project, project) }

// read returns all stored tuples that a filter selects, in no particular order.
func (v *View) read(ctx context.Context, f rel.Filter) ([]rel.Tuple, error) {
	return v.service.readAt(ctx, f, v.at)
}

// readAt returns all stored tuples that a filter selects at a revision, in no
// particular order.
func (s *Service) readAt(ctx context.Context, f rel.Filter, at authz.Consistency) (tuples []rel.Tuple, err error) {
	for t, err := range s.store.Tuples(ctx, f, at) {
		if err != nil {
			return nil, err
		}
		tuples = append(tuples, t)
	}
	return tuples, nil
}

// subjectIDs returns the ids of the subjects of tuples, sorted.
func subjectIDs(tuples []rel.Tuple) (ids []string) {
	for _, t := range tuples {
		ids = append(ids, t.Subject.ID)
	}
	slices.Sort(ids)
	return ids
}
