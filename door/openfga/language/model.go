package language

// model is an authorization model in the protocol's JSON form. The DSL and
// modular models are read into it as well. Pointers are nil where the JSON form
// has no such member.
type model struct {
	version    string // "1.1", "1.2", or the unsupported version in the text
	types      []*typeDefinition
	conditions map[string]*condition
}

type typeDefinition struct {
	name      string
	relations map[string]*userset
	metadata  *metadata
}

// metadata holds the parts of a type definition other than its rewrites.
type metadata struct {
	relations map[string]*relationMetadata
	module    string
	source    *sourceInfo
}

type relationMetadata struct {
	subjects []*relationReference
	module   string
	source   *sourceInfo
}

// sourceInfo names the file of a modular model.
type sourceInfo struct{ file string }

// relationReference is a type restriction.
type relationReference struct {
	typ       string
	kind      referenceKind
	relation  string // set for usersetReference
	condition string
}

type referenceKind uint8

const (
	plainReference    referenceKind = iota // "user"
	usersetReference                       // "group#member"
	wildcardReference                      // "user:*"
)

// userset is a rewrite. op selects which of its other fields are set.
type userset struct {
	op       usersetOp
	computed *objectRelation // computedUserset, tupleToUserset
	tupleset *objectRelation // tupleToUserset
	// children are the operands of union and intersection. A difference has two:
	// the base, and the operand to subtract. Each is nil if the JSON form lacks
	// it.
	children []*userset
}

type usersetOp uint8

const (
	noUserset usersetOp = iota // an object without any member of the protocol
	thisUserset
	computedUserset
	tupleToUserset
	union
	intersection
	difference
)

// objectRelation names a relation. Its object means nothing in a model, but is
// kept.
type objectRelation struct{ object, relation string }

type condition struct {
	name, expression string
	parameters       map[string]*parameterType
	metadata         *conditionMetadata
}

type conditionMetadata struct {
	module string
	source *sourceInfo
}

// parameterType is the type of a condition's parameter. kind is a number of the
// protocol's enum, and may be one that the enum lacks.
type parameterType struct {
	kind     int32
	generics []*parameterType
}

// size returns the number of bytes of the model in the protocol's binary
// encoding, which the protocol's limit on models counts.
func (m *model) size() int {
	n := stringSize(m.version)
	for _, t := range m.types {
		n += fieldSize(t.size())
	}
	for name, c := range m.conditions {
		n += entrySize(name, c.size())
	}
	return n
}

func (t *typeDefinition) size() int {
	n := stringSize(t.name)
	for name, u := range t.relations {
		n += entrySize(name, u.size())
	}
	if t.metadata == nil {
		return n
	}
	meta := stringSize(t.metadata.module) + t.metadata.source.size()
	for name, r := range t.metadata.relations {
		relation := stringSize(r.module) + r.source.size()
		for _, s := range r.subjects {
			relation += fieldSize(s.size())
		}
		meta += entrySize(name, relation)
	}
	return n + fieldSize(meta)
}

// size is that of the whole field, 0 for nil.
func (s *sourceInfo) size() int {
	if s == nil {
		return 0
	}
	return fieldSize(stringSize(s.file))
}

func (r *relationReference) size() int {
	n := stringSize(r.typ) + stringSize(r.condition)
	switch r.kind {
	case usersetReference:
		n += fieldSize(len(r.relation))
	case wildcardReference:
		n += fieldSize(0)
	}
	return n
}

// size recurses as deep as the rewrite: the caller bounds that first.
func (u *userset) size() int {
	switch u.op {
	case noUserset:
		return 0
	case thisUserset:
		return fieldSize(0)
	case computedUserset:
		return fieldSize(stringSize(u.computed.object) + stringSize(u.computed.relation))
	}
	n := u.tupleset.size() + u.computed.size()
	for _, child := range u.children {
		if child != nil {
			n += fieldSize(child.size())
		}
	}
	return fieldSize(n)
}

// size is that of the whole field, 0 for nil.
func (o *objectRelation) size() int {
	if o == nil {
		return 0
	}
	return fieldSize(stringSize(o.object) + stringSize(o.relation))
}

func (c *condition) size() int {
	n := stringSize(c.name) + stringSize(c.expression)
	for name, p := range c.parameters {
		n += entrySize(name, p.size())
	}
	if c.metadata != nil {
		n += fieldSize(stringSize(c.metadata.module) + c.metadata.source.size())
	}
	return n
}

func (p *parameterType) size() int {
	n := 0
	if p.kind != 0 {
		n = 1 + varintSize(uint64(int64(p.kind)))
	}
	for _, g := range p.generics {
		n += fieldSize(g.size())
	}
	return n
}

// entrySize is the size of a map's entry whose value is a message of n bytes.
func entrySize(key string, n int) int { return fieldSize(fieldSize(len(key)) + fieldSize(n)) }

// stringSize is the size of a string's field, which is left out if empty.
func stringSize(s string) int {
	if s == "" {
		return 0
	}
	return fieldSize(len(s))
}

// fieldSize is the size of a field of n bytes with its number and its length.
// No number of these messages is above 15, so each takes one byte.
func fieldSize(n int) int { return 1 + varintSize(uint64(n)) + n }

func varintSize(n uint64) int {
	size := 1
	for ; n >= 1<<7; n >>= 7 {
		size++
	}
	return size
}
