package message

import (
	"bytes"
	"encoding/base64"
	"errors"

	"github.com/ostiary/ostiary/policy/content"
	"github.com/ostiary/ostiary/policy/status"
)

// parseJSONContent reads the content of a category from JSON, where it is XML or
// the base64 form of XML (section 4.2.3 of the JSON profile).
func parseJSONContent(text string) (*content.Node, error) {
	xml := bytes.TrimSpace([]byte(text))
	if !bytes.HasPrefix(bytes.TrimPrefix(xml, []byte("\uFEFF")), []byte("<")) {
		decoded, err := base64.StdEncoding.DecodeString(string(xml))
		if err != nil {
			return nil, errors.New("expected XML, or XML in base64")
		}
		xml = decoded
	}
	return content.Parse(xml)
}

// boundOf returns the name of the bound that content exceeds; "" if err has
// another reason.
func boundOf(err error) string {
	var s *status.Error
	if errors.As(err, &s) {
		return s.Bound
	}
	return ""
}
