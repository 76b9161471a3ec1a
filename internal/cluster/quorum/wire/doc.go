// Package wire holds the service with which a node joins. The generator in
// internal/permifypb/generate makes it from the .proto file in proto/. Only package quorum
// uses it.
package wire
