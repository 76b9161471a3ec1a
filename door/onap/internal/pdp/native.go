package pdp

import (
	"context"
	"encoding/base64"
	"fmt"

	"github.com/ostiary/ostiary/door/onap/internal/tosca"
	"github.com/ostiary/ostiary/policy/language"
)

// The types of native policies.
const (
	typeXACML      = "onap.policies.native.Xacml"
	typeToscaXACML = "onap.policies.native.ToscaXacml"
)

// translateNative returns the XACML policy that a native policy contains, as XML
// in base64 or in the form of TOSCA.
func translateNative(ctx context.Context, p *tosca.Entity, _ Types) (translated, error) {
	if typ, _ := p.Type(); typ == typeToscaXACML {
		set, err := translateToscaXACML(p)
		return translated{element: set}, err
	}
	text := p.Properties().Get("policy")
	if text == nil || text.Kind != tosca.String {
		return translated{}, fmt.Errorf("the property policy is missing or not a string: expected an XACML policy in base64")
	}
	xml, err := base64.StdEncoding.DecodeString(text.Text)
	if err != nil {
		return translated{}, fmt.Errorf("the property policy is not base64: %w", err)
	}
	element, err := language.ParseXML(ctx, xml, p.ID())
	if err != nil {
		return translated{}, err
	}
	return translated{element: element}, nil
}
