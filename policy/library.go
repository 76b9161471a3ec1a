package policy

import (
	"slices"

	"github.com/ostiary/ostiary/policy/value"
)

// library finds policies and policy sets by id. It is immutable once it is
// loaded.
type library struct {
	elements []Element
	nodes    []*node // by number of the element
	byID     *libraryNames
}

// libraryNames are the names of the elements of a library. Libraries whose
// elements have the same names in the same order share them.
type libraryNames struct {
	first map[libraryKey]int32 // the element with the newest version
	next  []int32              // the next older version of an element; -1 if there is none
}

// libraryKey is an id of a policy or of a policy set, which do not share ids.
type libraryKey struct {
	set bool
	id  string
}

// loadLibrary compiles the elements of the library.
func (c *compiler) loadLibrary(elements []Element) {
	l := &library{elements: elements, nodes: make([]*node, len(elements))}
	c.library = l
	for _, e := range elements {
		if ref, ok := e.(*Reference); ok && ref != nil {
			c.add(ref.Position, "a reference to %s is a member of the library: expected a policy or a policy set", value.Quote(ref.ID))
			return
		}
	}
	if c.previous != nil && sameNames(c.previous.library.elements, elements) {
		l.byID = c.previous.library.byID
	} else {
		l.byID = c.newNames(elements)
	}
	for i := range elements {
		c.libraryNode(int32(i))
	}
}

// libraryNode returns the compiled form of an element of the library, or nil if its
// number is -1.
func (c *compiler) libraryNode(at int32) *node {
	if at < 0 {
		return nil
	}
	l := c.library
	if l.nodes[at] == nil {
		var like *node
		if c.previous != nil && int(at) < len(c.previous.library.nodes) {
			like = c.previous.library.nodes[at]
		}
		l.nodes[at] = c.element(l.elements[at], like)
	}
	return l.nodes[at]
}

// sameNames reports whether elements have the same names in the same order.
func sameNames(a, b []Element) bool {
	return slices.EqualFunc(a, b, func(x, y Element) bool { return x == y || nameOf(x) == nameOf(y) })
}

// newNames returns the names of the elements. It reports those that come twice.
func (c *compiler) newNames(elements []Element) *libraryNames {
	l := &libraryNames{first: make(map[libraryKey]int32, len(elements)), next: make([]int32, len(elements))}
	for i, e := range elements {
		name := nameOf(e)
		key := libraryKey{name.Set, name.ID}
		l.next[i] = -1
		at, ok := l.first[key]
		if !ok {
			l.first[key] = int32(i)
			continue
		}
		last := int32(-1) // the oldest of the versions that are newer
		for at >= 0 && compareVersions(nameOf(elements[at]).Version, name.Version) > 0 {
			last, at = at, l.next[at]
		}
		if at >= 0 && compareVersions(nameOf(elements[at]).Version, name.Version) == 0 {
			c.add(positionOf(e), "%s with version %s is twice in the library, also at %s: expected distinct ids or versions",
				describe(e), name.Version, positionOf(elements[at]))
			continue
		}
		l.next[i] = at
		if last < 0 {
			l.first[key] = int32(i)
		} else {
			l.next[last] = int32(i)
		}
	}
	return l
}

// positionOf returns the place of an element.
func positionOf(e Element) Position {
	switch e := e.(type) {
	case *Policy:
		return e.Position
	case *PolicySet:
		return e.Position
	case *Reference:
		return e.Position
	}
	return Position{}
}

// reference returns the number of the element of the library that a reference
// names, or -1 if there is none or references are not resolved.
func (c *compiler) reference(ref *Reference) int32 {
	if !c.patterns(ref) || c.library == nil {
		return -1
	}
	return c.find(ref)
}

// patterns checks the patterns of a reference.
func (c *compiler) patterns(ref *Reference) bool {
	before := len(c.errors)
	for _, p := range []struct{ name, text string }{
		{"Version", ref.Version}, {"EarliestVersion", ref.Earliest}, {"LatestVersion", ref.Latest},
	} {
		if p.text != "" && !isPattern(p.text) {
			c.add(ref.Position, "invalid %s %s of the reference to %s: expected numbers with dots, where * is any number and a last + any rest, for example 1.*",
				p.name, value.Quote(p.text), value.Quote(ref.ID))
		}
	}
	if len(c.errors) == before && ref.contradicts() {
		c.add(ref.Position, "the reference to %s asks for version %s, earliest %s and latest %s: expected patterns that one version can match",
			value.Quote(ref.ID), value.Quote(ref.Version), value.Quote(ref.Earliest), value.Quote(ref.Latest))
	}
	return len(c.errors) == before
}

// contradicts reports whether no version can match the patterns, as far as those
// without wildcards show it.
func (ref *Reference) contradicts() bool {
	if isVersion(ref.Version) {
		return !ref.matches(ref.Version)
	}
	return isVersion(ref.Earliest) && ref.Latest != "" && compareVersions(ref.Earliest, ref.Latest) > 0
}

// find returns the number of the newest element that matches a reference, or -1
// after it reported that there is none.
func (c *compiler) find(ref *Reference) int32 {
	names := c.library.byID
	first, ok := names.first[libraryKey{ref.Set, ref.ID}]
	if ok {
		for at := first; at >= 0; at = names.next[at] {
			if ref.matches(nameOf(c.library.elements[at]).Version) {
				return at
			}
		}
	}
	kind := "policy"
	if ref.Set {
		kind = "policy set"
	}
	if ok {
		c.add(ref.Position, "no version of the %s %s fits the reference: the newest one is %s, expected version %q, earliest %q, latest %q",
			kind, value.Quote(ref.ID), nameOf(c.library.elements[first]).Version, ref.Version, ref.Earliest, ref.Latest)
	} else {
		c.add(ref.Position, "reference to an unknown %s %s: expected one that is loaded", kind, value.Quote(ref.ID))
	}
	return -1
}
