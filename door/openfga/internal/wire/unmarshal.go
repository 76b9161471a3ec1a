package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/ostiary/ostiary/internal/tool/jsonread"
)

// ErrDepth is a body with objects and arrays nested deeper than [DepthMax].
var ErrDepth = errors.New("body nests too deep")

// SyntaxError is a body that is not the message. Where the protocol's own
// libraries refuse the body too, the text is theirs.
type SyntaxError struct{ text string }

// Error returns the text.
func (e *SyntaxError) Error() string { return e.text }

// errorBytesMax bounds an error's text, which may quote the body.
const errorBytesMax = 512

func syntaxError(text string) error {
	text = strings.ReplaceAll(text, "\u00a0", " ") // protojson uses either blank at random
	if len(text) > errorBytesMax {
		text = text[:errorBytesMax]
	}
	return &SyntaxError{strings.ToValidUTF8(text, "\ufffd")}
}

// jsonBlanks are the bytes that JSON ignores between values.
const jsonBlanks = " \t\r\n"

// Unmarshal reads a body into a message as the protocol's gateway does: JSON
// first, then the message, whose unknown fields are ignored. An empty body is an
// empty message. It also refuses data after the message and nesting beyond
// [DepthMax]. Its errors are [*SyntaxError] or wrap [ErrDepth].
func Unmarshal(body []byte, m proto.Message) error {
	if len(bytes.Trim(body, jsonBlanks)) == 0 {
		return nil
	}
	if jsonread.Nesting(body, DepthMax) > DepthMax {
		return fmt.Errorf("%w: the bound DepthMax is %d", ErrDepth, DepthMax)
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return syntaxError(err.Error())
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true, RecursionLimit: 2 * DepthMax}).Unmarshal(raw, m); err != nil {
		return syntaxError(err.Error())
	}
	if rest := bytes.TrimLeft(body[dec.InputOffset():], jsonBlanks); len(rest) > 0 {
		return dataAfter(body, len(body)-len(rest))
	}
	return nil
}

// dataAfter returns the error for data at an offset, after the message.
func dataAfter(body []byte, offset int) error {
	before := body[:offset]
	line := bytes.Count(before, []byte("\n")) + 1
	column := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
	_, n := utf8.DecodeRune(body[offset:])
	return syntaxError("syntax error (line " + strconv.Itoa(line) + ":" + strconv.Itoa(column) + "): unexpected " + string(body[offset:offset+n]))
}

// parseMessage reads a body into m and then into a request.
func parseMessage[M proto.Message](body []byte, m M, fromProto func(M)) error {
	if err := Unmarshal(body, m); err != nil {
		return err
	}
	fromProto(m)
	return nil
}
