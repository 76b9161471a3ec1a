package mapping

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/ostiary/ostiary/internal/tool/jsonread"
)

// Assertion holds the attributes of a user that an identity provider asserts, by
// their names. An attribute has one value or more.
type Assertion map[string][]string

// Result is what a mapping yields for an assertion.
type Result struct {
	// User is the user who logs in.
	User User
	// GroupIDs are ids of groups, sorted. The groups must exist.
	GroupIDs []string
	// Groups are groups by name. A group that does not exist is ignored.
	Groups []Group
	// Projects are projects in which the user has roles. They are made if they do
	// not exist.
	Projects []Project
}

// User describes the user of a [Result].
type User struct {
	// ID is the user's unique id at the provider, or the id of a local user; "" if
	// the mapping has none.
	ID     string
	Name   string // "" if the mapping has none
	Email  string // "" if the mapping has none
	Domain Domain // the zero value if the mapping has none
	// Local is true for a user that exists already, and false for one of the
	// provider, whose record is made at the first login.
	Local bool
}

// Domain names a domain by id or by name. The zero value names none.
type Domain struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Group names a group by its name within a domain.
type Group struct {
	Name   string `json:"name"`
	Domain Domain `json:"domain"`
}

// Project is a project with roles of the user.
type Project struct {
	Name   string   // name within the domain
	Domain Domain   // the zero value means the domain of the identity provider
	Roles  []string // names of roles
}

// Errors of [Mapping.Apply].
var (
	// ErrNoRule is the error of an assertion that satisfies no rule.
	ErrNoRule = errors.New("no rule of the mapping applies to what the identity provider asserts")
	// ErrNoUser is the error of an assertion whose rules yield no user.
	ErrNoUser = errors.New("the rules of the mapping yield no name and no id of a user")
)

// Apply returns the user, the groups and the projects for an assertion: what all
// rules yield that it satisfies. The first user counts, and the last entry with
// projects. Apply fails with [ErrNoRule] and [ErrNoUser], and if an attribute has
// several values where one is needed.
func (m *Mapping) Apply(a Assertion) (*Result, error) {
	out := &outcome{version: m.version}
	applied := false
	for i := range m.rules {
		values, ok := m.rules[i].satisfied(a)
		if !ok {
			continue
		}
		for j := range m.rules[i].Local {
			applied = true
			if err := out.add(&m.rules[i].Local[j], values); err != nil {
				return nil, fmt.Errorf("rule %d: %w", i+1, err)
			}
		}
	}
	switch {
	case !applied:
		return nil, ErrNoRule
	case out.user == nil || out.user.ID == "" && out.user.Name == "":
		return nil, ErrNoUser
	}
	out.result.User = *out.user
	slices.Sort(out.result.GroupIDs)
	out.result.GroupIDs = slices.Compact(out.result.GroupIDs)
	return &out.result, nil
}

// satisfied returns whether an assertion satisfies all requirements of the rule,
// and the values that its texts may refer to.
func (r *rule) satisfied(a Assertion) (values [][]string, ok bool) {
	for i := range r.Remote {
		q := &r.Remote[i]
		given := a[q.Type]
		if len(given) == 0 {
			return nil, false
		}
		switch {
		case q.AnyOneOf != nil:
			if !slices.ContainsFunc(given, q.matches) {
				return nil, false
			}
		case q.NotAnyOf != nil:
			if slices.ContainsFunc(given, q.matches) {
				return nil, false
			}
		case q.Blacklist != nil:
			values = append(values, slices.DeleteFunc(slices.Clone(given), q.matches))
		case q.Whitelist != nil:
			values = append(values, slices.DeleteFunc(slices.Clone(given), func(v string) bool { return !q.matches(v) }))
		default:
			values = append(values, given)
		}
	}
	return values, true
}

// matches returns whether the list of the requirement has the value, or has a
// regular expression that matches a part of it.
func (q *requirement) matches(value string) bool {
	if q.Regex {
		return slices.ContainsFunc(q.patterns, func(p *regexp.Regexp) bool { return p.MatchString(value) })
	}
	return slices.Contains(*q.list(), value)
}

// outcome collects what local entries yield.
type outcome struct {
	version Version
	result  Result
	user    *User // nil before the first entry with a user
}

// add adds an entry. values are those that its texts refer to.
func (o *outcome) add(l *local, values [][]string) error {
	f := &filler{values: values}
	fallback := f.domain(l.Domain)
	if l.User != nil && o.user == nil {
		o.user = &User{ID: f.text(l.User.ID), Name: f.text(l.User.Name), Email: f.text(l.User.Email),
			Domain: f.domain(l.User.Domain), Local: l.User.Type == "local"}
		if o.version != Version1 && o.user.Domain == (Domain{}) {
			o.user.Domain = fallback
		}
	}
	if g := l.Group; g != nil && g.ID != "" {
		o.result.GroupIDs = append(o.result.GroupIDs, f.text(g.ID))
	} else if g != nil {
		o.result.Groups = append(o.result.Groups, Group{f.text(g.Name), f.domain(g.Domain)})
	}
	o.result.GroupIDs = append(o.result.GroupIDs, f.list(l.GroupIDs)...)
	for _, name := range f.list(l.Groups) {
		f.fail(o.addGroup(name, l.Domain != nil, fallback))
	}
	if l.Projects != nil || l.ProjectsJSON != "" {
		o.result.Projects = f.projects(l)
		for i := range o.result.Projects {
			if p := &o.result.Projects[i]; o.version != Version1 && p.Domain == (Domain{}) {
				p.Domain = fallback
			}
		}
	}
	return f.err
}

// jsonMark begins the value of "groups" that is a JSON object with name and
// domain.
const jsonMark = "JSON:"

// addGroup adds a value of the member "groups", which is a name within the domain
// of the entry. If the entry has no domain, the value is a JSON object with a
// domain of its own.
func (o *outcome) addGroup(value string, hasDomain bool, domain Domain) error {
	g := Group{value, domain}
	if text, marked := strings.CutPrefix(value, jsonMark); marked && !hasDomain {
		g = Group{}
		if err := jsonread.Unmarshal([]byte(text), &g); err != nil {
			return fmt.Errorf("invalid group %.64q: %w", value, err)
		}
		hasDomain = g.Domain != (Domain{})
	}
	if !hasDomain || g.Name == "" {
		return fmt.Errorf("group %.64q has no domain: expected the members groups and domain", value)
	}
	o.result.Groups = append(o.result.Groups, g)
	return nil
}

// filler replaces references in templates. It keeps the first error.
type filler struct {
	values [][]string
	err    error
}

func (f *filler) fail(err error) {
	if f.err == nil {
		f.err = err
	}
}

func (f *filler) text(t template) string {
	text, err := t.one(f.values)
	f.fail(err)
	return text
}

func (f *filler) list(t template) []string {
	list, err := t.several(f.values)
	f.fail(err)
	return list
}

func (f *filler) domain(d *localDomain) Domain {
	if d == nil {
		return Domain{}
	}
	return Domain{f.text(d.ID), f.text(d.Name)}
}

// projects returns the projects of an entry, those of projects_json last.
func (f *filler) projects(l *local) (all []Project) {
	for _, p := range l.Projects {
		var roles []string
		for _, r := range p.Roles {
			roles = append(roles, f.text(r.Name))
		}
		all = append(all, Project{f.text(p.Name), f.domain(p.Domain), roles})
	}
	for _, text := range f.list(l.ProjectsJSON) {
		more, err := parseProjects(text)
		f.fail(err)
		all = append(all, more...)
	}
	return all
}

// parseProjects reads a value of projects_json: a JSON array of projects.
func parseProjects(text string) (all []Project, err error) {
	var given []struct {
		Name   string `json:"name"`
		Domain Domain `json:"domain"`
		Roles  []struct {
			Name string `json:"name"`
		} `json:"roles"`
	}
	if err := jsonread.Unmarshal([]byte(text), &given); err != nil {
		return nil, fmt.Errorf("invalid projects_json %.64q: %w", text, err)
	}
	for _, p := range given {
		if p.Name == "" || p.Roles == nil {
			return nil, fmt.Errorf("invalid projects_json %.64q: expected projects with a name and roles", text)
		}
		var roles []string
		for _, r := range p.Roles {
			roles = append(roles, r.Name)
		}
		all = append(all, Project{p.Name, p.Domain, roles})
	}
	return all, nil
}
