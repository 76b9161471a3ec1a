package identity

import (
	"context"
	"errors"
	"slices"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// Delete removes a record with everything that belongs to it: the grants on it
// and to it, memberships, and the password of a user. A domain is removed with
// its users, groups and projects, and a record with those that [Service.Referring]
// finds. Delete fails with NotFound, and with Forbidden if the record is immutable
// or in use.
func (s *Service) Delete(ctx context.Context, k Kind, id string) error {
	write := s.together
	if k == Group || k == Project || k == Role { // tuples lead to what is removed with them
		write = s.write
	}
	var r *removal
	_, err := write(ctx, func(d *directory) (authz.WriteRequest, error) {
		x, err := d.get(k, id)
		if err != nil {
			return authz.WriteRequest{}, err
		}
		if x.Immutable() {
			return authz.WriteRequest{}, immutable("delete", x)
		}
		if k == AccessRule && len(d.referring(link{k, id}, ApplicationCredential)) > 0 {
			return authz.WriteRequest{}, failf(Forbidden, "May not delete access rule in use")
		}
		r = &removal{service: s, directory: d, ctx: ctx, removed: map[authz.DocumentKey]bool{}}
		r.remove(x)
		return r.write, r.err
	})
	if err != nil {
		return err
	}
	return s.final(ctx, r.revoked...)
}

// removal collects what a Delete removes. Its methods do nothing after the first
// error.
type removal struct {
	service   *Service
	directory *directory
	ctx       context.Context
	write     authz.WriteRequest
	removed   map[authz.DocumentKey]bool // records that remove has been called with
	revoked   []Revocation               // events of the write
	err       error
}

func (r *removal) remove(x *Record) {
	if r.err != nil || r.removed[x.key()] {
		return
	}
	r.removed[x.key()] = true
	r.write.RemoveDocuments = append(r.write.RemoveDocuments, x.key())
	if slices.Contains(secretKinds, x.Kind) {
		r.write.RemoveSecrets = append(r.write.RemoveSecrets, x.secretKey())
	}
	switch x.Kind {
	case User:
		r.user(x)
	case Group:
		r.group(x)
	case Project:
		r.project(x)
	case Role:
		r.role(x)
	case Region:
		r.region(x)
	case CatalogService:
		r.unregistered("service", x.ID, r.directory.below(RegisteredLimit, x.ID))
		r.endpoints(x)
	case Mapping:
		r.mapping(x)
	case RegisteredLimit:
		r.fail(r.directory.checkRegistered(x))
	case DomainConfig:
		if x.HasSecret {
			r.write.RemoveSecrets = append(r.write.RemoveSecrets, x.secretKey())
		}
	}
	r.referrers(x)
}

func (r *removal) user(x *Record) {
	if x.Password != nil {
		r.write.RemoveSecrets = append(r.write.RemoveSecrets, authz.DocumentKey{Kind: secretKind, Key: x.ID})
	}
	if _, ok := r.directory.activities.Get(x.ID); ok {
		r.write.RemoveDocuments = append(r.write.RemoveDocuments, authz.DocumentKey{Kind: documentPrefix + activityKind, Key: x.ID})
	}
	r.matching(rel.Filter{SubjectType: userType, SubjectID: x.ID})
}

// group removes memberships and grants. The tokens of all members become
// invalid, because the roles of a token may result from the group.
func (r *removal) group(x *Record) {
	users, err := r.service.membersOf(r.ctx, x.ID)
	r.fail(err)
	for _, u := range users {
		e := Revocation{UserID: u}
		r.service.revoke(r.directory, &r.write, e)
		r.revoked = append(r.revoked, e)
	}
	r.matching(rel.Filter{ObjectType: groupType, ObjectID: x.ID})
	r.matching(rel.Filter{SubjectType: groupType, SubjectID: x.ID})
}

func (r *removal) project(x *Record) {
	if x.IsDomain {
		r.domain(x)
	} else if child := r.directory.child(x.ID, func(*Record) bool { return true }); child != nil && !r.removed[child.key()] {
		r.fail(failf(Forbidden, "Cannot delete project %s since it is not a leaf in the hierarchy: %s is below it.", x.ID, child.ID))
	}
	r.bindings(rel.Filter{ObjectType: projectType, ObjectID: x.ID})
	r.matching(rel.Filter{ObjectType: projectType, ObjectID: x.ID})
}

// domain removes the projects of a domain, children before their parents. The
// other records of the domain have links to it.
func (r *removal) domain(x *Record) {
	if !x.Disabled {
		r.fail(failf(Forbidden, "Cannot delete a domain that is enabled, please disable it first."))
	}
	projects := r.directory.referring(link{Project, x.ID}, Project)
	slices.SortFunc(projects, func(a, b *Record) int { return r.directory.depth(b) - r.directory.depth(a) })
	for _, p := range projects {
		r.remove(p)
	}
}

// role removes the grants of a role and the implications from it and to it.
func (r *removal) role(x *Record) {
	r.bindings(rel.Filter{ObjectType: bindingType, Relation: bindingRole, SubjectType: roleType, SubjectID: x.ID})
	r.matching(rel.Filter{SubjectType: roleType, SubjectID: x.ID})
	r.matching(rel.Filter{ObjectType: roleType, ObjectID: x.ID})
}

// bindings removes the bindings that the selected tuples name.
func (r *removal) bindings(f rel.Filter) {
	tuples, err := r.service.read(r.ctx, f)
	r.fail(err)
	for _, t := range tuples {
		id := t.Object.ID
		if t.Object.Type == projectType {
			if t.Subject.Type != bindingType {
				continue
			}
			id = t.Subject.ID
		}
		of, err := r.service.read(r.ctx, rel.Filter{ObjectType: bindingType, ObjectID: id})
		r.fail(err)
		for _, x := range of {
			r.tuple(x.Key())
		}
		b := parseBinding(id)
		r.tuple(b.structure()[0].Key())
	}
}

// region removes the regions below a region, too.
func (r *removal) region(x *Record) {
	for _, child := range r.directory.below(Region, x.ID) {
		r.remove(child)
	}
	here := link{Region, x.ID}
	if len(r.directory.referring(here, Endpoint)) > 0 {
		r.fail(failf(Forbidden, "Unable to delete region %.255s because it or its child regions have associated endpoints.", x.ID))
	}
	r.unregistered("region", x.ID, r.directory.referring(here, RegisteredLimit))
}

// unregistered fails if there are registered limits of what is deleted.
func (r *removal) unregistered(what, id string, limits []*Record) {
	if len(limits) > 0 {
		r.fail(failf(Forbidden, "Unable to delete %s %.255s because the registered limit %s refers to it.", what, id, limits[0].ID))
	}
}

func (r *removal) endpoints(x *Record) {
	for _, e := range r.directory.below(Endpoint, x.ID) {
		r.remove(e)
	}
}

// first returns the first record of a kind that satisfies match, or nil.
func first(d *directory, k Kind, match func(*Record) bool) (found *Record) {
	t := d.tables[k]
	t.byID.Ascend("", func(_ string, x *Record) bool {
		if match(x) {
			found = x
		}
		return found == nil
	})
	return found
}

// tuple removes one tuple, once.
func (r *removal) tuple(k rel.Key) {
	r.write.OnMissing = authz.Ignore
	if !slices.Contains(r.write.Remove, k) {
		r.write.Remove = append(r.write.Remove, k)
	}
}

func (r *removal) matching(f rel.Filter) {
	r.write.RemoveMatching = append(r.write.RemoveMatching, storage.Filter{Target: storage.FilterTuples, Tuple: f})
}

func (r *removal) fail(err error) { r.err = errors.Join(r.err, err) }
