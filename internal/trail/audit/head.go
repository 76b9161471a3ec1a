package audit

import (
	"crypto/ed25519"
	"encoding/base64"
	"regexp"
	"strconv"
	"time"
)

// Head is the last line of a log at some time, with a signature. It is kept outside of
// the log's folder, so that [Verify] notices that lines up to it were removed or replaced.
type Head struct {
	Name   string // of the log, see [Options]
	Log    string // its random id
	Number uint64 // of the line
	Hash   string // of the line
	// Signature is that of the parts before it, for the key that signs the log.
	Signature []byte
}

// headEvery is the interval in which a log reports its head.
const headEvery = time.Hour

// headPrefix is what is signed in front of a head, so that no signature of a line is one of
// a head.
const headPrefix = "ostiary audit head\n"

// headForm is the form of a head in a text. A base64 of 64 bytes has 86 digits.
var headForm = regexp.MustCompile(`\b([a-z]+)/([0-9a-f]{32})/([1-9][0-9]{0,18})/([0-9a-f]{64})/([A-Za-z0-9_-]{86})`)

// content returns what is signed, without headPrefix.
func (h *Head) content() string {
	return h.Name + "/" + h.Log + "/" + strconv.FormatUint(h.Number, 10) + "/" + h.Hash
}

// String is the text of the head, which [Heads] finds: NAME/LOG/NUMBER/HASH/SIGNATURE.
func (h Head) String() string {
	return h.content() + "/" + base64.RawURLEncoding.EncodeToString(h.Signature)
}

// sign signs the head.
func (h *Head) sign(key ed25519.PrivateKey) {
	h.Signature = ed25519.Sign(key, []byte(headPrefix+h.content()))
}

// signedBy reports whether one of the keys signed the head.
func (h *Head) signedBy(keys []ed25519.PublicKey) bool {
	for _, key := range keys {
		if ed25519.Verify(key, []byte(headPrefix+h.content()), h.Signature) {
			return true
		}
	}
	return false
}

// Heads returns the heads in a text, for example in a line of a server's log.
func Heads(text string) (heads []Head) {
	for _, m := range headForm.FindAllStringSubmatch(text, -1) {
		number, err := strconv.ParseUint(m[3], 10, 64)
		signature, wrong := base64.RawURLEncoding.DecodeString(m[5])
		if err == nil && wrong == nil {
			heads = append(heads, Head{Name: m[1], Log: m[2], Number: number, Hash: m[4], Signature: signature})
		}
	}
	return heads
}
