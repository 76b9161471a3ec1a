// Package basev1 is the messages and services of Permify's API, generated from
// the .proto files in proto/ by "make proto". Its main types are the requests
// and answers of the protocol's services. They are wire types: they never leave
// door/permify.
package basev1
