package server

import (
	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/ostiary/ostiary/door"
)

// codec is gRPC's codec for protobuf, except for messages that decode or encode
// themselves ([door.ProtoReader], [door.ProtoWriter]) and for the response that
// a call has encoded already.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(protocodec.Name)} }

// Unmarshal decodes a request into v.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if m, ok := v.(*rawMessage); ok {
		*m = data.Materialize()
		return nil
	}
	if m, ok := v.(door.ProtoReader); ok {
		return m.ReadProto(data.Materialize())
	}
	return c.CodecV2.Unmarshal(data, v)
}

// Marshal encodes the response v.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if sent, ok := v.(interface{ take() mem.BufferSlice }); ok {
		return sent.take(), nil
	}
	data, err := c.encode(v)
	if err != nil {
		return nil, err
	}
	return mem.BufferSlice{mem.SliceBuffer(data)}, nil
}

// encode returns the response v as bytes.
func (c codec) encode(v any) ([]byte, error) {
	switch m := v.(type) {
	case rawMessage:
		return m, nil
	case door.ProtoWriter:
		return m.WriteProto(), nil
	case proto.Message:
		return proto.Marshal(m)
	}
	data, err := c.CodecV2.Marshal(v)
	if err != nil {
		return nil, err
	}
	defer data.Free()
	return data.Materialize(), nil
}

// rawMessage is a message of a call in the encoding of protobuf.
type rawMessage []byte
