// Package wire holds the messages and the service of the node link. The generator in
// door/permify/basev1/generate makes it from the .proto file in proto/. Only package link
// uses these types.
package wire
