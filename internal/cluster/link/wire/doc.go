// Package wire holds the messages and the service of the node link. The generator in
// internal/permifypb/generate makes it from the .proto file in proto/. Only package link
// uses these types.
package wire
