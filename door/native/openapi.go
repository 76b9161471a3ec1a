package native

import _ "embed"

// description is the OpenAPI document of this door, kept by hand.
//
//go:embed openapi.json
var description []byte

// openAPI answers with the description.
func (c *call) openAPI() error {
	c.out = description
	return nil
}
