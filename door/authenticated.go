package door

import "context"

type authenticatedKey struct{}

// WithAuthenticated returns a context whose [Authenticated] calls f. The server sets it
// for doors with [Door.OwnAuthentication]. f may be called concurrently.
func WithAuthenticated(ctx context.Context, f func()) context.Context {
	return context.WithValue(ctx, authenticatedKey{}, f)
}

// Authenticated declares that a door with [Door.OwnAuthentication] has accepted the
// caller of the request with this context. The server then keeps the connection when it
// closes others that have shown nothing. It does nothing for other contexts.
func Authenticated(ctx context.Context) {
	if f, ok := ctx.Value(authenticatedKey{}).(func()); ok {
		f()
	}
}
