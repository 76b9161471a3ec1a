package wire

import (
	"unicode/utf8"
	"unsafe"
)

// The ParseProto methods read messages as clients usually write them: without
// unknown fields, contexts and contextual tuples. As in protobuf, the last value
// of a repeated scalar field counts, and repeated messages are merged. Protobuf's
// library reads all other messages and alone decides which are malformed.

// ParseProto reads the protobuf form of the message. It forgets what r held but
// keeps its memory. The strings of r are parts of data. It returns false if
// protobuf's library must read the message instead; r is then of no use.
func (r *BatchCheckRequest) ParseProto(data []byte) bool {
	*r = BatchCheckRequest{Checks: r.Checks[:0]}
	in := viewBinary(data)
	for in.more() {
		switch in.tag {
		case 1<<3 | binaryBytes:
			r.StoreID = in.text()
		case 2<<3 | binaryBytes:
			r.Checks = append(r.Checks, BatchItem{})
			in.item(&r.Checks[len(r.Checks)-1])
		case 3<<3 | binaryBytes:
			r.ModelID = in.text()
		case 4<<3 | binaryVarint:
			r.Consistency = in.small()
		default:
			in.bad = true
		}
	}
	return !in.bad
}

// ParseProto is like [BatchCheckRequest.ParseProto].
func (r *ListObjectsRequest) ParseProto(data []byte) bool {
	*r = ListObjectsRequest{}
	in := viewBinary(data)
	for in.more() {
		switch in.tag {
		case 1<<3 | binaryBytes:
			r.StoreID = in.text()
		case 2<<3 | binaryBytes:
			r.ModelID = in.text()
		case 3<<3 | binaryBytes:
			r.Type = in.text()
		case 4<<3 | binaryBytes:
			r.Relation = in.text()
		case 5<<3 | binaryBytes:
			r.User = in.text()
		case 8<<3 | binaryVarint:
			r.Consistency = in.small()
		default:
			in.bad = true
		}
	}
	return !in.bad
}

// The wire types of fields that these messages have, in a tag's last three bits.
const (
	binaryVarint = 0
	binaryBytes  = 2
)

// binary reads the fields of a message one after another.
type binary struct {
	s   string // the unread rest of the message
	tag byte   // of the next field: its number and its wire type
	bad bool   // protobuf's library must read the message
}

func viewBinary(data []byte) binary {
	return binary{s: unsafe.String(unsafe.SliceData(data), len(data))}
}

// more reads the next field's tag. It returns false at the end.
func (b *binary) more() bool {
	if b.bad || len(b.s) == 0 {
		return false
	}
	b.tag, b.s = b.s[0], b.s[1:]
	return true
}

// small reads a number below 2^14.
func (b *binary) small() int32 {
	switch {
	case len(b.s) > 0 && b.s[0] < 0x80:
		n := int32(b.s[0])
		b.s = b.s[1:]
		return n
	case len(b.s) > 1 && b.s[1] < 0x80:
		n := int32(b.s[0]&0x7f) | int32(b.s[1])<<7
		b.s = b.s[2:]
		return n
	}
	b.bad = true
	return 0
}

// bytes reads a length and as many bytes.
func (b *binary) bytes() string {
	n := int(b.small())
	if b.bad || n > len(b.s) {
		b.bad = true
		return ""
	}
	out := b.s[:n]
	b.s = b.s[n:]
	return out
}

func (b *binary) text() string {
	s := b.bytes()
	if !utf8.ValidString(s) {
		b.bad = true
	}
	return s
}

// key reads a tuple without a condition.
func (b *binary) key(to *Key) {
	in := binary{s: b.bytes(), bad: b.bad}
	for in.more() {
		switch in.tag {
		case 1<<3 | binaryBytes:
			to.User = in.text()
		case 2<<3 | binaryBytes:
			to.Relation = in.text()
		case 3<<3 | binaryBytes:
			to.Object = in.text()
		default:
			in.bad = true
		}
	}
	b.bad = in.bad
}

// item reads an item of a batch.
func (b *binary) item(to *BatchItem) {
	in := binary{s: b.bytes(), bad: b.bad}
	for in.more() {
		switch in.tag {
		case 1<<3 | binaryBytes:
			to.HasKey = true
			in.key(&to.Key)
		case 4<<3 | binaryBytes:
			to.CorrelationID = in.text()
		default:
			in.bad = true
		}
	}
	b.bad = in.bad
}
