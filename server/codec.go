package server

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"github.com/ostiary/ostiary/door"
)

// codec is gRPC's own, but for messages that read and write themselves.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// Unmarshal reads a request.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if m, ok := v.(door.ProtoReader); ok {
		return m.ReadProto(data.Materialize())
	}
	return c.CodecV2.Unmarshal(data, v)
}

// Marshal writes an answer.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if m, ok := v.(door.ProtoWriter); ok {
		return mem.BufferSlice{mem.SliceBuffer(m.WriteProto())}, nil
	}
	return c.CodecV2.Marshal(v)
}
