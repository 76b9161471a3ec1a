package policies

import (
	"math/big"
	"strings"

	"github.com/ostiary/ostiary/policy"
)

// resolve returns what a reference names: the newest version that matches its
// patterns. Another element is itself.
func (p *Policies) resolve(e policy.Element) policy.Element {
	r, ok := e.(*policy.Reference)
	if !ok {
		return e
	}
	var best policy.Element
	bestVersion := ""
	for _, candidate := range p.Library {
		id, version, set := nameOf(candidate)
		if id != r.ID || set != r.Set || !fits(version, r) {
			continue
		}
		if best == nil || order(version, bestVersion) > 0 {
			best, bestVersion = candidate, version
		}
	}
	return best
}

// nameOf returns the id and version of an element, and whether it is a set.
func nameOf(e policy.Element) (id, version string, set bool) {
	switch e := e.(type) {
	case *policy.Policy:
		return e.ID, e.Version, false
	case *policy.PolicySet:
		return e.ID, e.Version, true
	}
	return "", "", false
}

// fits reports whether a version matches all patterns of a reference.
func fits(version string, r *policy.Reference) bool {
	return (r.Version == "" || order(version, r.Version) == 0) &&
		(r.Earliest == "" || order(version, r.Earliest) >= 0) &&
		(r.Latest == "" || order(version, r.Latest) <= 0)
}

// order compares a version with a version or a pattern, number by number. It
// returns 0 if they match (section 5.13).
func order(version, pattern string) int {
	numbers, parts := strings.Split(version, "."), strings.Split(pattern, ".")
	for i, part := range parts {
		switch {
		case part == "+" && i < len(numbers):
			return 0
		case i >= len(numbers):
			return -1
		case part == "*":
			continue
		}
		a, _ := new(big.Int).SetString(numbers[i], 10)
		b, _ := new(big.Int).SetString(part, 10)
		if c := a.Cmp(b); c != 0 {
			return c
		}
	}
	if len(numbers) > len(parts) {
		return 1
	}
	return 0
}
