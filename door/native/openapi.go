package native

import _ "embed"

// description is the OpenAPI document of this door. It is written by hand.
//
//go:embed openapi.json
var description []byte

// openAPI serves the description.
func (c *call) openAPI() error {
	c.out = description
	return nil
}
