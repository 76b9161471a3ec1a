package identity

import (
	"context"
	"slices"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
)

// revocationMargin is how much longer than a token an event is kept, for servers
// whose clocks differ.
const revocationMargin = 30 * time.Minute

// Grant gives a role to a user or a group, on a project, a domain or the system.
type Grant struct {
	// UserID is the user; "" for a grant to a group.
	UserID string
	// GroupID is the group; "" for a grant to a user.
	GroupID string
	// Target is the id of the project or domain, or [System].
	Target string
	// RoleID is the role.
	RoleID string
	// Inherited makes the grant hold on all projects below the target, instead of
	// on the target itself.
	Inherited bool
}

func (g Grant) binding() binding { return binding{g.Target, g.RoleID, g.Inherited} }

// tuple returns the tuple that is the grant.
func (g Grant) tuple() rel.Tuple {
	s := plain(userType, g.UserID)
	if g.GroupID != "" {
		s = rel.Subject{Type: groupType, ID: g.GroupID, Relation: memberRelation}
	}
	return tuple(object(bindingType, g.binding().id()), subjectRelation, s)
}

// grantOf is the inverse of tuple.
func grantOf(t rel.Tuple) Grant {
	b := parseBinding(t.Object.ID)
	g := Grant{Target: b.target, RoleID: b.role, Inherited: b.inherited}
	if t.Subject.Type == groupType {
		g.GroupID = t.Subject.ID
	} else {
		g.UserID = t.Subject.ID
	}
	return g
}

// checkGrant validates the records of a grant. A role of a domain can be granted on
// domains, and on projects of its own domain.
func (d *directory) checkGrant(g Grant) error {
	role, err := d.get(Role, g.RoleID)
	if err != nil {
		return err
	}
	if g.GroupID != "" {
		_, err = d.get(Group, g.GroupID)
	} else {
		_, err = d.get(User, g.UserID)
	}
	if err != nil {
		return err
	}
	if g.Target == System {
		if role.Domain != "" {
			return failf(Invalid, "role %s belongs to a domain and cannot be granted on the system", role.ID)
		}
		return nil
	}
	target, err := d.get(Project, g.Target)
	if err != nil {
		return err
	}
	if role.Domain != "" && !target.IsDomain && role.Domain != target.Domain {
		return failf(Forbidden, "role %s of domain %s cannot be granted on %s, which is in domain %s", role.ID, role.Domain, target.ID, target.Domain)
	}
	return nil
}

// owner returns the domain that a project is in; a domain is in itself.
func (r *Record) owner() string {
	if r.IsDomain {
		return r.ID
	}
	return r.Domain
}

// Grant adds a grant. It does nothing if the grant exists. It fails with
// NotFound, Invalid or Forbidden.
func (s *Service) Grant(ctx context.Context, g Grant) error {
	_, err := s.together(ctx, func(d *directory) (authz.WriteRequest, error) {
		add := append(g.binding().structure(), g.tuple())
		return authz.WriteRequest{Add: add, OnDuplicate: authz.Ignore}, d.checkGrant(g)
	})
	return err
}

// Revoke removes a grant. Tokens stay valid and lose the role. It fails with
// NotFound if there is no such grant.
func (s *Service) Revoke(ctx context.Context, g Grant) error {
	return s.removeTuple(ctx, g.tuple(), "role assignment with role", g.RoleID, nil)
}

// removeTuple removes a tuple that must exist. more adds changes to the write.
func (s *Service) removeTuple(ctx context.Context, t rel.Tuple, what Kind, id string, more func(*directory, *authz.WriteRequest)) error {
	_, err := s.write(ctx, func(d *directory) (authz.WriteRequest, error) {
		w := authz.WriteRequest{Remove: []rel.Key{t.Key()}}
		found, err := s.has(ctx, t)
		if err == nil && !found {
			err = missing(what, id)
		}
		if more != nil {
			more(d, &w)
		}
		return w, err
	})
	return err
}

// Granted returns whether a grant exists.
func (s *Service) Granted(ctx context.Context, g Grant) (bool, error) { return s.has(ctx, g.tuple()) }

// Grants returns the grants of a user, of a group, or on a target, as
// [View.Grants] does.
func (s *Service) Grants(ctx context.Context, user, group, target, role string) (grants []Grant, err error) {
	v, err := s.View(ctx)
	if err != nil {
		return nil, err
	}
	for g, err := range v.Grants(ctx, user, group, target, role) {
		if err != nil {
			return nil, err
		}
		grants = append(grants, g)
	}
	return grants, nil
}

// EffectiveRoles returns the ids of the roles that a user has on a project, a
// domain or the system: granted directly or to a group, inherited, and implied.
// Roles of a domain are replaced by the roles that they imply. The order is
// ascending.
func (s *Service) EffectiveRoles(ctx context.Context, user, target string) ([]string, error) {
	d, err := s.at(ctx)
	if err != nil {
		return nil, err
	}
	return s.globalRolesOn(ctx, d, user, target)
}

// globalRolesOn returns the ids of the roles of EffectiveRoles. groups are further groups of
// the user.
func (s *Service) globalRolesOn(ctx context.Context, d *directory, user, target string, groups ...string) ([]string, error) {
	all, err := s.rolesOn(ctx, user, target, groups...)
	return d.global(all), err
}

// holders returns the subjects whose grants a user has: those of the user, who may
// be a member of groups in the store, and those of further groups, which an
// identity provider asserts.
func holders(user string, groups []string) []rel.Subject {
	all := []rel.Subject{plain(userType, user)}
	for _, id := range groups {
		all = append(all, rel.Subject{Type: groupType, ID: id, Relation: memberRelation})
	}
	return all
}

// rolesOn returns the ids of the roles of EffectiveRoles and of the domain roles
// that they follow from, in ascending order. groups are further groups of the user.
func (s *Service) rolesOn(ctx context.Context, user, target string, groups ...string) ([]string, error) {
	bindings, err := s.subjects(ctx, projectType, target, effectiveRelation, bindingType)
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, id := range bindings {
		role := parseBinding(id).role
		if found[role] {
			continue
		}
		for _, holder := range holders(user, groups) {
			a, err := s.store.Check(ctx, authz.CheckRequest{Object: object(bindingType, id), Relation: subjectRelation, Subject: holder})
			if err != nil {
				return nil, err
			}
			if a.Decision == expr.True {
				found[role] = true
				break
			}
		}
	}
	return s.withImplied(ctx, found)
}

// implied returns the ids of roles and of all roles that they imply, in ascending
// order.
func (s *Service) implied(ctx context.Context, roles []string) ([]string, error) {
	given := map[string]bool{}
	for _, id := range roles {
		given[id] = true
	}
	return s.withImplied(ctx, given)
}

// withImplied returns the ids of the roles and of all roles that they imply, in
// ascending order.
func (s *Service) withImplied(ctx context.Context, roles map[string]bool) ([]string, error) {
	all := map[string]bool{}
	for id := range roles {
		all[id] = true
		implied, err := s.subjects(ctx, roleType, id, impliedRelation, roleType)
		if err != nil {
			return nil, err
		}
		for _, i := range implied {
			all[i] = true
		}
	}
	ids := make([]string, 0, len(all))
	for id := range all {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids, nil
}

// global removes the roles that belong to a domain or do not exist from a list of
// ids, and returns the rest. It changes the list.
func (d *directory) global(roles []string) []string {
	return slices.DeleteFunc(roles, func(id string) bool {
		r, err := d.get(Role, id)
		return err != nil || r.Domain != ""
	})
}

// Targets returns the ids of the enabled projects and domains on which a user or
// one of the groups has a role, sorted. System is among them if there is a role on
// it.
func (s *Service) Targets(ctx context.Context, user string, groups ...string) ([]string, error) {
	d, err := s.at(ctx)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, holder := range holders(user, groups) {
		ids, err := s.targetsOf(ctx, d, holder)
		if err != nil {
			return nil, err
		}
		all = append(all, ids...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// targetsOf returns the ids of the enabled targets on which a subject has a role.
func (s *Service) targetsOf(ctx context.Context, d *directory, holder rel.Subject) (ids []string, err error) {
	r := authz.ListObjectsRequest{Type: projectType, Relation: accessibleRelation, Subject: holder}
	for {
		page, err := s.store.ListObjects(ctx, r)
		if err != nil {
			return nil, err
		}
		for _, id := range page.IDs {
			if x, err := d.get(Project, id); id == System || err == nil && d.usable(x) {
				ids = append(ids, id)
			}
		}
		if r.Cursor = page.Next; r.Cursor == "" {
			return ids, nil
		}
	}
}

// Imply makes a role imply another one. It fails with NotFound, with Forbidden if
// a global role would imply a role of a domain, and with Conflict if it already
// does.
func (s *Service) Imply(ctx context.Context, prior, implied string) error {
	_, err := s.write(ctx, func(d *directory) (authz.WriteRequest, error) {
		w := authz.WriteRequest{Add: []rel.Tuple{implication(prior, implied)}}
		if err := d.checkImplication(prior, implied); err != nil {
			return w, err
		}
		found, err := s.has(ctx, w.Add[0])
		if err == nil && found {
			err = failf(Conflict, "Conflict occurred attempting to store implied_role - role %s already implies %s.", prior, implied)
		}
		return w, err
	})
	return err
}

// checkImplication validates the roles of an implication.
func (d *directory) checkImplication(prior, implied string) error {
	p, err := d.get(Role, prior)
	if err != nil {
		return err
	}
	i, err := d.get(Role, implied)
	if err == nil && i.Domain != "" && p.Domain == "" {
		err = failf(Forbidden, "role %s cannot imply role %s of domain %s", prior, implied, i.Domain)
	}
	return err
}

func implication(prior, implied string) rel.Tuple {
	return tuple(object(roleType, prior), impliesRelation, plain(roleType, implied))
}

// NotImply removes an implication. It fails with NotFound.
func (s *Service) NotImply(ctx context.Context, prior, implied string) error {
	return s.removeTuple(ctx, implication(prior, implied), "implied role", implied, nil)
}

// Implied returns the ids of the roles that a role implies directly, sorted.
func (s *Service) Implied(ctx context.Context, prior string) ([]string, error) {
	v, err := s.View(ctx)
	if err != nil {
		return nil, err
	}
	return v.Implied(ctx, prior)
}

// AddMember adds a user to a group. It does nothing if the user is a member.
func (s *Service) AddMember(ctx context.Context, group, user string) error {
	_, err := s.together(ctx, func(d *directory) (authz.WriteRequest, error) {
		w := authz.WriteRequest{Add: []rel.Tuple{membership(group, user)}, OnDuplicate: authz.Ignore}
		if _, err := d.get(Group, group); err != nil {
			return w, err
		}
		_, err := d.get(User, user)
		return w, err
	})
	return err
}

func membership(group, user string) rel.Tuple {
	return tuple(object(groupType, group), memberRelation, plain(userType, user))
}

// RemoveMember removes a user from a group, and makes the user's tokens invalid.
// It fails with NotFound.
func (s *Service) RemoveMember(ctx context.Context, group, user string) error {
	e := Revocation{UserID: user}
	err := s.removeTuple(ctx, membership(group, user), User, user, func(d *directory, w *authz.WriteRequest) { s.revoke(d, w, e) })
	if err != nil {
		return err
	}
	return s.final(ctx, e)
}

// Member returns whether a user is in a group.
func (s *Service) Member(ctx context.Context, group, user string) (bool, error) {
	return s.has(ctx, membership(group, user))
}

// membersOf returns the ids of the users of a group.
func (s *Service) membersOf(ctx context.Context, group string) ([]string, error) {
	tuples, err := s.read(ctx, rel.Filter{ObjectType: groupType, ObjectID: group, Relation: memberRelation})
	return subjectIDs(tuples), err
}

// Members returns the users of a group, in the order of their ids.
func (s *Service) Members(ctx context.Context, group string) ([]*Record, error) {
	v, err := s.View(ctx)
	if err != nil {
		return nil, err
	}
	return v.Members(ctx, group)
}

// GroupsOf returns the groups of a user, in the order of their ids.
func (s *Service) GroupsOf(ctx context.Context, user string) ([]*Record, error) {
	v, err := s.View(ctx)
	if err != nil {
		return nil, err
	}
	return v.GroupsOf(ctx, user)
}

// subjects returns all subjects of a type that have a relation on an object.
func (s *Service) subjects(ctx context.Context, objectType, id, relation, subjectType string) (ids []string, err error) {
	r := authz.ListSubjectsRequest{Object: object(objectType, id), Relation: relation, SubjectType: subjectType}
	for {
		page, err := s.store.ListSubjects(ctx, r)
		if err != nil {
			return nil, err
		}
		if ids = append(ids, page.IDs...); page.Next == "" {
			return ids, incomplete(page.Reasons)
		}
		r.Cursor = page.Next
	}
}

// incomplete returns an error if a list may lack entries.
func incomplete(r *authz.Reasons) error {
	if r == nil {
		return nil
	}
	return failf(Forbidden, "cannot find all role assignments: %s", r)
}

// has returns whether a tuple is stored.
func (s *Service) has(ctx context.Context, t rel.Tuple) (bool, error) {
	found, err := s.read(ctx, rel.Filter{ObjectType: t.Object.Type, ObjectID: t.Object.ID, Relation: t.Relation,
		SubjectType: t.Subject.Type, SubjectID: t.Subject.ID, SubjectRelation: t.Subject.Relation})
	return len(found) > 0, err
}

// read returns all stored tuples of the newest revision that a filter selects, in
// no particular order.
func (s *Service) read(ctx context.Context, f rel.Filter) ([]rel.Tuple, error) {
	return s.readAt(ctx, f, authz.Acknowledged())
}
