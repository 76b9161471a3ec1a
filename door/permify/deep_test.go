package permify

import (
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ostiary "github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/permify/basev1"
)

// TestDepth checks that a request may go as deep as its depth, up to the
// engine's bound, and that one hop more is an error.
func TestDepth(t *testing.T) {
	t.Parallel()
	e, err := ostiary.Open(t.Context(), ostiary.Options{Bounds: ostiary.Bounds{DepthMax: 1000}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	d, err := New(e, Options{})
	if err != nil {
		t.Fatal(err)
	}
	conn := dial(t, d)
	c := &clients{d, basev1.NewDataClient(conn), nil, basev1.NewSchemaClient(conn), basev1.NewPermissionClient(conn), e}
	if _, err := c.schema.Write(t.Context(), &basev1.SchemaWriteRequest{TenantId: "t1", Schema: "entity user {}\nentity g { relation m @user @g#m }"}); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for i := range 900 {
		lines = append(lines, fmt.Sprintf("g:%d#m@g:%d#m", i, i+1))
	}
	c.write(t, append(lines, "g:900#m@user:deep")...)
	check := func(depth int32) (basev1.CheckResult, error) {
		out, err := c.permit.Check(t.Context(), &basev1.PermissionCheckRequest{TenantId: "t1", Metadata: &basev1.PermissionCheckRequestMetadata{Depth: depth},
			Entity: &basev1.Entity{Type: "g", Id: "0"}, Permission: "m", Subject: &basev1.Subject{Type: "user", Id: "deep"}})
		return out.GetCan(), err
	}
	for _, depth := range []int32{900, 1000, 1 << 30} {
		if can, err := check(depth); err != nil || can != basev1.CheckResult_CHECK_RESULT_ALLOWED {
			t.Errorf("depth %d: %v, %v", depth, can, err)
		}
	}
	for _, depth := range []int32{3, 25, 899} {
		if can, err := check(depth); status.Code(err) != codes.InvalidArgument || status.Convert(err).Message() != "ERROR_CODE_DEPTH_NOT_ENOUGH" {
			t.Errorf("depth %d: %v, %v", depth, can, err)
		}
	}
}
