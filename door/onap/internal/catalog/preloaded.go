package catalog

import (
	_ "embed"
	"fmt"

	"github.com/ostiary/ostiary/door/onap/internal/tosca"
)

//go:embed types.yaml
var types string

//go:embed types2.yaml
var secondTypes string

//go:embed naming.yaml
var naming string

// Naming is the name of the policy that is deployed from the start, in version
// 1.0.0.
const Naming = "SDNC_Policy.ONAP_NF_NAMING_TIMESTAMP"

// Preloaded returns the types and the policy, in the order in which they must be
// added.
func Preloaded() (list []*tosca.Template, err error) {
	for _, text := range []string{types, secondTypes, naming} {
		t, err := tosca.Parse([]byte(text), true)
		if err != nil {
			return nil, fmt.Errorf("preloaded types: %w", err)
		}
		list = append(list, t)
	}
	return list, nil
}
