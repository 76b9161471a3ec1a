package language

import (
	"slices"
	"strings"

	"github.com/ostiary/ostiary/expr"
)

// parameterKindPrefix begins each name of the protocol's enum of parameter types.
const parameterKindPrefix = "TYPE_NAME_"

// parameterKinds are the kinds of parameters in the order of the protocol's
// enum, in which number 0 is unspecified and number 1 the first of these.
func parameterKinds() []expr.Kind {
	return []expr.Kind{
		expr.Any, expr.Bool, expr.String, expr.Int, expr.Uint, expr.Double,
		expr.Duration, expr.Timestamp, expr.Map, expr.List, expr.IPAddress,
	}
}

// parameterKind returns the kind that a number of the enum means, false for 0
// and for numbers that the enum lacks.
func parameterKind(n int32) (expr.Kind, bool) {
	kinds := parameterKinds()
	if n < 1 || int(n) > len(kinds) {
		return 0, false
	}
	return kinds[n-1], true
}

// parameterKindNumber returns the enum's number of a kind.
func parameterKindNumber(k expr.Kind) int32 {
	return int32(slices.Index(parameterKinds(), k)) + 1
}

// parameterKindName returns the enum's name of a number, "" if it has none.
func parameterKindName(n int32) string {
	if n == 0 {
		return parameterKindPrefix + "UNSPECIFIED"
	}
	if k, ok := parameterKind(n); ok {
		return parameterKindPrefix + strings.ToUpper(k.String())
	}
	return ""
}

// parameterKindNamed returns the enum's number of a name, -1 if the enum lacks
// the name.
func parameterKindNamed(name string) int32 {
	for n := range int32(len(parameterKinds()) + 1) {
		if parameterKindName(n) == name {
			return n
		}
	}
	return -1
}
