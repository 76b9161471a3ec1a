package policy

import (
	"cmp"
	"strings"
)

// isVersion reports whether text is a version: numbers with dots (section 5.12).
func isVersion(text string) bool {
	for part := range strings.SplitSeq(text, ".") {
		if !isNumber(part) {
			return false
		}
	}
	return true
}

// isPattern reports whether text is a pattern of versions: like a version, but a
// part may be "*", and the last one "+" (section 5.13).
func isPattern(text string) bool {
	parts := strings.Split(text, ".")
	for i, part := range parts {
		if !isNumber(part) && part != "*" && (part != "+" || i < len(parts)-1) {
			return false
		}
	}
	return true
}

func isNumber(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

// compareVersions compares versions part by part as numbers of any size. If one
// is the beginning of the other, the shorter one is less: 1 is less than 1.0. In
// the pattern b, "*" equals any number, and "+" any remaining parts.
func compareVersions(a, b string) int {
	for {
		partA, restA, moreA := strings.Cut(a, ".")
		partB, restB, moreB := strings.Cut(b, ".")
		if partB == "+" {
			return 0
		}
		if partB != "*" {
			if c := compareNumbers(partA, partB); c != 0 {
				return c
			}
		}
		switch {
		case !moreA && !moreB:
			return 0
		case !moreA:
			return -1
		case !moreB:
			return 1
		}
		a, b = restA, restB
	}
}

// compareNumbers compares decimal numbers of any length.
func compareNumbers(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

// matches reports whether a version fits the patterns of the reference.
func (ref *Reference) matches(version string) bool {
	return (ref.Version == "" || compareVersions(version, ref.Version) == 0) &&
		(ref.Earliest == "" || compareVersions(version, ref.Earliest) >= 0) &&
		(ref.Latest == "" || compareVersions(version, ref.Latest) <= 0)
}
