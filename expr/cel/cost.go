package cel

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"

	"github.com/ostiary/ostiary/expr"
)

// meter charges the calls of one condition. CEL itself charges a call after it
// has returned. For most functions that is enough, because the sizes of their
// arguments bound their time. The functions in before can take longer. So meter
// computes their cost from the arguments before the call, and rejects a call
// that alone exceeds the limit of an evaluation. Each cost unit takes at most
// about a microsecond.
//
// A meter is safe for concurrent use.
type meter struct {
	// costMax, regexSizeMax and regexInputMax are the limits; see [Options].
	costMax                     uint64
	regexSizeMax, regexInputMax int

	// mu guards patterns.
	mu sync.Mutex
	// patterns holds the compiled regular expressions, by their text.
	patterns map[string]*pattern
}

// pattern is a compiled regular expression.
type pattern struct {
	// re is nil if the pattern is too large or invalid.
	re *regexp.Regexp
	// size is about the number of instructions, also for a pattern that is too
	// large. It is the length of the text, as in CEL, unless the pattern repeats
	// parts of the text.
	size int
	// err is the error of an invalid pattern.
	err error
}

const (
	// patternsMax bounds the compiled regular expressions of a condition. Beyond
	// it they are compiled again.
	patternsMax = 16
	// byteCost is the cost of a byte that a function reads, in units, as in CEL.
	byteCost = 0.1
	// instructionCost is the cost of an instruction of a regular expression for
	// each byte of input, relative to byteCost, as in CEL.
	instructionCost = 0.25
	// zoneCost is the cost of a function that loads a time zone by its name.
	zoneCost = 100
	// listLenMax bounds the length of a concatenated list. Concatenation is lazy,
	// so a short expression could make a list that no memory would hold.
	listLenMax = 1 << 20
)

// before are the functions that a meter charges before the call, by overload.
// They replace the functions of CEL, which have the same results. The overload is
// "" if the types of the arguments are known only when the function is called.
func (m *meter) before(name, overload string) functions.FunctionOp {
	switch {
	case overload == "" && name == operators.In:
		return m.inList
	case overload == "" && name == operators.Add:
		return m.addList
	}
	switch overload {
	case overloads.Matches, overloads.MatchesString:
		return m.matches
	case overloads.InList:
		return m.inList
	case overloads.Equals:
		return func(args ...ref.Val) ref.Val { return m.equal(args[0], args[1]) }
	case overloads.NotEquals:
		return func(args ...ref.Val) ref.Val { return types.Bool(m.equal(args[0], args[1]) != types.True) }
	case overloads.AddList:
		return m.addList
	}
	return nil
}

// matchesCharged is the name of the function that replaces "matches". Under its
// own name CEL would replace it by one that is not charged.
const matchesCharged = "matches_charged"

// decorate replaces calls of the functions in before.
func (m *meter) decorate(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if !ok {
		return i, nil
	}
	name, overload := call.Function(), call.OverloadID()
	impl := m.before(name, overload)
	if impl == nil || len(call.Args()) != 2 || name != operators.In && name != overloads.Matches && hasScalar(call.Args()) {
		return i, nil
	}
	if name == overloads.Matches {
		if err := m.checkPattern(call.Args()[1]); err != nil {
			return nil, err
		}
		name, overload = matchesCharged, matchesCharged
	}
	return interpreter.NewCall(call.ID(), name, overload, call.Args(), impl), nil
}

// hasScalar reports whether an argument is a constant that is no list and no
// map: comparing with it takes no longer than reading it.
func hasScalar(args []interpreter.InterpretableV2) bool {
	return slices.ContainsFunc(args, func(a interpreter.InterpretableV2) bool {
		c, ok := a.(interpreter.InterpretableConst)
		return ok && types.IsPrimitiveType(c.Value())
	})
}

// checkPattern returns the error of a constant pattern that is invalid.
func (m *meter) checkPattern(arg interpreter.InterpretableV2) error {
	c, ok := arg.(interpreter.InterpretableConst)
	if !ok {
		return nil
	}
	text, ok := c.Value().(types.String)
	if !ok || len(text) > m.regexSizeMax {
		return nil
	}
	return m.pattern(string(text)).err
}

// stop ends the evaluation at a bound, whose name begins the message.
func stop(bound, format string, args ...any) {
	panic(interpreter.EvalCancelledError{Message: bound + boundSeparator + fmt.Sprintf(format, args...), Cause: interpreter.CostLimitExceeded})
}

// boundSeparator follows the name of a bound in a message.
const boundSeparator = ": "

// boundError returns the error of an evaluation that stop, or CEL itself at its
// limit of cost, has ended. Otherwise it returns nil.
func boundError(err error) *expr.BoundError {
	stopped, ok := errors.AsType[interpreter.EvalCancelledError](err)
	if !ok || stopped.Cause != interpreter.CostLimitExceeded {
		return nil
	}
	text := stopped.Message
	bound, _, _ := strings.Cut(text, boundSeparator)
	switch bound {
	case expr.BoundCost, expr.BoundRegexSize, expr.BoundRegexInput, expr.BoundListLen:
	default: // CEL's own message names no bound
		bound, text = expr.BoundCost, expr.BoundCost+boundSeparator+text
	}
	return &expr.BoundError{Bound: bound, Text: fmt.Sprintf("%v: %s", expr.ErrCost, text)}
}

// admit ends the evaluation if a call would cost more than an evaluation may.
func (m *meter) admit(cost uint64) {
	if cost > m.costMax {
		stop(expr.BoundCost, "a function call would cost %d, CostMax is %d", cost, m.costMax)
	}
}

// matches implements the function of that name.
func (m *meter) matches(args ...ref.Val) ref.Val {
	in, ok := args[0].(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(args[0])
	}
	text, ok := args[1].(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(args[1])
	}
	if len(in) > m.regexInputMax {
		stop(expr.BoundRegexInput, "the input of a regular expression has %d bytes, RegexInputMax is %d", len(in), m.regexInputMax)
	}
	if len(text) > m.regexSizeMax {
		stop(expr.BoundRegexSize, "a regular expression has %d bytes, RegexSizeMax is %d", len(text), m.regexSizeMax)
	}
	p := m.pattern(string(text))
	switch {
	case p.err != nil:
		return types.WrapErr(p.err)
	case p.re == nil:
		stop(expr.BoundRegexSize, "a regular expression has more than %d instructions, which is RegexSizeMax", m.regexSizeMax)
	}
	m.admit(regexCost(p.size, len(in)))
	return types.Bool(p.re.MatchString(string(in)))
}

// regexCost returns the cost of matching a pattern of size instructions against
// n bytes.
func regexCost(size, n int) uint64 {
	return traversalCost(n+1) * uint64(math.Ceil(float64(size)*instructionCost))
}

// traversalCost returns the cost of reading n bytes.
func traversalCost(n int) uint64 { return uint64(math.Ceil(float64(n) * byteCost)) }

// pattern returns a compiled pattern. text is at most regexSizeMax bytes long.
func (m *meter) pattern(text string) *pattern {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.patterns[text]; p != nil {
		return p
	}
	p := m.compilePattern(text)
	if m.patterns == nil {
		m.patterns = map[string]*pattern{}
	}
	if len(m.patterns) >= patternsMax {
		clear(m.patterns)
	}
	m.patterns[text] = p
	return p
}

// compilePattern compiles a pattern unless it is too large.
func (m *meter) compilePattern(text string) *pattern {
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return &pattern{err: err}
	}
	p := &pattern{size: len(text)}
	if size := patternSize(tree); size > 2*p.size || size > m.regexSizeMax {
		p.size = size // it repeats parts of its text
	}
	if p.size <= m.regexSizeMax {
		p.re, p.err = regexp.Compile(text)
	}
	return p
}

// patternSize returns about the number of instructions of a pattern. The parser
// bounds the depth of the tree, and the product of nested repetitions.
func patternSize(re *syntax.Regexp) int {
	size := 1
	if re.Op == syntax.OpLiteral {
		size = len(re.Rune)
	}
	for _, sub := range re.Sub {
		size += patternSize(sub)
	}
	if re.Op == syntax.OpRepeat {
		size = (size + 1) * max(re.Min, re.Max, 1)
	}
	return size
}

// inList implements "element in list". The list may also be a map, which is
// searched in constant time.
func (m *meter) inList(args ...ref.Val) ref.Val {
	list, ok := args[1].(traits.Container)
	if !ok {
		return types.MaybeNoSuchOverloadErr(args[1])
	}
	if _, ok := list.(traits.Lister); ok {
		m.admit(m.inListCost(args[0], args[1]))
	}
	return list.Contains(args[0])
}

// inListCost returns the cost of looking for an element in a list.
func (m *meter) inListCost(element, list ref.Val) uint64 {
	n := uint64(max(0, sizeOf(list)))
	if n > m.costMax {
		return n
	}
	return n * m.deepCost(element)
}

// equal implements "==" for values of all types.
func (m *meter) equal(l, r ref.Val) ref.Val {
	m.admit(m.equalCost(l, r))
	return types.Equal(l, r)
}

// equalCost returns the cost of comparing two values.
func (m *meter) equalCost(l, r ref.Val) uint64 {
	switch x := l.(type) {
	case types.String:
		if y, ok := r.(types.String); ok {
			return traversalCost(min(len(x), len(y)))
		}
		return 1
	case types.Bytes:
		if y, ok := r.(types.Bytes); ok {
			return traversalCost(min(len(x), len(y)))
		}
		return 1
	case traits.Sizer:
		if y, ok := r.(traits.Sizer); !ok || x.Size() != y.Size() {
			return 1
		}
		return m.deepCost(l)
	}
	return 1
}

// deepCost returns the cost of comparing v with a value of the same size. It
// stops counting where the cost exceeds the limit of an evaluation.
func (m *meter) deepCost(v ref.Val) uint64 {
	return traversalCost(int(m.deepSize(v, m.costMax*uint64(1/byteCost))))
}

// deepSize returns the number of values in v, including those in lists and maps
// that it holds. It stops counting beyond limit.
func (m *meter) deepSize(v ref.Val, limit uint64) uint64 {
	switch x := v.(type) {
	case traits.Lister:
		return m.deepSizeOf(x.Iterator(), nil, limit)
	case traits.Mapper:
		return m.deepSizeOf(x.Iterator(), x, limit)
	}
	return 1
}

// deepSizeOf is deepSize for the elements of a list, or for the values of a map
// under its keys.
func (m *meter) deepSizeOf(it traits.Iterator, of traits.Mapper, limit uint64) uint64 {
	size := uint64(1)
	for size <= limit && it.HasNext() == types.True {
		e := it.Next()
		if of != nil {
			e = of.Get(e)
		}
		size += m.deepSize(e, limit-min(limit, size))
	}
	return size
}

// addList implements "list + list", and the sum of other values.
func (m *meter) addList(args ...ref.Val) ref.Val {
	l, ok := args[0].(traits.Adder)
	if !ok {
		return types.MaybeNoSuchOverloadErr(args[0])
	}
	if _, ok := l.(traits.Lister); !ok {
		return l.Add(args[1])
	}
	if n := sizeOf(args[0]) + sizeOf(args[1]); n > listLenMax {
		stop(expr.BoundListLen, "a list would have %d elements, the maximum is %d", n, listLenMax)
	}
	return l.Add(args[1])
}

// sizeOf returns the length of a list or a map; 1 for other values. A string
// has its length in bytes, because counting its characters takes long.
func sizeOf(v ref.Val) int {
	switch x := v.(type) {
	case types.String:
		return len(x)
	case types.Bytes:
		return len(x)
	case traits.Sizer:
		if n, ok := x.Size().(types.Int); ok {
			return int(n)
		}
	}
	return 1
}

// CallCost implements [interpreter.ActualCostEstimator]. The costs are those of
// CEL, except that strings count by their bytes and regular expressions by
// their instructions. Functions that read a whole string cost as much as it is
// long.
func (m *meter) CallCost(function, overload string, args []ref.Val, _ ref.Val) *uint64 {
	if overload == "" {
		overload = overloadOf(function, args)
	}
	var cost uint64
	switch overload {
	case matchesCharged:
		cost = m.matchesCost(args[0], args[1])
	case overloads.InList:
		cost = m.inListCost(args[0], args[1])
	case overloads.Equals, overloads.NotEquals:
		cost = m.equalCost(args[0], args[1])
	case overloads.LessString, overloads.GreaterString, overloads.LessEqualsString, overloads.GreaterEqualsString,
		overloads.LessBytes, overloads.GreaterBytes, overloads.LessEqualsBytes, overloads.GreaterEqualsBytes:
		cost = traversalCost(min(sizeOf(args[0]), sizeOf(args[1])))
	case overloads.StartsWithString, overloads.EndsWithString:
		cost = traversalCost(sizeOf(args[1]))
	case overloads.AddString, overloads.AddBytes:
		cost = traversalCost(sizeOf(args[0]) + sizeOf(args[1]))
	case overloads.ContainsString:
		cost = traversalCost(sizeOf(args[0])) * traversalCost(sizeOf(args[1]))
	case overloads.TimestampToYearWithTz, overloads.TimestampToMonthWithTz, overloads.TimestampToDayOfYearWithTz,
		overloads.TimestampToDayOfMonthZeroBasedWithTz, overloads.TimestampToDayOfMonthOneBasedWithTz,
		overloads.TimestampToDayOfWeekWithTz, overloads.TimestampToHoursWithTz, overloads.TimestampToMinutesWithTz,
		overloads.TimestampToSecondsWithTz, overloads.TimestampToMillisecondsWithTz:
		cost = zoneCost
	case overloads.SizeString, overloads.SizeStringInst, inCIDROverload:
		cost = max(1, traversalCost(sizeOf(args[len(args)-1])))
	default:
		if !overloads.IsTypeConversionFunction(function) || len(args) != 1 || !isText(args[0]) {
			return nil
		}
		cost = max(1, traversalCost(sizeOf(args[0])))
	}
	return &cost
}

// overloadOf returns an overload whose cost a call has, for a call whose types
// were not known before; "" for a call of constant cost.
func overloadOf(function string, args []ref.Val) string {
	_, isList := args[len(args)-1].(traits.Lister)
	switch {
	case function == operators.In && isList:
		return overloads.InList
	case !isText(args[0]):
		return ""
	}
	switch function {
	case operators.Add:
		return overloads.AddString
	case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		return overloads.LessString
	case overloads.Size:
		return overloads.SizeString
	}
	return ""
}

// isText reports whether v is a string or bytes.
func isText(v ref.Val) bool {
	switch v.(type) {
	case types.String, types.Bytes:
		return true
	}
	return false
}

// matchesCost returns the cost of a call of matches that was made.
func (m *meter) matchesCost(in, text ref.Val) uint64 {
	t, ok := text.(types.String)
	if !ok || len(t) > m.regexSizeMax {
		return 1
	}
	return regexCost(m.pattern(string(t)).size, sizeOf(in))
}
