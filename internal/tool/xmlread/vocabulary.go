package xmlread

import "strings"

// XMLSpace is the namespace of attributes such as xml:id.
const XMLSpace = "http://www.w3.org/XML/1998/namespace"

// schemaInstance is the namespace of xsi:schemaLocation and
// xsi:noNamespaceSchemaLocation, which any element may have.
const schemaInstance = "http://www.w3.org/2001/XMLSchema-instance"

// SetVocabulary makes every element outside of a namespace an error. Elements
// that [Reader.Skip] and [Reader.Fragment] read may be of any namespace.
func (r *Reader) SetVocabulary(namespace string) { r.vocabulary = namespace }

// known checks the namespace of the element that was just opened.
func (r *Reader) known() bool {
	if space := r.Space(); r.vocabulary != "" && space != r.vocabulary {
		r.Fail("unexpected namespace %q of element %s: expected %q", cut(space), cut(r.Name()), r.vocabulary)
	}
	return r.err == nil
}

// Field is an attribute that an element may have, and where its value goes.
type Field struct {
	Name     string  // local name
	To       *string // where to store the value
	Optional bool    // the element may lack the attribute
	Verbatim bool    // white space at both ends is part of the value, as for xs:string
	Space    string  // namespace; "" is the usual case of a name without a prefix
}

// Fields stores the attributes of the element that [Reader.Root] or
// [Reader.Child] just went to. An unknown attribute is an error, and so is a
// missing one, unless it is optional, or an empty one, unless it is optional or
// verbatim. xsi:schemaLocation and xsi:noNamespaceSchemaLocation are ignored.
func (r *Reader) Fields(all ...Field) { r.fields(false, all) }

// OpenFields is like [Reader.Fields], for an element whose schema allows any further
// attributes. It ignores those of namespaces other than that of the vocabulary. One
// without a namespace, or with that of the vocabulary, is still an error: it is more
// likely a mistake.
func (r *Reader) OpenFields(all ...Field) { r.fields(true, all) }

func (r *Reader) fields(open bool, all []Field) {
	var seen uint
	for i := range r.attrs {
		a := &r.attrs[i]
		n := 0
		for n < len(all) && (all[n].Name != a.Name || all[n].Space != a.Space) {
			n++
		}
		switch {
		case n < len(all):
			seen |= 1 << n
			if *all[n].To = a.Value; !all[n].Verbatim {
				*all[n].To = strings.TrimSpace(a.Value)
			}
		case open && a.Space != "" && a.Space != r.vocabulary:
		case a.Space != schemaInstance || a.Name != "schemaLocation" && a.Name != "noNamespaceSchemaLocation":
			r.FailAt(a.Offset, "unexpected attribute %s of element %s", cut(a.Name), cut(r.Name()))
		}
	}
	for i := range all {
		switch f := &all[i]; {
		case f.Optional:
		case seen>>i&1 == 0:
			r.Fail("element %s has no attribute %s", cut(r.Name()), f.Name)
		case *f.To == "" && !f.Verbatim:
			r.Fail("element %s has an empty attribute %s: expected a value", cut(r.Name()), f.Name)
		}
	}
}

// Nothing reads an element without children and text to its end.
func (r *Reader) Nothing() {
	for r.Child() {
		r.Fail("unexpected element %s", cut(r.Name()))
	}
}

// Demand makes r fail at the element that was closed last, unless it had a
// mandatory child.
func (r *Reader) Demand(had bool, element, child string) {
	if !had {
		r.FailAt(r.closed, "element %s has no element %s", element, child)
	}
}

// Sequence goes through the children of an element in the order that a schema
// demands. It is for the element that [Reader.Root] or [Reader.Child] just went
// to.
type Sequence struct {
	r     *Reader
	steps []string
	at    int    // the step of the last child
	last  string // name of the last child
}

// Sequence returns a sequence of steps. Each step is a name, or several names
// with blanks between them: of these one may come, or all, repeated and in any
// order, if each ends with an asterisk. A single name that ends with an asterisk may
// be repeated, too. No name is mandatory.
func (r *Reader) Sequence(steps ...string) Sequence { return Sequence{r: r, steps: steps} }

// Next goes to the next child and returns its name. At the end of the element it
// closes it and returns "". A child out of order is an error.
func (s *Sequence) Next() string {
	if !s.r.Child() {
		return ""
	}
	name := s.r.Name()
	for i := s.at; i < len(s.steps); i++ {
		found, many := findName(s.steps[i], name)
		if found == "" {
			continue
		}
		if i == s.at && s.last != "" && !many {
			s.r.Fail("unexpected second element %s", found)
			return ""
		}
		s.at, s.last = i, found
		return found
	}
	s.r.Fail("unexpected element %s: expected %s", cut(name), s.expected())
	return ""
}

// expected lists the names that may come next.
func (s *Sequence) expected() string {
	from := s.at
	if from < len(s.steps) && s.steps[from] == s.last {
		from++
	}
	names := strings.Fields(strings.ReplaceAll(strings.Join(s.steps[from:], " "), "*", ""))
	if len(names) == 0 {
		return "the end of the element"
	}
	return strings.Join(names, ", ")
}

// findName finds a name in a step, and whether it may be repeated.
func findName(step string, name []byte) (found string, many bool) {
	for rest := step; rest != ""; {
		var one string
		one, rest, _ = strings.Cut(rest, " ")
		if one, many = strings.CutSuffix(one, "*"); one == string(name) {
			return one, many
		}
	}
	return "", false
}
