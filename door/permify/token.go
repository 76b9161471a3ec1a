package permify

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"strings"

	"github.com/ostiary/ostiary/door/permify/basev1"
)

// A continuous token is the engine's cursor where one list answers a call. Where
// the door puts a list together itself, it is a place: bound to its question by
// a digest, and to a revision by that revision's token, which the engine
// confirms. Any text is survived.
const placePrefix = "p1."

// tokenBytesMax bounds a continuous token.
const tokenBytesMax = 256 << 10

// place is where a list of the door's own goes on.
type place struct {
	// revision is the token of the first page's revision.
	revision string
	// last is the id that the next page follows.
	last string
	// part and cursor say, for a list of several parts, in which one and where.
	part   int
	cursor string
}

// placeBody is a place in a token.
type placeBody struct {
	Key      []byte `json:"k"`
	Revision string `json:"r,omitempty"`
	Last     string `json:"l,omitempty"`
	Part     int    `json:"p,omitempty"`
	Cursor   string `json:"c,omitempty"`
}

// tokenKey digests what a token belongs to, each part behind its length.
func tokenKey(parts ...string) []byte {
	var b []byte
	for _, p := range parts {
		b = binary.AppendUvarint(b, uint64(len(p)))
		b = append(b, p...)
	}
	sum := sha256.Sum256(b)
	return sum[:16]
}

func (p *place) text(key []byte) string {
	body, err := json.Marshal(placeBody{key, p.revision, p.last, p.part, p.cursor})
	if err != nil {
		return "" // strings and bytes always marshal
	}
	return placePrefix + base64.RawURLEncoding.EncodeToString(body)
}

// readToken reads what text wrote for the same question; "" is the beginning.
func readToken(token string, key []byte) (place, error) {
	if token == "" {
		return place{}, nil
	}
	bad := coded(basev1.ErrorCode_ERROR_CODE_INVALID_CONTINUOUS_TOKEN)
	text, ok := strings.CutPrefix(token, placePrefix)
	if !ok || len(token) > tokenBytesMax {
		return place{}, bad
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return place{}, bad
	}
	var b placeBody
	if json.Unmarshal(raw, &b) != nil || string(b.Key) != string(key) || b.Part < 0 {
		return place{}, bad
	}
	return place{b.Revision, b.Last, b.Part, b.Cursor}, nil
}

// listDone marks, within a token of several lists, one that has ended.
const listDone = "."

const joinedPrefix = "m1."

// joinToken makes one token of the tokens of several lists.
func joinToken(tokens []string) string {
	return joinedPrefix + strings.Join(tokens, "~")
}

// splitToken reads what joinToken wrote. Each part is checked where it is used.
func splitToken(token string, n int) ([]string, error) {
	if token == "" {
		return make([]string, n), nil
	}
	text, ok := strings.CutPrefix(token, joinedPrefix)
	parts := strings.Split(text, "~")
	if !ok || len(token) > tokenBytesMax || len(parts) != n {
		return nil, coded(basev1.ErrorCode_ERROR_CODE_INVALID_CONTINUOUS_TOKEN)
	}
	return parts, nil
}
