package permify

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	ostiary "github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/permifypb"
)

// TestDepth checks that a request may go as deep as its depth, up to the
// engine's bound, and that one hop more is an error.
func TestDepth(t *testing.T) {
	t.Parallel()
	e, err := ostiary.Open(t.Context(), ostiary.Options{Bounds: authz.Bounds{DepthMax: 1000}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	d, err := New(e, Options{})
	if err != nil {
		t.Fatal(err)
	}
	conn := dial(t, d)
	c := &clients{d, permifypb.NewDataClient(conn), nil, permifypb.NewSchemaClient(conn), permifypb.NewPermissionClient(conn), e}
	if _, err := c.schema.Write(t.Context(), &permifypb.SchemaWriteRequest{TenantId: "t1", Schema: "entity user {}\nentity g { relation m @user @g#m }"}); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for i := range 900 {
		lines = append(lines, fmt.Sprintf("g:%d#m@g:%d#m", i, i+1))
	}
	c.write(t, append(lines, "g:900#m@user:deep")...)
	check := func(depth int32) (permifypb.CheckResult, error) {
		out, err := c.permit.Check(t.Context(), &permifypb.PermissionCheckRequest{TenantId: "t1", Metadata: &permifypb.PermissionCheckRequestMetadata{Depth: depth},
			Entity: &permifypb.Entity{Type: "g", Id: "0"}, Permission: "m", Subject: &permifypb.Subject{Type: "user", Id: "deep"}})
		return out.GetCan(), err
	}
	for _, depth := range []int32{900, 1000, 1 << 30} {
		if can, err := check(depth); err != nil || can != permifypb.CheckResult_CHECK_RESULT_ALLOWED {
			t.Errorf("depth %d: %v, %v", depth, can, err)
		}
	}
	for _, depth := range []int32{3, 25, 899} {
		if can, err := check(depth); status.Code(err) != codes.InvalidArgument || status.Convert(err).Message() != "ERROR_CODE_DEPTH_NOT_ENOUGH" {
			t.Errorf("depth %d: %v, %v", depth, can, err)
		}
	}
}

// TestDeepMessages sends messages over gRPC whose values, or whose schema, are
// nested deeply. Each gets an answer within the limits of the protocol's library
// and of the schema language, and the server works afterwards.
func TestDeepMessages(t *testing.T) {
	t.Parallel()
	c := connect(t, boundsSchema)
	c.write(t, "doc:1#owner@user:1")
	check := func(data *structpb.Struct) (*permifypb.PermissionCheckResponse, error) {
		return c.permit.Check(t.Context(), &permifypb.PermissionCheckRequest{TenantId: "t1", Metadata: &permifypb.PermissionCheckRequestMetadata{Depth: 5},
			Entity: &permifypb.Entity{Type: "doc", Id: "1"}, Permission: "view", Subject: &permifypb.Subject{Type: "user", Id: "1"},
			Context: &permifypb.Context{Data: data}})
	}
	for _, depth := range []int{1, 60, 61, 4000, 20_000, 100_000} {
		value := structpb.NewStringValue("deep")
		for range depth {
			value = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{value}})
		}
		out, err := check(&structpb.Struct{Fields: map[string]*structpb.Value{"x": value}})
		code, named := status.Code(err), strings.Contains(fmt.Sprint(err), "bound ContextDepth exceeded: got 65, expected at most 64")
		switch {
		case depth <= 60 && (err != nil || out.Can != permifypb.CheckResult_CHECK_RESULT_ALLOWED),
			61 <= depth && depth <= 4000 && (code != codes.InvalidArgument || !named),
			depth > 4000 && code != codes.InvalidArgument && code != codes.Internal,
			len(fmt.Sprint(err)) > 8<<10:
			t.Errorf("a value of depth %d: %v, %.200v", depth, out, err)
		}
		text := strings.Repeat("(", depth) + "owner" + strings.Repeat(")", depth)
		_, err = c.schema.Write(t.Context(), &permifypb.SchemaWriteRequest{TenantId: "t1", Schema: "entity user {}\nentity doc {\n relation owner @user\n permission view = " + text + "\n}"})
		if depth >= 20_000 && status.Code(err) != codes.InvalidArgument || len(fmt.Sprint(err)) > 8<<10 {
			t.Errorf("a schema of depth %d: %.200v", depth, err)
		}
	}
	if out, err := check(nil); err != nil || out.Can != permifypb.CheckResult_CHECK_RESULT_ALLOWED {
		t.Error(out, err)
	}
}
