package token

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ostiary/ostiary/internal/identity/settings"
)

func signing(k settings.Key) []byte    { return k[:16] }
func encryption(k settings.Key) []byte { return k[16:] }

// The parts of a Fernet token, by the Fernet specification: version, time, IV,
// ciphertext, HMAC.
const (
	fernetVersion = 0x80
	headBytes     = 1 + 8 + aes.BlockSize
	macBytes      = sha256.Size
)

// seal encrypts and signs data with the key, and returns base64url without
// padding, as Keystone sends it. The time is stored in seconds.
func seal(k settings.Key, data []byte, issued time.Time) string {
	pad := aes.BlockSize - len(data)%aes.BlockSize
	out := make([]byte, headBytes, headBytes+len(data)+pad+macBytes)
	out[0] = fernetVersion
	binary.BigEndian.PutUint64(out[1:], uint64(issued.Unix()))
	iv := out[9:headBytes]
	rand.Read(iv) // never fails
	out = append(out, data...)
	for range pad {
		out = append(out, byte(pad))
	}
	cipher.NewCBCEncrypter(cipherOf(k), iv).CryptBlocks(out[headBytes:], out[headBytes:])
	out = sum(k, out, out)
	return base64.RawURLEncoding.EncodeToString(out)
}

// unseal returns the content of a token that the key made, and the time in it. The
// second result is false if the key did not make it.
func unseal(k settings.Key, raw []byte) (data []byte, issued time.Time, ok bool) {
	signed := raw[:len(raw)-macBytes]
	if !hmac.Equal(sum(k, nil, signed), raw[len(signed):]) {
		return nil, time.Time{}, false
	}
	data = slices.Clone(signed[headBytes:])
	cipher.NewCBCDecrypter(cipherOf(k), signed[9:headBytes]).CryptBlocks(data, data)
	pad := int(data[len(data)-1])
	if pad == 0 || pad > aes.BlockSize {
		return nil, time.Time{}, false
	}
	return data[:len(data)-pad], time.Unix(int64(binary.BigEndian.Uint64(signed[1:])), 0).UTC(), true
}

// sum appends the signature of data to dst.
func sum(k settings.Key, dst, data []byte) []byte {
	mac := hmac.New(sha256.New, signing(k))
	mac.Write(data)
	return mac.Sum(dst)
}

func cipherOf(k settings.Key) cipher.Block {
	b, err := aes.NewCipher(encryption(k))
	if err != nil {
		panic(err) // the length of the key is fixed
	}
	return b
}

// unarmor decodes the text of a token and checks what needs no key.
func unarmor(text string) ([]byte, error) {
	if len(text) > TextMax {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrInvalid, len(text), TextMax)
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(strings.TrimRight(text, "="))
	if err != nil {
		return nil, fmt.Errorf("%w: expected base64url", ErrInvalid)
	}
	encrypted := len(raw) - headBytes - macBytes
	if encrypted < aes.BlockSize || encrypted%aes.BlockSize != 0 || raw[0] != fernetVersion {
		return nil, fmt.Errorf("%w: expected a Fernet token", ErrInvalid)
	}
	return raw, nil
}

// Fernet encodes and decodes Fernet tokens. It is immutable and may be used
// concurrently.
type Fernet struct {
	// Keys are the keys: the first one makes tokens, all of them read tokens. At
	// least one is needed.
	Keys []settings.Key
	// Methods are the authentication methods of the deployment. Nil means
	// [DefaultMethods].
	Methods Methods
}

// Encode returns the text of a token. issued is the time of creation, which is
// stored in seconds. Encode fails if an id or an audit id is malformed, or if
// the methods are not in the list of the deployment.
func (f *Fernet) Encode(p *Payload, issued time.Time) (string, error) {
	k, err := f.primary()
	if err != nil {
		return "", err
	}
	data, err := pack(p, f.methods())
	if err != nil {
		return "", err
	}
	return seal(k, data, issued), nil
}

// primary returns the key that makes tokens.
func (f *Fernet) primary() (k settings.Key, err error) {
	if len(f.Keys) == 0 {
		return k, fmt.Errorf("no Fernet key: expected at least one")
	}
	return f.Keys[0], nil
}

// Decode returns the content and the time of creation of a token. It does not
// check whether the token has expired. It fails with [ErrInvalid].
func (f *Fernet) Decode(text string) (*Payload, time.Time, error) {
	data, issued, err := Open(f.Keys, text)
	if err != nil {
		return nil, issued, err
	}
	p, err := unpack(data, f.methods())
	return p, issued, err
}

func (f *Fernet) methods() Methods {
	if f.Methods == nil {
		return DefaultMethods()
	}
	return f.Methods
}

// Open decrypts any Fernet text, for example a receipt or the blob of a
// credential, with the first key that made it. It returns the content and the
// time of creation, or fails with [ErrInvalid].
func Open(keys []settings.Key, text string) ([]byte, time.Time, error) {
	raw, err := unarmor(text)
	if err != nil {
		return nil, time.Time{}, err
	}
	for _, k := range keys {
		if data, issued, ok := unseal(k, raw); ok {
			return data, issued, nil
		}
	}
	return nil, time.Time{}, fmt.Errorf("%w: no key of %d made it", ErrInvalid, len(keys))
}
