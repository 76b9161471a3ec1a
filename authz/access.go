package authz

import (
	"context"

	"github.com/ostiary/ostiary/storage"
)

// Right is what a caller may do with a store. Each right includes [RightRead], and
// [RightAdmin] includes all others.
type Right uint8

// The rights.
const (
	// RightRead asks questions, and reads the data, the schemas and the log.
	RightRead Right = iota + 1
	// RightWrite changes tuples, attributes, documents and policies.
	RightWrite
	// RightSchema changes schemas.
	RightSchema
	// RightAdmin creates and deletes the store, and changes its name and aliases.
	RightAdmin
)

// rights are the names of the rights.
var rights = [...]string{RightRead: "read", RightWrite: "write", RightSchema: "schema", RightAdmin: "admin"}

// String returns the name of the right: read, write, schema or admin.
func (r Right) String() string {
	if int(r) < len(rights) && rights[r] != "" {
		return rights[r]
	}
	return "unknown"
}

// ParseRight returns the right with a name, and false if there is none.
func ParseRight(name string) (Right, bool) {
	for r, known := range rights {
		if known == name && known != "" {
			return Right(r), true
		}
	}
	return 0, false
}

// Access decides what the caller of a context may do. Its methods may be called
// concurrently.
type Access interface {
	// Allow returns nil if the caller has a right on a store, and otherwise an error that
	// wraps [ErrForbidden]. It is also asked about a store that does not exist, of which
	// only what the caller has named is set: then the error must be the same one.
	Allow(ctx context.Context, right Right, store storage.StoreInfo) error
}

// AccessKey is the key under which a context has its [Access]. A type that implements
// [context.Context] may return one for it.
type AccessKey struct{}

// WithAccess returns a context whose calls may do only what a allows.
func WithAccess(ctx context.Context, a Access) context.Context {
	return context.WithValue(ctx, AccessKey{}, a)
}

// AccessOf returns the access of a context, or nil if the context may do everything.
func AccessOf(ctx context.Context) Access {
	a, _ := ctx.Value(AccessKey{}).(Access)
	return a
}
