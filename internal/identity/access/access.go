// Package access decides which caller of the identity service may call which
// operation. It reads rules in the language of oslo.policy, so that a site can
// keep the policy file that overrides Keystone's defaults. Its main type is
// [Policy]; [Default] returns Keystone's secure defaults.
//
// The package never uses the records of a deployment: a caller passes the
// credentials and the attributes of the target.
package access

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Credentials describe the caller, from a validated token and from nothing else.
type Credentials struct {
	// Roles are the names of the caller's roles in the scope of the token.
	Roles []string
	// UserID is the id of the caller.
	UserID string
	// UserDomainID is the domain of the caller.
	UserDomainID string
	// ProjectID is the project of the token's scope; "" for another scope.
	ProjectID string
	// ProjectDomainID is the domain of that project.
	ProjectDomainID string
	// DomainID is the domain of the token's scope; "" for another scope.
	DomainID string
	// System is true for a token with system scope.
	System bool
	// TrustID is the trust that the token was made with; "" if there is none.
	TrustID string
}

// value returns the credential that a rule names. It is "None" if the token has
// no such value. The second result is false if there is no such credential.
func (c *Credentials) value(name string) (string, bool) {
	v := ""
	switch name {
	case "user_id", "token.user.id":
		v = c.UserID
	case "user_domain_id", "token.user.domain.id":
		v = c.UserDomainID
	case "project_id", "tenant_id", "token.project.id":
		v = c.ProjectID
	case "project_domain_id", "token.project.domain.id":
		v = c.ProjectDomainID
	case "domain_id", "token.domain.id":
		v = c.DomainID
	case "trust_id":
		v = c.TrustID
	case "is_admin_project": // of a deployment without a project of administrators
		return map[bool]string{true: "True", false: "False"}[c.DomainID == ""], true
	case "system_scope", "system":
		if c.System {
			v = "all"
		}
	default:
		return "", false
	}
	return cmp.Or(v, "None"), true
}

// Attributes are the attributes of the record that an operation reads or changes, and of
// the request.
type Attributes interface {
	// Attribute returns an attribute by the name that rules use, for example
	// "target.user.domain_id". Its value is text: a number and a truth value are written as
	// in Python ("True"). It is [Null] for null, and [Other] for a list.
	Attribute(name string) (value string, found bool)
}

// Target is a set of attributes by their names. A caller takes those that begin with
// "target." from stored records, and from the checked record that a request creates, never
// from members of a request that have such names.
type Target map[string]string

// Attribute returns the attribute of that name.
func (t Target) Attribute(name string) (string, bool) {
	value, found := t[name]
	return value, found
}

// Null is the value of a target attribute that exists and is null, and Other that of one
// that is no text, so that no rule can compare it. They cannot be the values of any other
// attribute, because names and ids have no NUL.
const (
	Null  = "\x00null"
	Other = "\x00other"
)

// Scope is a set of token scopes.
type Scope uint8

// The scopes.
const (
	SystemScope Scope = 1 << iota
	DomainScope
	ProjectScope
	// AnyScope admits every token.
	AnyScope Scope = 0
)

// admits returns whether a token of the credentials has one of the scopes. A token
// without a scope counts as one with the scope of a project, as in oslo.policy. It
// has no roles, so it satisfies only the rules that name its user.
func (s Scope) admits(c *Credentials) bool {
	switch {
	case s == AnyScope:
		return true
	case c.System:
		return s&SystemScope != 0
	case c.DomainID != "":
		return s&DomainScope != 0
	}
	return s&ProjectScope != 0
}

// rule is a parsed rule and the scopes that it admits.
type rule struct {
	check  check
	scopes Scope
}

// Policy is a set of rules. It is immutable and may be used concurrently.
type Policy struct {
	rules map[string]rule
}

// Allowed returns whether a caller may call an operation on a target. It returns
// false for an unknown operation.
func (p *Policy) Allowed(operation string, c *Credentials, t Attributes) bool {
	r, known := p.rules[operation]
	return known && r.scopes.admits(c) && r.check.holds(&question{p, c, t}) == yes
}

// operations returns the names of all rules, sorted.
func (p *Policy) operations() (names []string) {
	for name := range p.rules {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// with returns a policy in which rules replace those of p, by their names. The
// scopes of a replaced rule stay; a new rule admits any scope. It fails if a
// rule cannot be parsed, or if rules refer to each other in a circle or to a rule
// that does not exist.
func (p *Policy) with(rules map[string]string) (*Policy, error) {
	out := &Policy{rules: make(map[string]rule, len(p.rules)+len(rules))}
	for name, r := range p.rules {
		out.rules[name] = r
	}
	for name, text := range rules {
		c, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("rule %q: %w", name, err)
		}
		out.rules[name] = rule{c, out.rules[name].scopes}
	}
	for name := range out.rules {
		if err := out.resolve(name, nil); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// resolve follows the references of a rule. path are the rules that lead to it.
func (p *Policy) resolve(name string, path []string) error {
	if slices.Contains(path, name) {
		return fmt.Errorf("rule %q refers to itself through %s", name, strings.Join(append(path, name), ", "))
	}
	r, known := p.rules[name]
	if !known {
		return fmt.Errorf("rule %q refers to rule %q, which does not exist", path[len(path)-1], name)
	}
	for _, next := range references(r.check) {
		if err := p.resolve(next, append(path, name)); err != nil {
			return err
		}
	}
	return nil
}
