package identity

import (
	"context"
	"strings"
)

// link is a reference to a record without which the referring record cannot
// exist: [Service.Delete] of the record removes both, or fails.
type link struct {
	kind Kind
	id   string
}

// links returns the links of a record, apart from its parent. Some may occur twice.
func (r *Record) links() (all []link) {
	if r.Domain != "" {
		all = append(all, link{Project, r.Domain})
	}
	if r.Owner != "" {
		all = append(all, link{User, r.Owner})
	}
	if r.Kind == RequestToken || r.Kind == AccessToken {
		all = append(all, link{Consumer, r.Parent})
	}
	switch r.Kind {
	case Credential:
		if project := r.Members.Text("project_id"); project != "" {
			all = append(all, link{Project, project})
		}
	case Limit:
		all = append(all, link{Project, r.limited()})
	case DomainConfig:
		all = append(all, link{Project, r.ID})
	case Protocol:
		provider, _ := ParseProtocolKey(r.ID)
		all = append(all, link{IdentityProvider, provider}, link{Mapping, r.Members.Text("mapping_id")})
	case Endpoint, RegisteredLimit:
		if region := r.Members.Text("region_id"); region != "" {
			all = append(all, link{Region, region})
		}
	}
	if d := r.Delegation; d != nil {
		all = append(all, d.links(r.Kind)...)
	}
	for k, id := range r.Connects {
		all = append(all, link{k, id})
	}
	return all
}

// key is the key of r among the records that refer to the record of the link. Ids
// contain no NUL.
func (l link) key(r *Record) string { return l.prefix(r.Kind) + r.ID }

// prefix is the beginning of the keys of all records of a kind that have the link.
func (l link) prefix(k Kind) string {
	return string(l.kind) + "\x00" + l.id + "\x00" + string(k) + "\x00"
}

// referring returns the records of a kind that have a link, in the order of their
// ids.
func (d *directory) referring(l link, k Kind) (found []*Record) {
	prefix := l.prefix(k)
	d.referrers.Ascend(prefix, func(key string, r *Record) bool {
		ok := strings.HasPrefix(key, prefix)
		if ok {
			found = append(found, r)
		}
		return ok
	})
	return found
}

// Referring returns the records of kind k that refer to a record, in the order of
// their ids: the application credentials, access rules and trusts of a user, the
// trusts on a project, and others.
func (s *Service) Referring(ctx context.Context, to Kind, id string, k Kind) ([]*Record, error) {
	d, err := s.at(ctx)
	if err != nil {
		return nil, err
	}
	return d.referring(link{to, id}, k), nil
}

// referrers removes the records that have a link to x.
func (r *removal) referrers(x *Record) {
	for _, k := range kinds {
		for _, y := range r.directory.referring(link{x.Kind, x.ID}, k) {
			r.remove(y)
		}
	}
}
