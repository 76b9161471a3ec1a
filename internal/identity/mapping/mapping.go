// Package mapping turns what an identity provider asserts about a user into a
// local user, groups and projects, by the rules of Keystone's attribute mapping.
// [Parse] reads rules, and [Mapping.Apply] applies them. The package needs no
// store: groups and projects are names and ids that a caller looks up.
//
// The language is that of Keystone's API reference, "OS-FEDERATION mappings",
// schema versions 1.0, 2.0 and 3.0.
package mapping

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"

	"github.com/ostiary/ostiary/internal/tool/jsonread"
)

// Bounds of a mapping.
const (
	// RulesMax is the largest number of rules.
	RulesMax = 1000
	// PatternsMax is the largest number of bytes of all regular expressions
	// together.
	PatternsMax = 10_000
)

// Version is the version of the schema of a mapping.
type Version string

// The versions.
const (
	// Version1 is the default.
	Version1 Version = "1.0"
	// Version2 uses the domain of a local entry for its user and its projects.
	Version2 Version = "2.0"
	// Version3 adds projects_json, and a login removes the grants of the user that
	// the mapping does not list.
	Version3 Version = "3.0"
)

// Mapping is a list of rules. It is immutable and may be used concurrently.
type Mapping struct {
	version Version
	rules   []rule
}

// Version returns the version of the schema.
func (m *Mapping) Version() Version { return m.version }

// rule is a list of requirements, and what holds if an assertion satisfies all of
// them.
type rule struct {
	Local  []local       `json:"local"`
	Remote []requirement `json:"remote"`
}

// requirement is a condition on one attribute.
type requirement struct {
	Type      string    `json:"type"` // name of the attribute
	AnyOneOf  *[]string `json:"any_one_of"`
	NotAnyOf  *[]string `json:"not_any_of"`
	Blacklist *[]string `json:"blacklist"`
	Whitelist *[]string `json:"whitelist"`
	Regex     bool      `json:"regex"` // the lists contain regular expressions

	patterns []*regexp.Regexp
}

// local is one entry of what a rule yields. Texts may refer to values of the
// requirements: {0} is the first one that has no any_one_of and no not_any_of.
type local struct {
	User         *localUser     `json:"user"`
	Group        *localGroup    `json:"group"`
	Groups       template       `json:"groups"`
	GroupIDs     template       `json:"group_ids"`
	Domain       *localDomain   `json:"domain"`
	Projects     []localProject `json:"projects"`
	ProjectsJSON template       `json:"projects_json"`
}

type localUser struct {
	ID     template     `json:"id"`
	Name   template     `json:"name"`
	Email  template     `json:"email"`
	Domain *localDomain `json:"domain"`
	Type   string       `json:"type"`
}

type localGroup struct {
	ID     template     `json:"id"`
	Name   template     `json:"name"`
	Domain *localDomain `json:"domain"`
}

type localDomain struct {
	ID   template `json:"id"`
	Name template `json:"name"`
}

type localProject struct {
	Name   template     `json:"name"`
	Domain *localDomain `json:"domain"`
	Roles  []localRole  `json:"roles"`
}

type localRole struct {
	Name template `json:"name"`
}

// ParseNew is like [Parse], for a mapping that is not stored yet: it also refuses a name
// that comes twice in an object, and one that differs from a known name only in case.
func ParseNew(text []byte) (*Mapping, error) {
	var outer struct {
		Rules   []rule  `json:"rules"`
		Version Version `json:"schema_version"`
	}
	if err := jsonread.Unmarshal(text, &outer); err != nil {
		return nil, fmt.Errorf("invalid mapping: %w", err)
	}
	return Parse(text)
}

// Parse reads a mapping: a JSON object with the member "rules", and optionally
// "schema_version". Members with other names are errors inside of rules, and are
// ignored outside of them.
func Parse(text []byte) (*Mapping, error) {
	var outer struct {
		Rules   []json.RawMessage `json:"rules"`
		Version Version           `json:"schema_version"`
	}
	if err := json.Unmarshal(text, &outer); err != nil {
		return nil, fmt.Errorf("invalid mapping: %w", err)
	}
	m := &Mapping{version: outer.Version}
	if m.version == "" {
		m.version = Version1
	}
	if !slices.Contains([]Version{Version1, Version2, Version3}, m.version) {
		return nil, fmt.Errorf("unknown schema_version %.64q: expected 1.0, 2.0 or 3.0", m.version)
	}
	if len(outer.Rules) == 0 || len(outer.Rules) > RulesMax {
		return nil, fmt.Errorf("a mapping with %d rules: expected 1 to %d", len(outer.Rules), RulesMax)
	}
	patterns := 0
	for i, text := range outer.Rules {
		r, err := parseRule(text, m.version)
		if err != nil {
			return nil, fmt.Errorf("rule %d: %w", i+1, err)
		}
		if patterns += r.patternBytes(); patterns > PatternsMax {
			return nil, fmt.Errorf("the regular expressions of a mapping have more than %d bytes in all", PatternsMax)
		}
		m.rules = append(m.rules, r)
	}
	return m, nil
}

func parseRule(text []byte, v Version) (r rule, err error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return r, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return r, errors.New("text after the object")
	}
	if r.Local == nil || len(r.Remote) == 0 {
		return r, errors.New("expected the members local and remote, and at least one entry in remote")
	}
	places := 0
	for i := range r.Remote {
		q := &r.Remote[i]
		if err := q.compile(); err != nil {
			return r, fmt.Errorf("remote entry %d: %w", i+1, err)
		}
		if q.AnyOneOf == nil && q.NotAnyOf == nil {
			places++
		}
	}
	for i := range r.Local {
		if err := r.Local[i].check(v, places); err != nil {
			return r, fmt.Errorf("local entry %d: %w", i+1, err)
		}
	}
	return r, nil
}

func (r *rule) patternBytes() (n int) {
	for _, q := range r.Remote {
		for _, p := range q.patterns {
			n += len(p.String())
		}
	}
	return n
}

// list returns the list of the requirement, or nil if it has none.
func (q *requirement) list() *[]string {
	for _, l := range []*[]string{q.AnyOneOf, q.NotAnyOf, q.Blacklist, q.Whitelist} {
		if l != nil {
			return l
		}
	}
	return nil
}

// compile validates a requirement and compiles its regular expressions.
func (q *requirement) compile() error {
	if q.Type == "" {
		return errors.New("expected the member type")
	}
	lists := 0
	for _, l := range []*[]string{q.AnyOneOf, q.NotAnyOf, q.Blacklist, q.Whitelist} {
		if l != nil {
			lists++
		}
	}
	if lists > 1 {
		return errors.New("expected at most one of any_one_of, not_any_of, blacklist and whitelist")
	}
	if !q.Regex || lists == 0 {
		return nil
	}
	for _, text := range *q.list() {
		if len(text) > PatternsMax {
			return fmt.Errorf("a regular expression of %d bytes: expected at most %d", len(text), PatternsMax)
		}
		p, err := regexp.Compile(text)
		if err != nil {
			return fmt.Errorf("invalid regular expression %.64q: %w", text, err)
		}
		q.patterns = append(q.patterns, p)
	}
	return nil
}

// check validates an entry. places is the number of values that its texts may
// refer to.
func (l *local) check(v Version, places int) error {
	if l.User != nil && l.User.Type != "" && l.User.Type != "ephemeral" && l.User.Type != "local" {
		return fmt.Errorf("unknown type %.64q of a user: expected ephemeral or local", l.User.Type)
	}
	if g := l.Group; g != nil && ((g.ID == "") == (g.Name == "") || g.Name != "" && g.Domain == nil || g.ID != "" && g.Domain != nil) {
		return errors.New("expected a group with an id, or with a name and a domain")
	}
	if l.ProjectsJSON != "" && v != Version3 {
		return errors.New("projects_json needs schema_version 3.0")
	}
	for _, p := range l.Projects {
		switch {
		case p.Name == "" || p.Roles == nil:
			return errors.New("expected a project with a name and roles")
		case p.Domain != nil && v == Version1:
			return errors.New("the domain of a project needs schema_version 2.0")
		}
	}
	for _, t := range l.templates() {
		if err := t.check(places); err != nil {
			return err
		}
	}
	return nil
}

// templates returns all texts of an entry.
func (l *local) templates() []template {
	all := []template{l.Groups, l.GroupIDs, l.ProjectsJSON}
	domain := func(d *localDomain) {
		if d != nil {
			all = append(all, d.ID, d.Name)
		}
	}
	domain(l.Domain)
	if u := l.User; u != nil {
		all = append(all, u.ID, u.Name, u.Email)
		domain(u.Domain)
	}
	if g := l.Group; g != nil {
		all = append(all, g.ID, g.Name)
		domain(g.Domain)
	}
	for _, p := range l.Projects {
		all = append(all, p.Name)
		domain(p.Domain)
		for _, r := range p.Roles {
			all = append(all, r.Name)
		}
	}
	return all
}
