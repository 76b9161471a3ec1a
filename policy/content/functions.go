package content

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// function is a function of XPath 1.0 (section 4).
type function struct {
	least, most int // number of arguments; most -1 means any
	call        func(f *focus, args []any) (any, error)
}

// functions are the functions by name.
var functions = map[string]*function{
	"last":     {0, 0, func(f *focus, _ []any) (any, error) { return float64(f.size), nil }},
	"position": {0, 0, func(f *focus, _ []any) (any, error) { return float64(f.position), nil }},
	"count":    {1, 1, ofNodes(func(nodes []*Node) any { return float64(len(nodes)) })},
	// A document without a type declaration has no ids.
	"id":               {1, 1, func(*focus, []any) (any, error) { return []*Node(nil), nil }},
	"local-name":       {0, 1, ofFirst(func(n *Node) string { return n.local })},
	"namespace-uri":    {0, 1, ofFirst(func(n *Node) string { return n.space })},
	"name":             {0, 1, ofFirst(qualifiedName)},
	"string":           {0, 1, ofText(func(s string) any { return s })},
	"concat":           {2, -1, concat},
	"starts-with":      {2, 2, ofTexts(func(x, y string) any { return strings.HasPrefix(x, y) })},
	"contains":         {2, 2, ofTexts(func(x, y string) any { return strings.Contains(x, y) })},
	"substring-before": {2, 2, ofTexts(substringBefore)},
	"substring-after":  {2, 2, ofTexts(substringAfter)},
	"substring":        {2, 3, substring},
	"string-length":    {0, 1, ofText(func(s string) any { return float64(utf8.RuneCountInString(s)) })},
	"normalize-space":  {0, 1, ofText(normalizeSpace)},
	"translate":        {3, 3, translate},
	"boolean":          {1, 1, func(_ *focus, args []any) (any, error) { return toBoolean(args[0]), nil }},
	"not":              {1, 1, func(_ *focus, args []any) (any, error) { return !toBoolean(args[0]), nil }},
	"true":             {0, 0, func(*focus, []any) (any, error) { return true, nil }},
	"false":            {0, 0, func(*focus, []any) (any, error) { return false, nil }},
	"lang":             {1, 1, lang},
	"number":           {0, 1, number},
	"sum":              {1, 1, sum},
	"floor":            {1, 1, ofNumber(math.Floor)},
	"ceiling":          {1, 1, ofNumber(math.Ceil)},
	"round":            {1, 1, ofNumber(round)},
}

// call is a call of a function.
type call struct {
	function  *function
	arguments []expression
}

func (c *call) evaluate(f *focus) (any, error) {
	args := make([]any, len(c.arguments))
	for i, a := range c.arguments {
		var err error
		if args[i], err = a.evaluate(f); err != nil {
			return nil, err
		}
	}
	if err := f.run.count(1); err != nil {
		return nil, err
	}
	return c.function.call(f, args)
}

// toBoolean converts a value (section 4.3).
func toBoolean(value any) bool {
	switch v := value.(type) {
	case []*Node:
		return len(v) > 0
	case string:
		return v != ""
	case float64:
		return v != 0 && !math.IsNaN(v)
	}
	return value == true
}

// toText converts a value (section 4.2). A set of nodes becomes the value of its
// first node.
func (r *run) toText(value any) (string, error) {
	switch v := value.(type) {
	case []*Node:
		if len(v) == 0 {
			return "", nil
		}
		return r.value(v[0])
	case string:
		return v, r.count(len(v) / 16)
	case bool:
		return strconv.FormatBool(v), nil
	}
	return formatNumber(value.(float64)), nil
}

func formatNumber(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	case f == 0:
		return "0"
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// toNumber converts a value (section 4.4).
func (r *run) toNumber(value any) (float64, error) {
	switch v := value.(type) {
	case float64:
		return v, nil
	case bool:
		if v {
			return 1, nil
		}
		return 0, nil
	}
	text, err := r.toText(value)
	return parseNumber(text), err
}

// parseNumber reads digits with an optional sign and point. Every other text is
// not a number.
func parseNumber(text string) float64 {
	text = strings.Trim(text, " \t\r\n")
	digits := strings.TrimPrefix(text, "-")
	if strings.Trim(digits, "0123456789.") != "" || strings.Count(digits, ".") > 1 || digits == "" || digits == "." {
		return math.NaN()
	}
	f, _ := strconv.ParseFloat(text, 64) // only the range can be wrong: then it is infinite
	return f
}

func ofNodes(f func([]*Node) any) func(*focus, []any) (any, error) {
	return func(_ *focus, args []any) (any, error) {
		nodes, ok := args[0].([]*Node)
		if !ok {
			return nil, syntaxError("an XPath function got what is no set of nodes")
		}
		return f(nodes), nil
	}
}

// ofFirst returns a function of the first node of a set; without an argument, of
// the node at the focus. It returns "" for the empty set.
func ofFirst(name func(*Node) string) func(*focus, []any) (any, error) {
	return func(f *focus, args []any) (any, error) {
		if len(args) == 0 {
			return name(f.node), nil
		}
		return ofNodes(func(nodes []*Node) any {
			if len(nodes) == 0 {
				return ""
			}
			return name(nodes[0])
		})(f, args)
	}
}

func qualifiedName(n *Node) string {
	if n.prefix == "" {
		return n.local
	}
	return n.prefix + ":" + n.local
}

// ofText returns a function of a text; without an argument, of the node at the
// focus.
func ofText(call func(string) any) func(*focus, []any) (any, error) {
	return func(f *focus, args []any) (any, error) {
		if len(args) == 0 {
			args = []any{[]*Node{f.node}}
		}
		text, err := f.run.toText(args[0])
		return call(text), err
	}
}

func ofTexts(call func(x, y string) any) func(*focus, []any) (any, error) {
	return func(f *focus, args []any) (any, error) {
		x, err := f.run.toText(args[0])
		if err != nil {
			return nil, err
		}
		y, err := f.run.toText(args[1])
		return call(x, y), err
	}
}

func ofNumber(call func(float64) float64) func(*focus, []any) (any, error) {
	return func(f *focus, args []any) (any, error) {
		x, err := f.run.toNumber(args[0])
		return call(x), err
	}
}

func concat(f *focus, args []any) (any, error) {
	var b strings.Builder
	for _, a := range args {
		text, err := f.run.toText(a)
		if err != nil {
			return nil, err
		}
		if b.Len()+len(text) > textBytesMax {
			return nil, stopped("XPath text bytes", textBytesMax)
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

func substringBefore(x, y string) any {
	before, _, found := strings.Cut(x, y)
	if !found {
		return ""
	}
	return before
}

func substringAfter(x, y string) any {
	_, after, _ := strings.Cut(x, y)
	return after
}

// substring returns the characters whose positions, from 1, are not less than
// the rounded second argument and less than its sum with the rounded third one.
func substring(f *focus, args []any) (any, error) {
	text, err := f.run.toText(args[0])
	if err != nil {
		return nil, err
	}
	begin, err := f.run.toNumber(args[1])
	if err != nil {
		return nil, err
	}
	begin = round(begin)
	end := math.Inf(1)
	if len(args) == 3 {
		length, err := f.run.toNumber(args[2])
		if err != nil {
			return nil, err
		}
		end = begin + round(length)
	}
	var b strings.Builder
	position := 1.0
	for _, r := range text {
		if position >= begin && position < end {
			b.WriteRune(r)
		}
		position++
	}
	return b.String(), nil
}

func normalizeSpace(s string) any {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(" \t\r\n", r) }), " ")
}

// translate replaces each character of the second text by the one at the same
// place of the third, or removes it if there is none.
func translate(f *focus, args []any) (any, error) {
	var texts [3]string
	for i := range texts {
		var err error
		if texts[i], err = f.run.toText(args[i]); err != nil {
			return nil, err
		}
	}
	to := []rune(texts[2])
	replacement := map[rune]rune{}
	for i, r := range []rune(texts[1]) {
		if _, known := replacement[r]; known {
			continue
		}
		replacement[r] = -1 // strings.Map drops it
		if i < len(to) {
			replacement[r] = to[i]
		}
	}
	return strings.Map(func(r rune) rune {
		if other, ok := replacement[r]; ok {
			return other
		}
		return r
	}, texts[0]), nil
}

// lang reports whether the xml:lang that applies to the focus is the language or
// a part of it.
func lang(f *focus, args []any) (any, error) {
	want, err := f.run.toText(args[0])
	if err != nil {
		return nil, err
	}
	for n := f.node; n != nil; n = n.parent {
		for _, a := range n.attributes {
			if a.space == xmlNamespace && a.local == "lang" {
				have, prefix := strings.ToLower(a.text), strings.ToLower(want)
				return have == prefix || strings.HasPrefix(have, prefix+"-"), nil
			}
		}
	}
	return false, nil
}

func number(f *focus, args []any) (any, error) {
	if len(args) == 0 {
		args = []any{[]*Node{f.node}}
	}
	return floatOf(f.run.toNumber(args[0]))
}

func floatOf(x float64, err error) (any, error) { return x, err }

func sum(f *focus, args []any) (any, error) {
	nodes, ok := args[0].([]*Node)
	if !ok {
		return nil, syntaxError("the XPath function sum got what is no set of nodes")
	}
	total := 0.0
	for _, n := range nodes {
		text, err := f.run.value(n)
		if err != nil {
			return nil, err
		}
		total += parseNumber(text)
	}
	return total, nil
}

// round rounds half up, as XPath demands.
func round(x float64) float64 { return math.Floor(x + 0.5) }
