package catalog_test

import (
	"testing"

	"github.com/ostiary/ostiary/door/onap/internal/catalog"
	"github.com/ostiary/ostiary/door/onap/internal/tosca"
)

// TestTemplates counts the types of the original's 34 files.
func TestTemplates(t *testing.T) {
	t.Parallel()
	list, err := catalog.Preloaded()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[tosca.Section]int{}
	for _, template := range list {
		for i := range template.Entities {
			counts[template.Entities[i].Section]++
		}
	}
	if counts[tosca.PolicyTypeSection] != 40 || counts[tosca.PolicySection] != 1 || counts[tosca.DataTypeSection] != 61 {
		t.Errorf("got %v, expected 40 policy types, 61 data types and a policy", counts)
	}
}
