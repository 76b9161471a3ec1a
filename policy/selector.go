package policy

// selector compiles an attribute selector.
func (e *expressions) selector(x *Selector) typed {
	e.add(x.Position, "the attribute selector %s is not supported: expected an attribute designator", quote(x.Path))
	return typed{}
}
