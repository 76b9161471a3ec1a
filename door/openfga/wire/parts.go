package wire

import "github.com/ostiary/ostiary/expr"

func (r *reader) string(seen *fields, field fields, to *string) {
	if r.once(seen, field) {
		*to = r.text()
	}
}

func (r *reader) key(seen *fields, field fields, has *bool, to *Key) {
	if r.once(seen, field) {
		*has = true
		r.members(to)
	}
}

// members reads a tuple without a condition.
func (r *reader) members(to *Key) {
	for seen, more := fields(0), r.open('{'); more; more = r.more('}') {
		switch r.name() {
		case "user":
			r.string(&seen, 1, &to.User)
		case "relation":
			r.string(&seen, 1<<1, &to.Relation)
		case "object":
			r.string(&seen, 1<<2, &to.Object)
		default:
			r.skip()
		}
	}
}

// relationObject reads an expansion's key, in which a user means nothing.
func (r *reader) relationObject(to *ExpandRequest) {
	for seen, more := fields(0), r.open('{'); more; more = r.more('}') {
		switch r.name() {
		case "relation":
			r.string(&seen, 1, &to.Relation)
		case "object":
			r.string(&seen, 1<<1, &to.Object)
		default:
			r.skip()
		}
	}
}

// pair reads a message of a type and one other string.
func (r *reader) pair(other string, typ, to *string) {
	for seen, more := fields(0), r.open('{'); more; more = r.more('}') {
		switch r.name() {
		case "type":
			r.string(&seen, 1, typ)
		case other:
			r.string(&seen, 1<<1, to)
		default:
			r.skip()
		}
	}
}

// contextual reads the message around contextual tuples. Whoever remembers
// something of a tuple or context may do so: they are copies.
func (r *reader) contextual(seen *fields, field fields, to *[]Tuple) {
	if !r.once(seen, field) {
		return
	}
	for seen, more := fields(0), r.open('{'); more; more = r.more('}') {
		if r.name() != "tuple_keys" {
			r.skip()
		} else if r.once(&seen, 1) {
			r.tuples(to)
		}
	}
}

func (r *reader) tuples(to *[]Tuple) {
	own := r.own
	r.own = true
	for more := r.open('['); more; more = r.more(']') {
		var t Tuple
		r.tuple(&t)
		*to = append(*to, t)
	}
	r.own = own
}

func (r *reader) tuple(to *Tuple) {
	for seen, more := fields(0), r.open('{'); more; more = r.more('}') {
		switch r.name() {
		case "user":
			r.string(&seen, 1, &to.User)
		case "relation":
			r.string(&seen, 1<<1, &to.Relation)
		case "object":
			r.string(&seen, 1<<2, &to.Object)
		case "condition":
			if r.once(&seen, 1<<3) {
				to.Condition = &Condition{}
				r.condition(to.Condition)
			}
		default:
			r.skip()
		}
	}
}

func (r *reader) condition(to *Condition) {
	for seen, more := fields(0), r.open('{'); more; more = r.more('}') {
		switch r.name() {
		case "name":
			r.string(&seen, 1, &to.Name)
		case "context":
			r.context(&seen, 1<<1, &to.Context)
		default:
			r.skip()
		}
	}
}

func (r *reader) context(seen *fields, field fields, to *expr.Values) {
	if !r.once(seen, field) {
		return
	}
	own := r.own
	r.own = true
	*to = r.values()
	r.own = own
}

// consistency reads the enum: a name, of which an unknown one is
// "unspecified", or a number, which may be unknown.
func (r *reader) consistency(seen *fields, field fields, to *int32) {
	if !r.once(seen, field) {
		return
	}
	if r.peek() != '"' {
		*to = r.int32()
		return
	}
	switch r.text() {
	case "MINIMIZE_LATENCY":
		*to = ConsistencyMinimizeLatency
	case "HIGHER_CONSISTENCY":
		*to = ConsistencyHigher
	}
}
