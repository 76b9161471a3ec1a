package identity

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/rel"
)

// nameMax is the largest number of characters of a name, by kind.
var nameMax = map[Kind]int{User: 255, Group: 64, Project: 64, Role: 255, CatalogService: 255, Endpoint: 255, ApplicationCredential: 255, EndpointGroup: 255}

// depthMax is the largest number of projects in a branch below a domain.
const depthMax = 5

// Get returns a record. It fails with NotFound.
func (s *Service) Get(ctx context.Context, k Kind, id string) (*Record, error) {
	d, err := s.at(ctx)
	if err != nil {
		return nil, err
	}
	r, err := d.get(k, id)
	return s.present(r), err
}

// Find returns the record of a kind with a name. domain is the id of the domain
// that the record belongs to; "" finds domains and global roles. For an application
// credential it is the id of the owner. Find fails with NotFound.
func (s *Service) Find(ctx context.Context, k Kind, domain, name string) (*Record, error) {
	d, err := s.at(ctx)
	if err != nil {
		return nil, err
	}
	if r := d.find(k, domain, name); r != nil {
		return s.present(r), nil
	}
	return nil, missing(k, name)
}

// ListRequest selects a page of records.
type ListRequest struct {
	Kind Kind // kind of the records
	// Name is the name of the records, which an index finds; "" selects all.
	Name string
	// After is the id that the page follows; "" begins at the first record.
	After string
	// Limit is the largest number of records; 0 means no limit.
	Limit int
	// Match selects records; nil selects all. It must not change the record.
	Match func(*Record) bool
}

// List returns the selected records in the order of their ids. more is true if
// there are further ones.
func (s *Service) List(ctx context.Context, r ListRequest) (records []*Record, more bool, err error) {
	d, err := s.at(ctx)
	if err != nil {
		return nil, false, err
	}
	for x, err := range s.list(ctx, d, r) {
		if err != nil {
			return nil, false, err
		}
		if more = r.Limit > 0 && len(records) == r.Limit; more {
			break
		}
		records = append(records, x)
	}
	return records, more, nil
}

// Create adds a record. It chooses the id if r.ID is "", and sets r.Domain to
// [DefaultDomain] if a user, group or project names none. secret is the password
// of a user; nil for none. Create fails with Invalid, Conflict, Forbidden or
// NotFound.
func (s *Service) Create(ctx context.Context, r Record, secret *string) (*Record, error) {
	if r.ID == "" {
		r.ID = newID()
	}
	if r.Kind != Region && strings.Contains(r.ID, idSeparator) {
		return nil, &Error{Reason: Invalid, Field: "id", Text: "an id must not contain " + idSeparator}
	}
	if err := s.compliance.check(secret); err != nil {
		return nil, err
	}
	hash, err := s.hash(ctx, secret)
	if err != nil {
		return nil, err
	}
	if r.Kind == User && r.Created.IsZero() {
		r.Created = s.now()
	}
	d, err := s.together(ctx, func(d *directory) (authz.WriteRequest, error) {
		x := r
		if err := d.place(&x); err != nil {
			return authz.WriteRequest{}, err
		}
		if _, err := d.get(r.Kind, r.ID); err == nil {
			return authz.WriteRequest{}, duplicate(&x, "ID", r.ID)
		}
		w := authz.WriteRequest{}
		if err := d.check(&x); err != nil {
			return w, err
		}
		if hash != "" {
			x.Password = s.compliance.newPassword(x.options(), false, s.now())
			x.SecretVersion = newID()
			w.Secrets = []authz.Document{s.secretOf(x.ID, hash, nil)}
		}
		w.Documents = []authz.Document{x.document()}
		if x.Kind == Project && x.Parent != "" {
			w.Add = []rel.Tuple{tuple(object(projectType, x.ID), parentRelation, plain(projectType, x.Parent))}
		}
		return w, nil
	})
	if err != nil {
		return nil, err
	}
	return d.get(r.Kind, r.ID)
}

// Update changes a record. edit gets a copy, and is called again if the store
// changes meanwhile. secret is a new password, which makes all tokens of the user
// invalid; nil keeps the password. byOwner is true if users change their own
// password, to which more rules of [Compliance] apply. Update fails as Create, and
// with the error of edit.
func (s *Service) Update(ctx context.Context, k Kind, id string, secret *string, byOwner bool, edit func(*Record) error) (*Record, error) {
	change, err := s.newChange(ctx, k, id, secret, byOwner)
	if err != nil {
		return nil, err
	}
	var revoked []Revocation
	d, err := s.together(ctx, func(d *directory) (authz.WriteRequest, error) {
		revoked = nil
		old, err := d.get(k, id)
		if err != nil {
			return authz.WriteRequest{}, err
		}
		x := *s.present(old)
		if err := edit(&x); err != nil {
			return authz.WriteRequest{}, err
		}
		if err := d.checkUpdate(old, &x); err != nil {
			return authz.WriteRequest{}, err
		}
		w := authz.WriteRequest{}
		if err := s.setPassword(old, &x, change, &w); err != nil {
			return w, err
		}
		w.Documents = []authz.Document{x.document()}
		if k == User && (change.hash != "" || x.Disabled && !old.Disabled) {
			revoked = []Revocation{{UserID: id}}
			s.revoke(d, &w, revoked[0])
		}
		return w, nil
	})
	if err != nil {
		return nil, err
	}
	if err := s.final(ctx, revoked...); err != nil {
		return nil, err
	}
	r, err := d.get(k, id)
	if err == nil && k == User && !r.Disabled && !byOwner {
		s.enabled(id)
	}
	return s.present(r), err
}

// place sets the domain of a new record that names none.
func (d *directory) place(x *Record) error {
	switch x.Kind {
	case User, Group:
		if x.Domain == "" {
			x.Domain = DefaultDomain
		}
	case Project:
		return d.placeProject(x)
	case Limit:
		return d.placeLimit(x)
	}
	return nil
}

func (d *directory) placeProject(x *Record) error {
	if x.IsDomain {
		if x.Domain != "" || x.Parent != "" {
			return failf(Invalid, "a domain cannot have a parent or belong to a domain")
		}
		return nil
	}
	if x.Domain == "" {
		x.Domain = DefaultDomain
	}
	if x.Parent == "" {
		x.Parent = x.Domain
	}
	parent, err := d.get(Project, x.Parent)
	if err != nil {
		return err
	}
	domain := parent.Domain
	if parent.IsDomain {
		domain = parent.ID
	}
	if domain != x.Domain {
		return &Error{Reason: Invalid, Field: "parent_id", Text: "the parent " + x.Parent + " is in another domain than the project"}
	}
	if d.depth(parent) >= limitDepthMax(d.limits) {
		return failf(Forbidden, "Max hierarchy depth reached for %s branch.", x.Parent)
	}
	return nil
}

// depth returns the number of projects from r up to its domain.
func (d *directory) depth(r *Record) (n int) {
	for ; r != nil && !r.IsDomain && n <= depthMax; n++ {
		r, _ = d.get(Project, r.Parent)
	}
	return n
}

// check validates what every stored record must satisfy.
func (d *directory) check(x *Record) error {
	if longest, limited := nameMax[x.Kind]; limited && x.Kind != Endpoint && x.Kind != CatalogService {
		if x.Name = strings.TrimSpace(x.Name); x.Name == "" || utf8.RuneCountInString(x.Name) > longest {
			return &Error{Reason: Invalid, Field: "name", Text: "the name must have 1 to " + strconv.Itoa(longest) + " characters"}
		}
	}
	if x.named() {
		if other := d.find(x.Kind, x.space(), x.Name); other != nil && other.ID != x.ID {
			return duplicate(x, "name", x.Name)
		}
	}
	if x.Domain != "" {
		if r, err := d.get(Project, x.Domain); err != nil || !r.IsDomain {
			return failf(NotFound, "Could not find domain: %.255s.", x.Domain)
		}
	}
	switch x.Kind {
	case User:
		return d.checkFederated(x)
	case Region:
		return d.checkRegion(x)
	case Endpoint:
		return d.checkEndpoint(x)
	case RegisteredLimit, Limit:
		return d.checkLimit(x)
	case IdentityProvider:
		return d.checkProvider(x)
	case Protocol:
		return d.checkProtocol(x)
	case Mapping:
		return checkMapping(x)
	}
	return nil
}

// checkRegion refuses a parent that does not exist, and a cycle of parents.
func (d *directory) checkRegion(x *Record) error {
	seen := map[string]bool{x.ID: true}
	for id := x.Parent; id != ""; {
		if seen[id] {
			return failf(Invalid, "region %.255q would be below itself", x.ID)
		}
		seen[id] = true
		parent, err := d.get(Region, id)
		if err != nil {
			return err
		}
		id = parent.Parent
	}
	return nil
}

func (d *directory) checkEndpoint(x *Record) error {
	if _, err := d.get(CatalogService, x.Parent); err != nil {
		return &Error{Reason: Invalid, Field: "service_id", Text: err.Error()}
	}
	return d.checkRegionOf(x)
}

// checkRegionOf refuses a member region_id that names no region.
func (d *directory) checkRegionOf(x *Record) error {
	if region := x.Members.Text("region_id"); region != "" {
		if _, err := d.get(Region, region); err != nil {
			return &Error{Reason: Invalid, Field: "region_id", Text: err.Error()}
		}
	}
	return nil
}

// duplicate returns the error of a name or an id that is in use.
func duplicate(x *Record, what, value string) error {
	kind := string(x.Kind)
	if x.IsDomain {
		kind = "domain"
	}
	if x.Domain == "" {
		return failf(Conflict, "Conflict occurred attempting to store %s - Duplicate entry found with %s %s.", kind, what, value)
	}
	return failf(Conflict, "Conflict occurred attempting to store %s - Duplicate entry found with %s %s at domain ID %s.", kind, what, value, x.Domain)
}

// checkUpdate validates a change of a record.
func (d *directory) checkUpdate(old, x *Record) error {
	switch {
	case x.ID != old.ID:
		return &Error{Reason: Invalid, Field: "id", Text: "Cannot change " + string(old.Kind) + " ID"}
	case x.Domain != old.Domain:
		return &Error{Reason: Invalid, Field: "domain_id", Text: "Cannot change Domain ID"}
	case x.IsDomain != old.IsDomain:
		return &Error{Reason: Invalid, Field: "is_domain", Text: "cannot change is_domain of " + old.ID}
	case x.Kind == Project && x.Parent != old.Parent:
		return failf(Forbidden, "Update of `parent_id` is not allowed.")
	}
	if old.Immutable() && (x.Immutable() || !old.sameBut(x, "options")) {
		return immutable("update", old)
	}
	if x.Kind == Project && !x.IsDomain && x.Disabled && !old.Disabled {
		if child := d.child(x.ID, func(c *Record) bool { return !c.Disabled }); child != nil {
			return failf(Forbidden, "Cannot disable project %s since its subtree contains enabled projects.", x.ID)
		}
	}
	if old.Kind == RegisteredLimit {
		if err := d.checkRegistered(old); err != nil {
			return err
		}
	}
	if err := d.check(x); err != nil {
		return err
	}
	return d.checkTree(x)
}

// child returns a project directly below the project that satisfies match, or nil.
func (d *directory) child(id string, match func(*Record) bool) *Record {
	children := d.below(Project, id)
	if i := slices.IndexFunc(children, match); i >= 0 {
		return children[i]
	}
	return nil
}

// sameBut returns whether the records differ at most in one member.
func (r *Record) sameBut(x *Record, member string) bool {
	a, b := *r, *x
	a.Members, b.Members = a.Members.Without(member), b.Members.Without(member)
	return bytes.Equal(a.body(), b.body())
}

func immutable(verb string, r *Record) error {
	return failf(Forbidden, "Unable to %s immutable %s resource: `%s. Set resource option \"immutable\" to false first.", verb, r.Kind, r.ID)
}
