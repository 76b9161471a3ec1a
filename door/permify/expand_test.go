package permify

import (
	"testing"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/permifypb"
	"github.com/ostiary/ostiary/rel"
)

// TestExpandAttributeFails checks that an attribute which cannot be read is an
// error, never the zero value of its type.
func TestExpandAttributeFails(t *testing.T) {
	t.Parallel()
	e, d := start(t, Options{})
	dial(t, d)
	store, err := e.CreateStore(t.Context(), tenantStore("t1", "t1"))
	if err != nil {
		t.Fatal(err)
	}
	s := &service{engine: e}
	if _, err := writeSchema(t.Context(), store, "entity user {}\nentity doc {\n attribute n integer\n permission big = more(n)\n}\nrule more(n integer) { n > 1 }\n"); err != nil {
		t.Fatal(err)
	}
	compiled, _, err := s.pinnedOptions(t.Context(), store, "", "", authz.QueryOptions{}.Bounds)
	if err != nil {
		t.Fatal(err)
	}
	x := &expansion{ctx: t.Context(), store: store, consistency: authz.AtExactly("x"), schema: compiled}
	if v := x.attributeValue(rel.Object{Type: "doc", ID: "1"}, "n"); v != nil || x.err == nil {
		t.Errorf("an attribute at an invalid revision is %v, %v", v, x.err)
	}
	// An attribute that the schema does not have has no type.
	x = &expansion{ctx: t.Context(), store: store, consistency: authz.Acknowledged(), schema: compiled}
	if v := x.attributeValue(rel.Object{Type: "doc", ID: "1"}, "m"); v != nil || x.err == nil {
		t.Errorf("an unknown attribute is %v, %v", v, x.err)
	}
}

// TestExpandOldAttribute checks that Expand fails if a stored value no longer
// has the type that the schema gives its attribute.
func TestExpandOldAttribute(t *testing.T) {
	t.Parallel()
	c := connect(t, "entity user {}\nentity doc {\n attribute n integer\n permission big = more(n)\n}\nrule more(n integer) { n > 1 }\n")
	c.write(t, "doc:1$n|integer:7")
	request := &permifypb.PermissionExpandRequest{TenantId: "t1", Metadata: &permifypb.PermissionExpandRequestMetadata{}, Entity: &permifypb.Entity{Type: "doc", Id: "1"}, Permission: "big"}
	if _, err := c.permit.Expand(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	if _, err := c.schema.Write(t.Context(), &permifypb.SchemaWriteRequest{TenantId: "t1",
		Schema: "entity user {}\nentity doc {\n attribute n boolean\n permission big = more(n)\n}\nrule more(n boolean) { n }\n"}); err != nil {
		t.Fatal(err)
	}
	if out, err := c.permit.Expand(t.Context(), request); err == nil {
		t.Errorf("a number is expanded as a boolean: %v", out)
	}
}
