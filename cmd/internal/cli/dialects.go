package cli

import (
	"github.com/ostiary/ostiary/door/native"
	openfga "github.com/ostiary/ostiary/door/openfga/language"
	permify "github.com/ostiary/ostiary/door/permify/language"
	"github.com/ostiary/ostiary/schema"
)

// Dialects are the model languages that the native door reads and prints.
func Dialects() []native.Dialect {
	return []native.Dialect{
		{Name: openfga.LanguageDSL, Format: openfga.FormatDSL, Parse: func(text []byte) (*schema.Model, error) {
			m, _, err := openfga.ParseDSL(text)
			return m, err
		}},
		{Name: openfga.LanguageJSON, Parse: func(text []byte) (*schema.Model, error) {
			m, _, err := openfga.ParseJSON(text)
			return m, err
		}, Format: func(m *schema.Model) (string, error) {
			text, err := openfga.FormatJSON(m)
			return string(text), err
		}},
		{Name: permify.Dialect, Format: permify.Format, Parse: func(text []byte) (*schema.Model, error) {
			parsed, err := permify.Parse(string(text))
			if err != nil {
				return nil, err
			}
			return parsed.Model()
		}},
	}
}
