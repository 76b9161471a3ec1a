package pdp

import "github.com/ostiary/ostiary/door/onap/tosca"
import "github.com/ostiary/ostiary/policy"
import "errors"

func translateToscaXACML(p *tosca.Entity) (policy.Element, error) { return nil, errors.New("not yet") }
