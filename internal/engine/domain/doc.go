// Package domain keeps XACML policies in a store and decides with them. Its
// main types are [Registry], which finds and makes the domains of an engine,
// and [Domain], one policy domain.
//
// A policy domain is a store of its own: its named policies and its root policy
// are documents in the log of that store. A change is compiled before it is
// written, so a change that is rejected changes nothing, and an accepted one
// decides when the call returns. [Domain.Pin] pins one revision of the policies
// and one of the relation store for all decisions of a request, so no request
// sees half of a change.
//
// A domain may ask at most one relation store, which is chosen when the domain
// is made and never changes: see [Related] and [StoredAttribute]. So a policy
// cannot read the data of another tenant.
//
// The package reads no wire format of requests and responses.
package domain
