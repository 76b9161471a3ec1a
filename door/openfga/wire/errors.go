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
)

// ErrDepth marks a body that nests deeper than DepthMax.
var ErrDepth = errors.New("body nests too deep")

// SyntaxError says why a body cannot be read. Its text is what the protocol's
// own libraries say, where they refuse it too.
type SyntaxError struct{ text string }

// Error tells a person.
func (e *SyntaxError) Error() string { return e.text }

func syntaxError(s string, at int, text string) error {
	at = min(at, len(s))
	line := strings.Count(s[:at], "\n") + 1
	column := utf8.RuneCountInString(s[strings.LastIndexByte(s[:at], '\n')+1:at]) + 1
	return &SyntaxError{"syntax error (line " + strconv.Itoa(line) + ":" + strconv.Itoa(column) + "): " + text}
}

func errDepth() error { return fmt.Errorf("%w: the bound DepthMax is %d", ErrDepth, DepthMax) }

// textMax bounds an error's text: it may quote the body.
const textMax = 512

// explained puts a refusal in the words of the protocol's own libraries, which
// read JSON first and the message then. It is far from the hot path, and has
// no say in whether the body is refused.
func explained(body []byte, err error, like proto.Message) error {
	var syntax *SyntaxError
	if !errors.As(err, &syntax) {
		return err
	}
	var raw json.RawMessage
	theirs := json.NewDecoder(bytes.NewReader(body)).Decode(&raw)
	if theirs == nil {
		theirs = protojson.UnmarshalOptions{DiscardUnknown: true, RecursionLimit: 2 * DepthMax}.Unmarshal(raw, like.ProtoReflect().New().Interface())
	}
	if theirs == nil {
		return err
	}
	text := strings.ReplaceAll(theirs.Error(), "\u00a0", " ") // protojson has either, by chance
	if len(text) > textMax {
		text = text[:textMax]
	}
	return &SyntaxError{strings.ToValidUTF8(text, "\ufffd")}
}
