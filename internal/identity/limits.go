package identity

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/identity/settings"
)

// validateLimits fails if the model is unknown. The empty text is
// [settings.FlatLimits].
func validateLimits(m settings.LimitModel) error {
	if m != "" && DescribeLimits(m) == "" {
		return fmt.Errorf("unknown limit model %q: expected %s or %s", string(m), settings.FlatLimits, settings.TwoLevelLimits)
	}
	return nil
}

// DescribeLimits returns a sentence about a model, or "" for an unknown model.
func DescribeLimits(m settings.LimitModel) string {
	switch m {
	case settings.FlatLimits:
		return "Limits of a project do not depend on the projects and the domain above it."
	case settings.TwoLevelLimits:
		return "Projects are directly below their domain, and the limit of a project is at most the limit of its domain."
	}
	return ""
}

// limitDepthMax returns the largest number of projects in a branch below a domain.
func limitDepthMax(m settings.LimitModel) int {
	if m == settings.TwoLevelLimits {
		return 1
	}
	return depthMax
}

// noLimit is the value of a limit that allows any amount.
const noLimit = -1

// within returns whether a limit is at most another one.
func within(limit, bound int64) bool {
	return bound == noLimit || limit != noLimit && limit <= bound
}

// resourceKey identifies what a limit counts: a resource of a service in a
// region. A limit of one project or domain has its id at the end of the key.
func (r *Record) resourceKey() string {
	key := r.Parent + "\x00" + r.Members.Text("region_id") + "\x00" + r.Members.Text("resource_name") + "\x00"
	if r.Kind == Limit {
		key += r.limited()
	}
	return key
}

// limited returns the id of the project or the domain that a limit is for.
func (r *Record) limited() string {
	if project := r.Members.Text("project_id"); project != "" {
		return project
	}
	return r.Domain
}

// number returns a member that is a whole number, or 0.
func (r *Record) number(member string) (n int64) {
	if value, ok := r.Members.Get(member); ok && json.Unmarshal(value, &n) != nil {
		return 0
	}
	return n
}

// Limits returns the model of limits.
func (s *Service) Limits() settings.LimitModel { return s.options.Limits }

// CreateLimits adds records of kind [RegisteredLimit] or [Limit]: all of them or
// none. It chooses their ids. It fails as [Service.Create], and with Forbidden for
// a limit without a registered limit and for one that the [settings.LimitModel] refuses.
func (s *Service) CreateLimits(ctx context.Context, limits []Record) ([]*Record, error) {
	var made []*Record
	_, err := s.write(ctx, func(d *directory) (w authz.WriteRequest, err error) {
		made = nil
		next := d.edit()
		for _, x := range limits {
			x.ID = newID()
			if err := next.place(&x); err != nil {
				return w, err
			}
			if err := next.check(&x); err != nil {
				return w, err
			}
			next.insert(&x)
			made = append(made, &x)
			w.Documents = append(w.Documents, x.document())
		}
		for _, x := range made { // a limit of a domain may follow those of its projects
			if err := next.checkTree(x); err != nil {
				return w, err
			}
		}
		return w, nil
	})
	return made, err
}

// placeLimit sets the domain of a limit. The limit of a domain has no member
// project_id.
func (d *directory) placeLimit(x *Record) error {
	project := x.Members.Text("project_id")
	if (project == "") == (x.Domain == "") {
		return failf(Invalid, "expected exactly one of project_id and domain_id")
	}
	if project == "" {
		return nil
	}
	p, err := d.get(Project, project)
	if err != nil {
		return &Error{Reason: Invalid, Field: "project_id", Text: err.Error()}
	}
	if x.Domain = p.Domain; p.IsDomain {
		x.Members, x.Domain = x.Members.Without("project_id"), p.ID
	}
	return nil
}

// checkLimit validates a limit or a registered limit, without [directory.checkTree].
func (d *directory) checkLimit(x *Record) error {
	if name := x.Members.Text("resource_name"); strings.Contains(name, "\x00") {
		return &Error{Reason: Invalid, Field: "resource_name", Text: "a name must not contain NUL"}
	}
	if _, err := d.get(CatalogService, x.Parent); err != nil {
		return &Error{Reason: Invalid, Field: "service_id", Text: err.Error()}
	}
	if err := d.checkRegionOf(x); err != nil {
		return err
	}
	if id, taken := d.tables[x.Kind].byUnique.Get(x.resourceKey()); taken && id != x.ID {
		return failf(Conflict, "Conflict occurred attempting to store %s - Duplicate entry.", x.Kind)
	}
	if x.Kind == Limit && d.registered(x) == nil {
		return failf(Forbidden, "Unable to create a limit that has no corresponding registered limit.")
	}
	return nil
}

// registered returns the registered limit of the resource of a limit, or nil.
func (d *directory) registered(x *Record) *Record {
	r := Record{Kind: RegisteredLimit, Parent: x.Parent, Members: x.Members}
	id, _ := d.tables[RegisteredLimit].byUnique.Get(r.resourceKey())
	found, _ := d.tables[RegisteredLimit].byID.Get(id)
	return found
}

// limitOf returns the limit of a project or a domain for the resource of x, or
// nil.
func (d *directory) limitOf(x *Record, target string) *Record {
	id, _ := d.tables[Limit].byUnique.Get(strings.TrimSuffix(x.resourceKey(), x.limited()) + target)
	found, _ := d.tables[Limit].byID.Get(id)
	return found
}

// checkTree refuses a limit that the model of limits forbids: one of a project
// above that of its domain, or one of a domain below that of a project.
func (d *directory) checkTree(x *Record) error {
	if d.limits != settings.TwoLevelLimits || x.Kind != Limit {
		return nil
	}
	value, fits := x.number("resource_limit"), true
	if x.limited() != x.Domain {
		fits = within(value, d.limitOfDomain(x))
	} else {
		prefix := strings.TrimSuffix(x.resourceKey(), x.Domain)
		d.tables[Limit].byUnique.Ascend(prefix, func(key, id string) bool {
			if !strings.HasPrefix(key, prefix) {
				return false
			}
			other, _ := d.tables[Limit].byID.Get(id)
			if other.Domain == x.Domain && other.ID != x.ID {
				fits = within(other.number("resource_limit"), value)
			}
			return fits
		})
	}
	if fits {
		return nil
	}
	level := "project_id"
	if x.limited() == x.Domain {
		level = "domain_id"
	}
	return failf(Forbidden, "Invalid resource limit: The resource limit (%s: %s, resource_name: %.255s, resource_limit: %d, service_id: %s, region_id: %.255s) doesn't satisfy current hierarchy model.",
		level, x.limited(), x.Members.Text("resource_name"), value, x.Parent, x.Members.Text("region_id"))
}

// limitOfDomain returns the limit of the domain of a project's limit: its own or
// the registered default.
func (d *directory) limitOfDomain(x *Record) int64 {
	if own := d.limitOf(x, x.Domain); own != nil {
		return own.number("resource_limit")
	}
	return d.registered(x).number("default_limit")
}

// checkRegistered refuses to change or remove a registered limit that limits refer
// to.
func (d *directory) checkRegistered(r *Record) (err error) {
	prefix := r.resourceKey()
	d.tables[Limit].byUnique.Ascend(prefix, func(key, _ string) bool {
		if strings.HasPrefix(key, prefix) {
			err = failf(Forbidden, "Unable to update or delete registered limit %s because there are project limits associated with it.", r.ID)
		}
		return false
	})
	return err
}

// checkDepth fails if a project is deeper than the model of limits allows.
func (d *directory) checkDepth() error {
	deepest := limitDepthMax(d.limits)
	if p := first(d, Project, func(p *Record) bool { return d.depth(p) > deepest }); p != nil {
		return fmt.Errorf("project %s is %d levels below its domain: the limit model %s allows %d", p.ID, d.depth(p), d.limits, deepest)
	}
	return nil
}
