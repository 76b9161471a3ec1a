package acp

import "fmt"

// EffectiveExpression returns the expression by which a permission is decided, with
// parentheses around each operation, as acp_core writes it. In the list dialect it
// adds the owner, and with the defra specification it adds write to read. In the map
// dialect without a specification it is the author's expression. It fails with
// [ErrResourceNotFound] or [ErrPermissionNotFound].
func (p *Policy) EffectiveExpression(resource, permission string) (string, error) {
	res := p.resource(resource)
	if res == nil {
		return "", fmt.Errorf("%w: %q", ErrResourceNotFound, resource)
	}
	x := res.permission(permission)
	if x == nil {
		return "", fmt.Errorf("%w: %q", ErrPermissionNotFound, permission)
	}
	writersRead := p.writersRead(x)
	if p.Dialect == DialectMap && !writersRead {
		return x.Expression, nil
	}
	text := x.parsed.full()
	if writersRead {
		text = fullUnion("write", text)
	}
	if p.Dialect == DialectList {
		text = fullUnion(ownerRelation, text)
	}
	return text, nil
}

// writersRead reports whether a permission is the read permission of a policy in
// which everyone who may write may also read.
func (p *Policy) writersRead(x *Permission) bool {
	return p.Specification == specDefra && x.Name == "read"
}

// ownerStays reports whether a permission always includes the owner. It does not
// follow the names of other permissions, except for write under the defra
// specification.
func (p *Policy) ownerStays(res *Resource, x *Permission) bool {
	if p.writersRead(x) && res.permission("write").parsed.ownerStays() {
		return true
	}
	return x.parsed.ownerStays()
}

// full returns the expression with parentheses around each operation. The empty
// expression is "".
func (e *expression) full() string {
	switch e.op {
	case exprNobody:
		return ""
	case exprName, exprArrow:
		return e.String()
	case exprUnion:
		return fullUnion(e.left.full(), e.right.full())
	}
	return "(" + e.left.full() + signs[e.op] + e.right.full() + ")"
}

// fullUnion returns the union of two expressions, of which the second may be empty.
func fullUnion(left, right string) string {
	if right == "" {
		return left
	}
	return "(" + left + signs[exprUnion] + right + ")"
}
