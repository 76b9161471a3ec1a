package function

import (
	"github.com/ostiary/ostiary/policy/status"
	"github.com/ostiary/ostiary/policy/value"
)

// conversion adds type-from-string and string-from-type (appendix A.3.9).
func (b *builder) conversion() {
	for _, t := range value.Types() {
		switch t {
		case value.String, value.HexBinary, value.Base64Binary, value.XPathExpression:
			continue
		}
		b.unary(v3+t.String()+"-from-string", value.String, t, func(v value.Value) (value.Value, error) {
			parsed, err := value.Parse(t, v.Text())
			if err != nil {
				return value.Value{}, status.Errorf(status.SyntaxError, "%v", err)
			}
			return parsed, nil
		})
		print := value.Value.Canonical
		switch t {
		case value.X500Name, value.RFC822Name, value.IPAddress, value.DNSName, value.AnyURI:
			// Only the types of XML Schema have a canonical form in the standard.
			print = value.Value.Text
		}
		b.unary(v3+"string-from-"+t.String(), t, value.String, func(v value.Value) (value.Value, error) {
			return value.NewString(print(v)), nil
		})
	}
}
