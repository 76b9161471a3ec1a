// Package wire holds the service of a node of the log. The generator in
// internal/permifypb/generate makes it from the .proto file in proto/. Only package raftlog
// uses it.
package wire
