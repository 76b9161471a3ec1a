package wire

import "google.golang.org/protobuf/encoding/protowire"

// AppendObjectsProto is like [AppendObjects], in protobuf.
func AppendObjectsProto(dst []byte, typ string, ids []string) []byte {
	for _, id := range ids {
		dst = append(dst, 1<<3|binaryBytes)
		dst = protowire.AppendVarint(dst, uint64(len(typ)+1+len(id)))
		dst = append(append(append(dst, typ...), ':'), id...)
	}
	return dst
}

// AppendBatchResultProto appends one result to those of a batch. failure is the
// encoded CheckError of an item that failed, else nil.
func AppendBatchResultProto(dst []byte, correlation string, allowed bool, failure []byte) []byte {
	result := 2 // a tag and a bool, which is written even if false
	if failure != nil {
		result = 1 + protowire.SizeBytes(len(failure))
	}
	entry := 1 + protowire.SizeBytes(len(correlation)) + 1 + protowire.SizeBytes(result)
	dst = protowire.AppendVarint(append(dst, 1<<3|binaryBytes), uint64(entry))
	dst = protowire.AppendString(append(dst, 1<<3|binaryBytes), correlation)
	dst = protowire.AppendVarint(append(dst, 2<<3|binaryBytes), uint64(result))
	switch {
	case failure != nil:
		return protowire.AppendBytes(append(dst, 2<<3|binaryBytes), failure)
	case allowed:
		return append(dst, 1<<3|binaryVarint, 1)
	}
	return append(dst, 1<<3|binaryVarint, 0)
}
