// Package wire holds the service of a node of the log. The generator in
// door/permify/basev1/generate makes it from the .proto file in proto/. Only package raft
// uses it.
package wire
