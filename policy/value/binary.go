package value

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"
)

// parseHex reads an xs:hexBinary: pairs of hexadecimal digits.
func parseHex(text string) (Value, error) {
	octets, err := hex.DecodeString(text)
	if err != nil {
		return Value{}, errors.New("expected pairs of hexadecimal digits")
	}
	return Value{more: &more{canonical: string(octets)}}, nil
}

// parseBase64 reads an xs:base64Binary: groups of four characters, with spaces
// anywhere between characters.
func parseBase64(text string) (Value, error) {
	text = strings.ReplaceAll(text, " ", "")
	octets, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return Value{}, errors.New("expected base64 with padding")
	}
	return Value{more: &more{canonical: string(octets)}}, nil
}

// formatHex returns the canonical form of octets: digits and capital letters.
func formatHex(octets string) string {
	return strings.ToUpper(hex.EncodeToString([]byte(octets)))
}

// formatBase64 returns the canonical form of octets: base64 without spaces.
func formatBase64(octets string) string {
	return base64.StdEncoding.EncodeToString([]byte(octets))
}
