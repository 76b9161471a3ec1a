package server

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"github.com/ostiary/ostiary/door"
)

// codec is gRPC's codec for protobuf, except for messages that decode or encode
// themselves ([door.ProtoReader], [door.ProtoWriter]).
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// Unmarshal decodes a request into v.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if m, ok := v.(door.ProtoReader); ok {
		return m.ReadProto(data.Materialize())
	}
	return c.CodecV2.Unmarshal(data, v)
}

// Marshal encodes the response v.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if m, ok := v.(door.ProtoWriter); ok {
		return mem.BufferSlice{mem.SliceBuffer(m.WriteProto())}, nil
	}
	return c.CodecV2.Marshal(v)
}
