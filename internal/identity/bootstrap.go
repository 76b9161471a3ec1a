package identity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
)

// BootstrapOptions are the settings of [Service.Bootstrap]. The zero value makes
// what keystone-manage makes by default, without endpoints.
type BootstrapOptions struct {
	Username string // name of the administrator; default "admin"
	Password string // password of the administrator; it must not be empty
	Project  string // name of the administrator's project; default "admin"
	Role     string // name of the administrator's role; default "admin"
	Service  string // name of the identity service; default "keystone"
	Region   string // id of the region of the endpoints; "" for none
	// AdminURL, InternalURL and PublicURL are the URLs of the endpoints; "" makes
	// no endpoint for the interface.
	AdminURL, InternalURL, PublicURL string
	// Mutable leaves the option "immutable" of the roles unset.
	Mutable bool
}

// Bootstrap makes what a new deployment needs: the default domain, the roles
// admin, manager, member, reader and service, the administrator with a project
// and grants, and the identity service. It may be called again: it adds what is
// missing and sets the password.
func (s *Service) Bootstrap(ctx context.Context, o BootstrapOptions) error {
	if o.Password == "" {
		return failf(Invalid, "the administrator's password must not be empty")
	}
	ctx = bootstrapping(ctx)
	o.Username, o.Project = cmp.Or(o.Username, "admin"), cmp.Or(o.Project, "admin")
	o.Role, o.Service = cmp.Or(o.Role, "admin"), cmp.Or(o.Service, "keystone")
	if _, err := s.ensure(ctx, Record{Kind: Project, ID: DefaultDomain, Name: "Default", IsDomain: true,
		Members: Members{}.With("description", "The default domain")}); err != nil {
		return err
	}
	roles, err := s.bootstrapRoles(ctx, o)
	if err != nil {
		return err
	}
	project, err := s.ensure(ctx, Record{Kind: Project, Name: o.Project, Domain: DefaultDomain,
		Members: Members{}.With("description", "Bootstrap project for initializing the cloud.")})
	if err != nil {
		return err
	}
	user, err := s.bootstrapUser(ctx, o)
	if err != nil {
		return err
	}
	for _, target := range []string{project.ID, System} {
		if err := s.Grant(ctx, Grant{UserID: user.ID, Target: target, RoleID: roles[0]}); err != nil {
			return err
		}
	}
	return s.bootstrapCatalog(ctx, o)
}

// ensure returns the record with the name, and creates it if there is none.
func (s *Service) ensure(ctx context.Context, r Record) (*Record, error) {
	found, err := s.Find(ctx, r.Kind, r.Domain, r.Name)
	if errors.Is(err, &Error{Reason: NotFound}) {
		return s.Create(ctx, r, nil)
	}
	return found, err
}

// bootstrapRoles makes the chain of roles, each of which implies the next one,
// and the role "service". It returns the ids of the chain.
func (s *Service) bootstrapRoles(ctx context.Context, o BootstrapOptions) (ids []string, err error) {
	var members Members
	if !o.Mutable {
		members = members.With("options", map[string]bool{"immutable": true})
	}
	for _, name := range []string{o.Role, "manager", "member", "reader", "service"} {
		r, err := s.ensure(ctx, Record{Kind: Role, Name: name, Members: members})
		if err != nil {
			return nil, err
		}
		ids = append(ids, r.ID)
	}
	ids = ids[:4]
	for i, id := range ids[1:] {
		if err := s.Imply(ctx, ids[i], id); err != nil && !errors.Is(err, &Error{Reason: Conflict}) {
			return nil, err
		}
	}
	return ids, nil
}

func (s *Service) bootstrapUser(ctx context.Context, o BootstrapOptions) (*Record, error) {
	user, err := s.Find(ctx, User, DefaultDomain, o.Username)
	if errors.Is(err, &Error{Reason: NotFound}) {
		return s.Create(ctx, Record{Kind: User, Name: o.Username, Domain: DefaultDomain}, &o.Password)
	}
	if err != nil {
		return nil, err
	}
	return s.Update(ctx, User, user.ID, &o.Password, false, func(r *Record) error { r.Disabled = false; return nil })
}

// bootstrapCatalog makes the identity service, its region and its endpoints.
func (s *Service) bootstrapCatalog(ctx context.Context, o BootstrapOptions) error {
	if o.Region != "" {
		_, err := s.Create(ctx, Record{Kind: Region, ID: o.Region, Members: Members{}.With("description", "")}, nil)
		if err != nil && !errors.Is(err, &Error{Reason: Conflict}) {
			return err
		}
	}
	services, _, err := s.List(ctx, ListRequest{Kind: CatalogService, Match: func(r *Record) bool { return r.Members.Text("type") == "identity" }})
	if err != nil {
		return err
	}
	if len(services) == 0 {
		made, err := s.Create(ctx, Record{Kind: CatalogService, Name: o.Service, Members: Members{}.With("type", "identity")}, nil)
		if err != nil {
			return err
		}
		services = append(services, made)
	}
	for _, e := range [][2]string{{"admin", o.AdminURL}, {"internal", o.InternalURL}, {"public", o.PublicURL}} {
		if err := s.bootstrapEndpoint(ctx, services[0].ID, o.Region, e[0], e[1]); err != nil {
			return fmt.Errorf("%s endpoint: %w", e[0], err)
		}
	}
	return nil
}

// bootstrapEndpoint makes an endpoint, or changes its URL.
func (s *Service) bootstrapEndpoint(ctx context.Context, service, region, face, url string) error {
	if url == "" {
		return nil
	}
	endpoints, _, err := s.List(ctx, ListRequest{Kind: Endpoint, Match: func(r *Record) bool {
		return r.Parent == service && r.Members.Text("interface") == face && r.Members.Text("region_id") == region
	}})
	if err != nil {
		return err
	}
	if len(endpoints) > 0 {
		_, err = s.Update(ctx, Endpoint, endpoints[0].ID, nil, false, func(r *Record) error {
			r.Members = r.Members.With("url", url)
			return nil
		})
		return err
	}
	m := Members{}.With("interface", face).With("url", url)
	if region != "" {
		m = m.With("region_id", region)
	}
	_, err = s.Create(ctx, Record{Kind: Endpoint, Parent: service, Members: m}, nil)
	return err
}
