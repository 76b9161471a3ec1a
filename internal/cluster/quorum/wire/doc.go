// Package wire holds the service with which a node joins. The generator in
// door/permify/basev1/generate makes it from the .proto file in proto/. Only package quorum
// uses it.
package wire
