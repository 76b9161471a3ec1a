package decisions

import (
	"context"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/policy"
)

// counter is a [door.Request] that counts its decisions.
type counter interface {
	Decided(d expr.Tristate, err error)
	// DoorName returns the name of the door of the request.
	DoorName() string
}

// Count counts a decision of the request that ctx belongs to, or with an error a question that
// could not be asked. It does nothing for other work.
func Count(ctx context.Context, d expr.Tristate, err error) {
	if c, ok := ctx.Value(door.RequestKey{}).(counter); ok {
		c.Decided(d, err)
	}
}

// CountOutside is Count for the engine, of whose decisions those for some doors are parts of
// their own decisions: inside reports by the name of a door whether they are.
func CountOutside(ctx context.Context, d expr.Tristate, err error, inside func(door string) bool) {
	if c, ok := ctx.Value(door.RequestKey{}).(counter); ok && !inside(c.DoorName()) {
		c.Decided(d, err)
	}
}

// CountPolicy counts a decision of policies. One that neither permits nor denies is unknown.
func CountPolicy(ctx context.Context, d policy.Decision) {
	switch d {
	case policy.Permitted:
		Count(ctx, expr.True, nil)
	case policy.Denied:
		Count(ctx, expr.False, nil)
	default:
		Count(ctx, expr.Unknown, nil)
	}
}
