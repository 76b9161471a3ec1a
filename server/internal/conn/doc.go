// Package conn has the connections of a server, and what the requests on a connection use
// together: a place within the bounds, the standing of the client's address, the bytes of
// bodies and of responses that wait for the client. Its main types are [Conn] and
// [Connections]. It never reads a request, knows no key and decides about no caller.
package conn
