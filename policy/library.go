package policy

import "slices"

// library finds policies and policy sets by id.
type library struct {
	byID map[libraryKey][]Element // newest version first
}

// libraryKey is an id of a policy or of a policy set, which do not share ids.
type libraryKey struct {
	set bool
	id  string
}

// newLibrary returns the library of the elements. It reports references and
// elements that come twice.
func (c *compiler) newLibrary(elements []Element) *library {
	l := &library{byID: make(map[libraryKey][]Element, len(elements))}
	for _, e := range elements {
		name := nameOf(e)
		if ref, ok := e.(*Reference); ok {
			c.add(ref.Position, "a reference to %s is a member of the library: expected a policy or a policy set", quote(ref.ID))
			continue
		}
		key := libraryKey{name.Set, name.ID}
		l.byID[key] = append(l.byID[key], e)
	}
	for _, versions := range l.byID {
		if len(versions) > 1 {
			c.sortVersions(versions)
		}
	}
	return l
}

// sortVersions sorts elements with the same id, the newest first, and reports
// versions that come twice.
func (c *compiler) sortVersions(versions []Element) {
	slices.SortStableFunc(versions, func(a, b Element) int {
		return compareVersions(nameOf(b).Version, nameOf(a).Version)
	})
	for i := 1; i < len(versions); i++ {
		if a, b := nameOf(versions[i-1]), nameOf(versions[i]); compareVersions(a.Version, b.Version) == 0 {
			c.add(positionOf(versions[i]), "%s with version %s is twice in the library, also at %s: expected distinct ids or versions",
				describe(versions[i]), b.Version, positionOf(versions[i-1]))
		}
	}
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

// reference compiles what a reference refers to.
func (c *compiler) reference(ref *Reference) *node {
	if ref == nil || !c.patterns(ref) || c.library == nil {
		return nil
	}
	if target := c.find(ref); target != nil {
		return c.element(target)
	}
	return nil
}

// patterns checks the patterns of a reference.
func (c *compiler) patterns(ref *Reference) bool {
	before := len(c.errors)
	for _, p := range []struct{ name, text string }{
		{"Version", ref.Version}, {"EarliestVersion", ref.Earliest}, {"LatestVersion", ref.Latest},
	} {
		if p.text != "" && !isPattern(p.text) {
			c.add(ref.Position, "invalid %s %s of the reference to %s: expected numbers with dots, where * is any number and a last + any rest, for example 1.*",
				p.name, quote(p.text), quote(ref.ID))
		}
	}
	if len(c.errors) == before && ref.contradicts() {
		c.add(ref.Position, "the reference to %s asks for version %s, earliest %s and latest %s: expected patterns that one version can match",
			quote(ref.ID), quote(ref.Version), quote(ref.Earliest), quote(ref.Latest))
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

// find returns the newest element that matches a reference, or nil after it
// reported that there is none.
func (c *compiler) find(ref *Reference) Element {
	versions := c.library.byID[libraryKey{ref.Set, ref.ID}]
	for _, e := range versions {
		if v := nameOf(e).Version; isVersion(v) && ref.matches(v) {
			return e
		}
	}
	kind := "policy"
	if ref.Set {
		kind = "policy set"
	}
	if len(versions) == 0 {
		c.add(ref.Position, "reference to an unknown %s %s: expected one that is loaded", kind, quote(ref.ID))
	} else {
		c.add(ref.Position, "no version of the %s %s fits the reference: the newest one is %s, expected version %q, earliest %q, latest %q",
			kind, quote(ref.ID), nameOf(versions[0]).Version, ref.Version, ref.Earliest, ref.Latest)
	}
	return nil
}
