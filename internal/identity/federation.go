package identity

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/identity/mapping"
	"github.com/ostiary/ostiary/internal/identity/oauth1"
)

// MethodMapped is the method of a login that an identity provider vouches for.
const MethodMapped = "mapped"

// Federated describes a user whom an identity provider vouches for.
type Federated struct {
	// ProviderID is the identity provider.
	ProviderID string `json:"provider"`
	// ProtocolID is the protocol of the first login.
	ProtocolID string `json:"protocol"`
	// UniqueID is the id of the user at the provider.
	UniqueID string `json:"unique"`
	// GroupIDs are the groups of the latest login, sorted.
	GroupIDs []string `json:"groups,omitempty"`
}

// key identifies the user among all users. It differs from the keys of names,
// because these begin with a domain.
func (f *Federated) key() string {
	return strings.Join([]string{"", f.ProviderID, f.ProtocolID, f.UniqueID}, "\x00")
}

// federated returns the user with an id at an identity provider, or nil.
func (d *directory) federated(f *Federated) *Record {
	t := d.tables[User]
	id, _ := t.byUnique.Get(f.key())
	r, _ := t.byID.Get(id)
	return r
}

// checkFederated refuses an id at an identity provider that another user has.
func (d *directory) checkFederated(x *Record) error {
	if x.Federated == nil {
		return nil
	}
	if other := d.federated(x.Federated); other != nil && other.ID != x.ID {
		return failf(Conflict, "Conflict occurred attempting to store federated_user - user %s has the same id at identity provider %.64s.", other.ID, x.Federated.ProviderID)
	}
	return nil
}

// Assertion is what an identity provider asserts about a user. A caller has
// verified that the provider did.
type Assertion struct {
	// ProviderID and ProtocolID are the records in whose name the user logs in.
	ProviderID, ProtocolID string
	// Issuer identifies the provider. It must be among the remote_ids of the record.
	Issuer string
	// Attributes are the attributes of the user.
	Attributes mapping.Assertion
}

// ProtocolKey returns the id of the record of a protocol of an identity provider.
func ProtocolKey(provider, protocol string) string { return provider + idSeparator + protocol }

// ParseProtocolKey is the inverse of [ProtocolKey].
func ParseProtocolKey(id string) (provider, protocol string) {
	provider, protocol, _ = strings.Cut(id, idSeparator)
	return provider, protocol
}

// federationIDMax is the largest number of characters of the id of an identity
// provider, a protocol, a mapping or a service provider, as in Keystone.
const federationIDMax = 64

// federationKinds are the kinds of records of federation. Callers choose their ids.
var federationKinds = []Kind{IdentityProvider, Protocol, Mapping, ServiceProvider}

// PutFederation adds an identity provider, a protocol, a mapping or a service
// provider, whose id the caller chose. An identity provider without a domain gets a
// new one.
// It fails as [Service.Create].
func (s *Service) PutFederation(ctx context.Context, r Record) (*Record, error) {
	if err := r.checkID(); err != nil {
		return nil, err
	}
	d, err := s.write(ctx, func(d *directory) (w authz.WriteRequest, err error) {
		x := r
		if _, err := d.get(r.Kind, r.ID); err == nil {
			return w, failf(Conflict, "Conflict occurred attempting to store %s - Duplicate entry found with ID %s.", r.Kind, r.ID)
		}
		if x.Kind == IdentityProvider && x.Domain == "" {
			domain := &Record{Kind: Project, ID: newID(), IsDomain: true}
			domain.Name = domain.ID
			domain.Members = domain.Members.With("description", "Domain of the identity provider "+x.ID)
			x.Domain = domain.ID
			d = d.edit()
			d.insert(domain)
			w.Documents = append(w.Documents, domain.document())
		}
		if err := d.check(&x); err != nil {
			return w, err
		}
		w.Documents = append(w.Documents, x.document())
		return w, nil
	})
	if err != nil {
		return nil, err
	}
	return d.get(r.Kind, r.ID)
}

// checkProtocol refuses a protocol whose provider or mapping does not exist.
func (d *directory) checkProtocol(x *Record) error {
	provider, _ := ParseProtocolKey(x.ID)
	if _, err := d.get(IdentityProvider, provider); err != nil {
		return err
	}
	if id := x.Members.Text("mapping_id"); !d.has(Mapping, id) {
		return failf(Invalid, "Invalid mapping id: %.255s", id)
	}
	return nil
}

// checkProvider refuses a remote id that another provider has: an issuer belongs
// to one provider.
func (d *directory) checkProvider(x *Record) error {
	mine := x.remoteIDs()
	if other := first(d, IdentityProvider, func(y *Record) bool {
		return y.ID != x.ID && slices.ContainsFunc(y.remoteIDs(), func(id string) bool { return slices.Contains(mine, id) })
	}); other != nil {
		return failf(Conflict, "Conflict occurred attempting to store identity_provider - a remote id is in use by %s.", other.ID)
	}
	return nil
}

// checkMapping refuses rules that cannot be parsed.
func checkMapping(x *Record) error {
	text, err := x.Members.MarshalJSON()
	if err == nil {
		_, err = mapping.ParseNew(text)
	}
	if err != nil {
		return &Error{Reason: Invalid, Field: "mapping", Text: err.Error()}
	}
	return nil
}

func (d *directory) has(k Kind, id string) bool {
	_, err := d.get(k, id)
	return err == nil
}

// rules parses the rules of a mapping.
func (r *Record) rules() (*mapping.Mapping, error) {
	text, err := r.Members.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return mapping.Parse(text)
}

// remoteIDs returns the issuers of an identity provider.
func (r *Record) remoteIDs() (ids []string) {
	if text, ok := r.Members.Get("remote_ids"); ok && json.Unmarshal(text, &ids) != nil {
		return nil
	}
	return ids
}

// LoginFederated logs a user in whom an identity provider vouches for, and returns
// a token without a scope. The first login makes the record of the user; a login
// also makes the projects and the grants that the mapping yields. It fails with
// Unauthorized if the assertion yields no user, with Forbidden if the provider is
// disabled or another one made the assertion, and with NotFound if there is no
// such provider or protocol.
func (s *Service) LoginFederated(ctx context.Context, a Assertion) (*Token, error) {
	var user string
	var groups []string
	var revoked []Revocation
	d, err := s.write(ctx, func(d *directory) (authz.WriteRequest, error) {
		revoked = nil
		p, m, err := d.provider(a)
		if err != nil {
			return authz.WriteRequest{}, err
		}
		result, err := m.Apply(a.Attributes)
		if err != nil {
			return authz.WriteRequest{}, unauthorized(err.Error())
		}
		if result.User.Local {
			u, err := d.localUser(result.User)
			user, groups = u, nil
			ActAs(ctx, user)
			return authz.WriteRequest{}, err
		}
		if groups, err = d.mappedGroups(result); err != nil {
			return authz.WriteRequest{}, err
		}
		l := &federatedLogin{service: s, directory: d.edit(), provider: p, assertion: a, groups: groups}
		if err := l.shadow(result.User); err != nil {
			return authz.WriteRequest{}, err
		}
		user, revoked = l.user.ID, l.revoked
		ActAs(ctx, user)
		return l.write, l.projects(ctx, result.Projects, m.Version() == mapping.Version3)
	})
	if err != nil {
		return nil, err
	}
	if err := s.final(ctx, revoked...); err != nil {
		return nil, err
	}
	u, err := d.get(User, user)
	if err != nil {
		return nil, err
	}
	payload := s.payload(user, Scope{}, []string{MethodMapped})
	if !enoughMethods(u, payload.Methods) {
		return nil, unauthorized("user " + user + " needs further methods of authentication")
	}
	if u.Federated != nil {
		payload.IdentityProvider, payload.Protocol, payload.GroupIDs = a.ProviderID, a.ProtocolID, groups
	}
	return s.issue(ctx, payload)
}

// provider returns the provider of an assertion and the rules of its mapping.
func (d *directory) provider(a Assertion) (*Record, *mapping.Mapping, error) {
	p, err := d.get(IdentityProvider, a.ProviderID)
	if err != nil {
		return nil, nil, err
	}
	protocol, err := d.get(Protocol, ProtocolKey(a.ProviderID, a.ProtocolID))
	if err != nil {
		return nil, nil, err
	}
	switch {
	case p.Disabled:
		return nil, nil, failf(Forbidden, "Identity Provider %s is disabled", p.ID)
	case !slices.Contains(p.remoteIDs(), a.Issuer):
		return nil, nil, failf(Forbidden, "Incoming identity provider identifier not included among the accepted identifiers.")
	}
	x, err := d.get(Mapping, protocol.Members.Text("mapping_id"))
	if err != nil {
		return nil, nil, err
	}
	m, err := x.rules()
	return p, m, err
}

// localUser returns the id of the existing user that a mapping names.
func (d *directory) localUser(u mapping.User) (string, error) {
	found, err := d.get(User, u.ID)
	if u.ID == "" {
		domain, domainErr := d.domainOf(u.Domain, "")
		if found, err = d.find(User, domain, u.Name), domainErr; found == nil && err == nil {
			err = missing(User, u.Name)
		}
	}
	if err != nil {
		return "", unauthorized(err.Error())
	}
	return found.ID, nil
}

// domainOf returns the id of the domain that a mapping names. An empty name is the
// fallback.
func (d *directory) domainOf(x mapping.Domain, fallback string) (string, error) {
	id := x.ID
	switch {
	case x == mapping.Domain{}:
		id = fallback
	case id == "":
		r := d.find(Project, "", x.Name)
		if r == nil {
			return "", missing("domain", x.Name)
		}
		id = r.ID
	}
	if r, err := d.get(Project, id); err != nil || !r.IsDomain {
		return "", missing("domain", id)
	}
	return id, nil
}

// mappedGroups returns the ids of the groups that a mapping yields, sorted. Groups
// by name that do not exist are left out.
func (d *directory) mappedGroups(r *mapping.Result) ([]string, error) {
	ids := slices.Clone(r.GroupIDs)
	for _, id := range ids {
		if !d.has(Group, id) {
			return nil, unauthorized("the mapping yields group " + id + ", which does not exist")
		}
	}
	for _, g := range r.Groups {
		domain, err := d.domainOf(g.Domain, "")
		if err != nil {
			return nil, unauthorized(err.Error())
		}
		if x := d.find(Group, domain, g.Name); x != nil {
			ids = append(ids, x.ID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// federatedLogin collects what a login changes.
type federatedLogin struct {
	service   *Service
	directory *directory // a copy, with the changes
	provider  *Record
	assertion Assertion
	groups    []string // groups that the mapping yields
	user      *Record
	write     authz.WriteRequest
	revoked   []Revocation // events of the write
}

// shadow makes or updates the record of a user. A change of the groups makes the
// user's tokens invalid.
func (l *federatedLogin) shadow(u mapping.User) error {
	name, unique := u.Name, u.ID
	if name == "" {
		name = u.ID
	}
	if unique == "" {
		unique = u.Name
	}
	unique = strings.ReplaceAll(oauth1.Escape(unique), "%2F", "/") // as Python's urllib.parse.quote does
	domain, err := l.directory.domainOf(u.Domain, l.provider.Domain)
	if err != nil {
		return unauthorized(err.Error())
	}
	identity := Federated{ProviderID: l.provider.ID, ProtocolID: l.assertion.ProtocolID, UniqueID: unique, GroupIDs: l.groups}
	x := &Record{Kind: User, ID: federatedID(domain, unique), Domain: domain}
	known := l.directory.federated(&identity) // an imported user may have another id
	if known == nil {
		known, _ = l.directory.get(User, x.ID)
	}
	if known != nil {
		copied := *known
		x = &copied
	}
	if known != nil {
		old := known.Federated
		if old == nil || old.ProviderID != identity.ProviderID || old.ProtocolID != identity.ProtocolID || old.UniqueID != unique {
			return unauthorized("user " + known.ID + " belongs to another identity provider or protocol")
		}
		if !slices.Equal(old.GroupIDs, l.groups) {
			l.revoked = []Revocation{{UserID: known.ID}}
			l.service.revoke(l.directory, &l.write, l.revoked[0])
		}
	}
	x.Name, x.Federated = name, &identity
	if u.Email != "" {
		x.Members = x.Members.With("email", u.Email)
	}
	if err := l.directory.check(x); err != nil {
		return unauthorized(err.Error())
	}
	if known == nil || string(known.body()) != string(x.body()) {
		l.write.Documents = append(l.write.Documents, x.document())
		l.directory.insert(x)
	}
	l.user = x
	return nil
}

// federatedID returns the id of a federated user, which is that of Keystone's
// generator sha256.
func federatedID(domain, unique string) string {
	sum := sha256.Sum256([]byte(domain + "user" + unique))
	return hex.EncodeToString(sum[:])
}

// projects makes the projects that a mapping yields, and grants their roles to the
// user. exact also removes all other grants of the user on projects.
func (l *federatedLogin) projects(ctx context.Context, all []mapping.Project, exact bool) error {
	if all == nil && !exact {
		return nil
	}
	given, err := l.service.Grants(ctx, l.user.ID, "", "", "")
	if err != nil {
		return err
	}
	wanted := map[Grant]bool{}
	for _, p := range all {
		id, err := l.project(p)
		if err != nil {
			return err
		}
		for _, name := range p.Roles {
			role := l.directory.find(Role, "", name)
			if role == nil {
				role = l.directory.find(Role, l.user.Domain, name)
			}
			if role == nil {
				return unauthorized("the mapping yields role " + name + ", which does not exist")
			}
			g := Grant{UserID: l.user.ID, Target: id, RoleID: role.ID}
			if err := l.directory.checkGrant(g); err != nil {
				return unauthorized(err.Error())
			}
			wanted[g] = true
			if !slices.Contains(given, g) {
				l.write.Add = append(append(l.write.Add, g.binding().structure()...), g.tuple())
				l.write.OnDuplicate = authz.Ignore
			}
		}
	}
	for _, g := range given {
		if r, err := l.directory.get(Project, g.Target); exact && !wanted[g] && err == nil && !r.IsDomain && !g.Inherited {
			l.write.Remove = append(l.write.Remove, g.tuple().Key())
		}
	}
	return nil
}

// project returns the id of a project of a mapping, and makes it if it does not
// exist.
func (l *federatedLogin) project(p mapping.Project) (string, error) {
	domain, err := l.directory.domainOf(p.Domain, l.provider.Domain)
	if err != nil {
		return "", unauthorized(err.Error())
	}
	if x := l.directory.find(Project, domain, p.Name); x != nil {
		return x.ID, nil
	}
	x := &Record{Kind: Project, ID: newID(), Name: p.Name, Domain: domain}
	if err := errors.Join(l.directory.place(x), l.directory.check(x)); err != nil {
		return "", unauthorized(err.Error())
	}
	l.directory.insert(x)
	l.write.Documents = append(l.write.Documents, x.document())
	l.write.Add = append(l.write.Add, tuple(object(projectType, x.ID), parentRelation, plain(projectType, x.Parent)))
	return x.ID, nil
}

// mapping fails if a protocol uses the mapping.
func (r *removal) mapping(x *Record) {
	if users := r.directory.referring(link{Mapping, x.ID}, Protocol); len(users) > 0 {
		provider, protocol := ParseProtocolKey(users[0].ID)
		r.fail(failf(Forbidden, "Unable to delete mapping %.255s because protocol %.255s of identity provider %.255s uses it.", x.ID, protocol, provider))
	}
}
