// Package callers keeps who may call, in the system store: keys with a name, an owner, an
// expiry and a scope. Its main types are [Registry], [Key] and [Credential].
//
// What a key may do are tuples of the system store, under the schema of [Model]: each
// decision is a check there, with an explanation and a past. The secret of a key is random
// and shown once; the store has only its SHA-256. The package reads no request and listens
// on no port.
package callers
