// Package pdp makes policies of the package policy from the TOSCA policies that
// are deployed, and decides ONAP's decision requests with them. [Compile] returns
// an [Engine]; [Engine.Decide] answers a [Request].
//
// Each application of ONAP (monitoring, naming, optimization, match, guard,
// native) has one compiled plan. The package stores nothing and serves no
// protocol.
package pdp

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/ostiary/ostiary/door/onap/internal/tosca"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/value"
)

// The names of the applications.
const (
	Monitoring   = "monitoring"   // answers with the policies that a request names
	Naming       = "naming"       // the same, for naming policies
	Optimization = "optimization" // answers with the policies that match best
	Match        = "match"        // the same, for types of users
	Guard        = "guard"        // permits or denies operations
	Native       = "native"       // XACML policies, for XACML requests
)

// Types finds types. A catalog.World is one.
type Types interface {
	// Find returns an entity, or nil. Version "" asks for the newest one.
	Find(s tosca.Section, name, version string) *tosca.Entity
	// Ancestors returns a type and the types that it is derived from.
	Ancestors(e *tosca.Entity) []*tosca.Entity
}

// actionGuard is the action of requests for guards.
const actionGuard = "guard"

// application is what an application of ONAP does.
type application struct {
	name      string
	action    string // action of decision requests
	algorithm string // combines the policies
	// supports reports whether policies of a type belong to the application.
	supports func(name, version string) bool
	// translate makes a policy.
	translate func(ctx context.Context, p *tosca.Entity, t Types) (translated, error)
	// weighs is true if only the policies with the highest weight are answered.
	weighs bool
}

// translated is a policy that was made from a TOSCA policy.
type translated struct {
	element policy.Element
	weight  int // number of the matches in its target
	// types are the types of attributes that the target compares, by name.
	types map[string][]value.Type
}

// first is the version of the types that an application supports only in that
// version.
const first = "1.0.0"

// prefixed returns a test for names of types with a prefix.
func prefixed(prefix string) func(string, string) bool {
	return func(name, _ string) bool { return strings.HasPrefix(name, prefix) }
}

// listed returns a test for types in version 1.0.0.
func listed(names ...string) func(string, string) bool {
	return func(name, version string) bool { return version == first && slices.Contains(names, name) }
}

// applications returns all applications.
var applications = sync.OnceValue(func() []application {
	return []application{
		{Monitoring, "configure", policy.AlgorithmCombinedPermitOverrides, prefixed("onap.policies.monitoring."), translateCombined, false},
		{Naming, "naming", policy.AlgorithmCombinedPermitOverrides, listed("onap.policies.Naming"), translateCombined, false},
		{Optimization, "optimize", policy.AlgorithmCombinedPermitOverrides, prefixed("onap.policies.optimization."), translateOptimization, true},
		{Match, "match", policy.AlgorithmCombinedPermitOverrides, prefixed("onap.policies.match."), translateMatchable, true},
		{Guard, actionGuard, policy.AlgorithmDenyOverrides, listed(typeFrequency, typeMinMax, typeBlacklist, typeFilter, typeFirstBlocksSecond), translateGuard, false},
		{Native, "native", policy.AlgorithmCombinedPermitOverrides, listed(typeXACML, typeToscaXACML), translateNative, false},
	}
})

// Applications returns the names of all applications.
func Applications() (names []string) {
	for _, a := range applications() {
		names = append(names, a.name)
	}
	return names
}

// Engine has the compiled policies of all applications. It is immutable and may be
// used concurrently.
type Engine struct {
	plans []plan // by the number of the application
	count int
}

// plan has the policies of one application.
type plan struct {
	*application
	members []member
	root    *policy.PolicySet
	// compiled decides; nil only while the engine is made.
	compiled *policy.Plan
	answers  map[string]*member // by the id of the policy
	types    map[string][]value.Type
}

// member is a deployed policy.
type member struct {
	entity *tosca.Entity
	translated
	full  []byte // the policy as the response shows it
	brief []byte // the same with ?abbrev=true
	typ   string // its type
}

// Compile returns an engine for deployed policies. previous may be nil; what it
// has compiled for the same entities is used again. It fails if a policy cannot
// be translated, or belongs to no application, or with the error of ctx if that ends
// before.
func Compile(ctx context.Context, previous *Engine, policies []*tosca.Entity, types Types) (*Engine, error) {
	e := &Engine{plans: make([]plan, len(applications())), count: len(policies)}
	for i := range e.plans {
		e.plans[i].application = &applications()[i]
	}
	for _, p := range policies {
		if err := e.add(ctx, previous, p, types); err != nil {
			return nil, fmt.Errorf("policy %s: %w", p.ID(), err)
		}
	}
	for i := range e.plans {
		var old *plan
		if previous != nil {
			old = &previous.plans[i]
		}
		if err := e.plans[i].compile(ctx, old); err != nil {
			return nil, fmt.Errorf("application %s: %w", e.plans[i].name, err)
		}
	}
	return e, nil
}

// add adds a policy to its application.
func (e *Engine) add(ctx context.Context, previous *Engine, p *tosca.Entity, types Types) error {
	typ, version := p.Type()
	for i := range e.plans {
		a := &e.plans[i]
		if !a.supports(typ, version) {
			continue
		}
		if previous != nil {
			if old := previous.plans[i].answers[p.Name]; old != nil && old.entity == p {
				a.members = append(a.members, *old)
				return nil
			}
		}
		t, err := a.make(ctx, p, types)
		if err != nil {
			return err
		}
		m := member{entity: p, translated: t, typ: typ}
		m.full, m.brief = answerTexts(p)
		a.members = append(a.members, m)
		return nil
	}
	return fmt.Errorf("no application supports the type %s:%s", typ, version)
}

// make makes the policy of a TOSCA policy and checks it.
func (a *application) make(ctx context.Context, p *tosca.Entity, types Types) (translated, error) {
	t, err := a.translate(ctx, p, types)
	if err == nil {
		err = policy.Check(ctx, t.element, policy.CompileOptions{})
	}
	return t, err
}

// Check checks a policy before it is stored or deployed. It fails if the policy
// cannot be translated, if a guard has a number with which it makes no sense, or if
// a member of a rule or a property of a guard has an unknown name, or a value of another
// form.
// [Compile] accepts these, so that a catalog opens that has them already.
// A policy that belongs to no application is not checked. Check fails with the error
// of ctx if that ends before.
func Check(ctx context.Context, p *tosca.Entity, types Types) error {
	typ, version := p.Type()
	for i := range applications() {
		a := &applications()[i]
		if !a.supports(typ, version) {
			continue
		}
		err := a.checkNames(p, types)
		if err == nil {
			_, err = a.make(ctx, p, types)
		}
		if err == nil && a.name == Guard {
			err = checkNumbers(typ, p.Properties())
		}
		if err != nil {
			return fmt.Errorf("policy %s: %w", p.ID(), err)
		}
		return nil
	}
	return nil
}

// checkNames checks the names of members and properties, of which [application.make]
// ignores those that it does not know. Clients of match and optimization policies give
// properties that no type declares: no decision reads them, and the original takes them.
func (a *application) checkNames(p *tosca.Entity, types Types) error {
	typ, _ := p.Type()
	switch {
	case typ == typeToscaXACML && p.Properties() != nil:
		return ruleShapes().check(p.Properties(), "properties")
	case a.name == Guard:
		return checkDeclared(p, types, "target") // the original's guards of every type may have it
	}
	return nil
}

// compile compiles the policies of an application, unless the old plan has the
// same ones.
func (p *plan) compile(ctx context.Context, old *plan) error {
	set := &policy.PolicySet{Header: policy.Header{ID: p.name, Version: "1.0", Algorithm: p.algorithm}}
	for i := range p.members {
		set.Children = append(set.Children, p.members[i].element)
	}
	if old != nil && slices.Equal(old.root.Children, set.Children) {
		*p = *old
		return nil
	}
	var o policy.CompileOptions
	if old != nil {
		o.Previous = old.compiled
	}
	var library []policy.Element
	if p.name == Native {
		library = set.Children // native policies may refer to each other
	}
	var err error
	if p.compiled, err = policy.Compile(ctx, set, library, o); err != nil {
		return err
	}
	p.root, p.answers, p.types = set, make(map[string]*member, len(p.members)), map[string][]value.Type{}
	for i := range p.members {
		m := &p.members[i]
		p.answers[m.entity.Name] = m
		for name, types := range m.types {
			for _, t := range types {
				if !slices.Contains(p.types[name], t) {
					p.types[name] = append(p.types[name], t)
				}
			}
		}
	}
	return nil
}

// Count returns the number of policies.
func (e *Engine) Count() int { return e.count }

// answerTexts returns a policy as responses show it, whole and abbreviated.
func answerTexts(p *tosca.Entity) (full, brief []byte) {
	var whole, short tosca.Value
	whole.Kind, short.Kind = tosca.Map, tosca.Map
	for _, name := range []string{"type", "type_version", tosca.Properties, "name", "version", tosca.Metadata, "description"} {
		v := p.Body.Get(name)
		if v == nil || v.Kind == tosca.Null {
			continue
		}
		m := tosca.Member{Name: name, Value: *v}
		whole.Members = append(whole.Members, m)
		if name == "type" || name == tosca.Metadata || name == "description" {
			short.Members = append(short.Members, m)
		}
	}
	return tosca.AppendJSON(nil, &whole), tosca.AppendJSON(nil, &short)
}
