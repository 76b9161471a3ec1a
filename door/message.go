package door

import "google.golang.org/protobuf/proto"

// ProtoReader is a gRPC request that reads its encoded form itself, where
// protobuf's library is too slow. It is also a message like any other, for
// servers that do not ask.
type ProtoReader interface {
	proto.Message
	// ReadProto reads an encoded message, which is the reader's to keep. What it
	// accepts, and the error where it does not, are the library's.
	ReadProto(data []byte) error
}

// ProtoWriter is ProtoReader's counterpart: an answer that is encoded already.
type ProtoWriter interface {
	proto.Message
	// WriteProto returns the encoded message, which nobody changes.
	WriteProto() []byte
}
