package permify

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"strings"

	"github.com/ostiary/ostiary/internal/permifypb"
)

// If one list of the engine is the whole response, the continuous token is the
// engine's cursor. If the door assembles the response itself, the token is a
// position: it holds a digest of the request, so that it is rejected for any
// other request, and the token of the revision that the first page read. The
// engine authenticates that revision token. All other parts are untrusted.
const positionPrefix = "p1."

// tokenBytesMax bounds a continuous token, in bytes.
const tokenBytesMax = 256 << 10

// position is where the next page of a list begins.
type position struct {
	// revision is the token of the first page's revision; "" if the list does
	// not depend on a revision.
	revision string
	// last is the last id of the previous page; "" starts at the beginning.
	last string
	// part is the current part of a list with several parts, from 0.
	part int
	// cursor is the engine's cursor within part; "" starts at its beginning.
	cursor string
}

// positionJSON is the encoded form of a position.
type positionJSON struct {
	Key      []byte `json:"k"`
	Revision string `json:"r,omitempty"`
	Last     string `json:"l,omitempty"`
	Part     int    `json:"p,omitempty"`
	Cursor   string `json:"c,omitempty"`
}

// tokenKey returns a digest of the request that a token belongs to. Each part
// is prefixed with its length, so that different parts never have the same key.
func tokenKey(parts ...string) []byte {
	var b []byte
	for _, p := range parts {
		b = binary.AppendUvarint(b, uint64(len(p)))
		b = append(b, p...)
	}
	sum := sha256.Sum256(b)
	return sum[:16]
}

// token returns the continuous token of a position for the request that key
// identifies.
func (p *position) token(key []byte) string {
	body, err := json.Marshal(positionJSON{key, p.revision, p.last, p.part, p.cursor})
	if err != nil {
		return "" // strings and bytes always marshal
	}
	return positionPrefix + base64.RawURLEncoding.EncodeToString(body)
}

// parsePosition reads a token that [position.token] made for the same key. ""
// is the beginning of the list. Any other text is an
// INVALID_CONTINUOUS_TOKEN error.
func parsePosition(token string, key []byte) (position, error) {
	if token == "" {
		return position{}, nil
	}
	invalid := codeError(permifypb.ErrorCode_ERROR_CODE_INVALID_CONTINUOUS_TOKEN)
	text, ok := strings.CutPrefix(token, positionPrefix)
	if !ok || len(token) > tokenBytesMax {
		return position{}, invalid
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return position{}, invalid
	}
	var b positionJSON
	if json.Unmarshal(raw, &b) != nil || string(b.Key) != string(key) || b.Part < 0 {
		return position{}, invalid
	}
	return position{b.Revision, b.Last, b.Part, b.Cursor}, nil
}

// listDone is the part of a joined token for a list that has no more pages.
const listDone = "."

// joinedPrefix begins every token that joinToken makes.
const joinedPrefix = "m1."

// joinToken joins the tokens of several lists into one.
func joinToken(tokens []string) string {
	return joinedPrefix + strings.Join(tokens, "~")
}

// splitToken splits a token that joinToken made from n tokens. It does not
// check the tokens themselves; each list does that for its own.
func splitToken(token string, n int) ([]string, error) {
	if token == "" {
		return make([]string, n), nil
	}
	text, ok := strings.CutPrefix(token, joinedPrefix)
	parts := strings.Split(text, "~")
	if !ok || len(token) > tokenBytesMax || len(parts) != n {
		return nil, codeError(permifypb.ErrorCode_ERROR_CODE_INVALID_CONTINUOUS_TOKEN)
	}
	return parts, nil
}
