package door

import "google.golang.org/protobuf/proto"

// ProtoReader is a gRPC request that decodes itself, for calls where the
// protobuf library is too slow. It is also an ordinary message, so any gRPC
// server can decode it.
type ProtoReader interface {
	proto.Message
	// ReadProto decodes a message. It takes ownership of data. It accepts what
	// the protobuf library accepts, and fails with the same errors.
	ReadProto(data []byte) error
}

// ProtoWriter is a gRPC response that is already encoded.
type ProtoWriter interface {
	proto.Message
	// WriteProto returns the encoded message. The caller must not modify it.
	WriteProto() []byte
}
