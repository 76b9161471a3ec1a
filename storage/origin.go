package storage

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Origin describes where an entry comes from. Every field is optional. The hash
// of the entry covers the origin, so it cannot be changed or removed later: a
// field must never have content of a request or a secret.
type Origin struct {
	// Caller identifies who made the write: the name or the fingerprint of a key,
	// the subject of a token, or the id of a user. It has at most CallerBytesMax
	// bytes of UTF-8 without control characters.
	Caller string
	// Reason is a text of the caller, for example the number of a ticket. It has at
	// most ReasonBytesMax bytes of UTF-8 without control characters.
	Reason string
	// Request identifies the forwarded request that the entry answers.
	Request RequestID
}

// RequestID identifies a write that one node forwards to another. The receiving
// node finds the entry of a repeated request by it. The zero RequestID means that
// the write was not forwarded.
type RequestID struct {
	// Node is the id of the node that forwards the request.
	Node NodeID
	// Number is the number of the request among those of Node, times RequestWrites, plus
	// the number of the write among those of the request.
	Number uint64
}

// RequestWrites is how many writes of a forwarded request have different numbers. All
// further ones have the number of the last.
const RequestWrites = 256

// Of reports whether r is a write of the same request as other.
func (r RequestID) Of(other RequestID) bool {
	return r.Node == other.Node && r.Number/RequestWrites == other.Number/RequestWrites
}

// Write returns the id of a write of the request, by its number from 0.
func (r RequestID) Write(n int) RequestID {
	if r != (RequestID{}) {
		r.Number += uint64(min(n, RequestWrites-1))
	}
	return r
}

// incarnationKnown is how many bytes of an incarnation follow from a request: the digest,
// and the number of the store among those that the request creates.
const incarnationKnown = 12

// Incarnation returns a new incarnation for a store that the request creates. r.Number
// contains the number of the store among those of the request, as that of a write. The
// incarnation shows that the request has created the store, see [RequestID.Created];
// nothing else in a log does. The last 4 bytes are random, so that tokens of a log that
// was restored from a backup are not those of the log before. For the zero RequestID the
// incarnation is random.
func (r RequestID) Incarnation() Incarnation {
	i := NewIncarnation()
	if r != (RequestID{}) {
		digest := r.digest()
		copy(i[:incarnationKnown], digest[:])
		i[incarnationKnown-1] = byte(r.Number % RequestWrites)
	}
	return i
}

// Created returns the id with which the request has created the store that has an
// incarnation, and false if another request has created it.
func (r RequestID) Created(i Incarnation) (RequestID, bool) {
	digest := r.digest()
	if r == (RequestID{}) || !bytes.Equal(i[:incarnationKnown-1], digest[:incarnationKnown-1]) {
		return RequestID{}, false
	}
	r.Number -= r.Number % RequestWrites
	return r.Write(int(i[incarnationKnown-1])), true
}

// digest returns a digest of the request, which is the same for all of its writes.
func (r RequestID) digest() [sha256.Size]byte {
	b := append([]byte("creation of a store"), r.Node[:]...)
	return sha256.Sum256(binary.BigEndian.AppendUint64(b, r.Number/RequestWrites))
}

// RequestTrace is what a part of a shared log has of a forwarded request.
type RequestTrace struct {
	Entries []RequestEntry // the entries that the request has led to
	Created []RequestStore // the stores that it has created
	// Updated are the stores whose names or aliases were changed, and Deleted those that
	// were deleted, by any request: a log does not have the request of such a change.
	Updated []StoreID
	Deleted []DeletedStore
}

// RequestEntry is the place of an entry that a forwarded request has led to.
type RequestEntry struct {
	Store   StoreID
	Request RequestID
	Head    Head // the head after the entry
}

// RequestStore is a store that a forwarded request has created.
type RequestStore struct {
	Request RequestID
	Info    StoreInfo // as it was created
}

// DeletedStore is a store that was deleted.
type DeletedStore struct {
	// Info describes the store as it was. If Known is false, it has only the ID and the
	// Incarnation.
	Info  StoreInfo
	Known bool
}

// Made reports whether the request has changed a store, as far as the log shows it: it may
// also have made one of the changes of Updated and Deleted.
func (t *RequestTrace) Made() bool { return len(t.Entries)+len(t.Created) > 0 }

// NodeID is the random id of a node.
type NodeID [16]byte

// String returns the id in hexadecimal, which [ParseNodeID] reads.
func (n NodeID) String() string { return hex.EncodeToString(n[:]) }

// ParseNodeID reads the text of a node id: 32 hexadecimal digits.
func ParseNodeID(text string) (n NodeID, err error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(n) {
		return NodeID{}, fmt.Errorf("invalid node id %q: expected 32 hexadecimal digits", text)
	}
	return NodeID(b), nil
}

// Callers of writes that no authenticated caller made.
const (
	CallerLocal     = "local"     // a program on the machine of the data, or a server without keys
	CallerLibrary   = "library"   // a program that embeds the engine and names no caller
	CallerCollector = "collector" // the removal of what has expired
	CallerImport    = "import"    // an import of data
	CallerBootstrap = "bootstrap" // the first records of a new store
)

// Limits of an origin. An entry that exceeds one is rejected with [ErrTooLarge].
const (
	// CallerBytesMax is the maximum length of Origin.Caller in bytes.
	CallerBytesMax = 256
	// ReasonBytesMax is the maximum length of Origin.Reason in bytes.
	ReasonBytesMax = 512
)

// Validate returns [ErrTooLarge] if a text exceeds its limit, and [ErrEntry] if it
// is not UTF-8 or has a control character. The error does not contain the text.
func (o *Origin) Validate() error {
	if n := len(o.Caller); n > CallerBytesMax {
		return tooLarge("CallerBytesMax", CallerBytesMax, n)
	}
	if n := len(o.Reason); n > ReasonBytesMax {
		return tooLarge("ReasonBytesMax", ReasonBytesMax, n)
	}
	if why := o.Invalid(); why != "" {
		return fmt.Errorf("%w: %s", ErrEntry, why)
	}
	return nil
}

// Invalid returns why a text of the origin is not allowed, whatever its length, or
// "" if both are. The reason does not contain the text.
func (o *Origin) Invalid() string {
	if why := invalidText("caller", o.Caller); why != "" {
		return why
	}
	return invalidText("reason", o.Reason)
}

func invalidText(what, text string) string {
	if !utf8.ValidString(text) {
		return "the " + what + " is not valid UTF-8"
	}
	if at := strings.IndexFunc(text, unicode.IsControl); at >= 0 {
		return fmt.Sprintf("the %s has a control character at byte %d, expected text without control characters", what, at)
	}
	return ""
}

// Or returns o with the fields of other where those of o are empty.
func (o *Origin) Or(other *Origin) Origin {
	all := *o
	if all.Caller == "" {
		all.Caller = other.Caller
	}
	if all.Reason == "" {
		all.Reason = other.Reason
	}
	if all.Request == (RequestID{}) {
		all.Request = other.Request
	}
	return all
}

// The flags of an origin in the canonical bytes: which fields follow.
const (
	originCaller  = 1 << iota // the caller
	originReason              // the reason
	originRequest             // the node and the number of the request
	originFlags   = originCaller | originReason | originRequest
)

// originBytesMax is at least the length of the longest origin in the canonical bytes.
const originBytesMax = 1 + 2*binary.MaxVarintLen16 + CallerBytesMax + ReasonBytesMax + len(NodeID{}) + binary.MaxVarintLen64

// flags returns which fields are set.
func (o *Origin) flags() (flags byte) {
	if o.Caller != "" {
		flags |= originCaller
	}
	if o.Reason != "" {
		flags |= originReason
	}
	if o.Request != (RequestID{}) {
		flags |= originRequest
	}
	return flags
}

// size returns the maximum length of the origin in the canonical bytes.
func (o *Origin) size() int {
	if o.flags() == 0 {
		return 0
	}
	return 1 + 2*binary.MaxVarintLen16 + len(o.Caller) + len(o.Reason) + len(o.Request.Node) + binary.MaxVarintLen64
}

// append appends the flags and the fields that they name.
func (o *Origin) append(dst []byte, flags byte) []byte {
	dst = append(dst, flags)
	if flags&originCaller != 0 {
		dst = appendString(dst, o.Caller)
	}
	if flags&originReason != 0 {
		dst = appendString(dst, o.Reason)
	}
	if flags&originRequest != 0 {
		dst = append(dst, o.Request.Node[:]...)
		dst = binary.AppendUvarint(dst, o.Request.Number)
	}
	return dst
}

// origin reads what Origin.append wrote. A field that a flag names must not be
// empty; otherwise different bytes could be read as the same entry.
func (d *decoder) origin(o *Origin) {
	flags := d.Byte()
	if d.Err == nil && (flags == 0 || flags&^originFlags != 0) {
		d.Fail("the flags of the origin are %d, expected 1 to %d", flags, originFlags)
	}
	if flags&originCaller != 0 {
		o.Caller = d.originText("CallerBytesMax", CallerBytesMax)
	}
	if flags&originReason != 0 {
		o.Reason = d.originText("ReasonBytesMax", ReasonBytesMax)
	}
	if flags&originRequest != 0 {
		copy(o.Request.Node[:], d.Take(len(o.Request.Node)))
		o.Request.Number = d.Uvarint()
	}
	if d.Err == nil && o.flags() != flags {
		d.Fail("an empty field in the origin, which has the flags %d", flags)
	}
}

func (d *decoder) originText(bound string, maximum int) string {
	text := d.String()
	if d.Err == nil && len(text) > maximum {
		d.Err = tooLarge(bound, maximum, len(text))
	}
	return text
}
