// Package identity keeps users, groups, domains, projects, roles, services and
// endpoints, and who has which role where: what OpenStack Keystone keeps. Its
// main type is [Service], which is one deployment in one store of an engine.
//
// Records are documents of the store, passwords are its secrets, and role
// assignments are tuples, so a change of a record and of its grants is one entry
// of one log, and other doors of the engine can ask about the same grants. The
// package speaks no protocol and enforces no policy on its callers.
package identity
