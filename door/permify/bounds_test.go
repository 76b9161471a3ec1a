package permify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/ostiary/ostiary/internal/permifypb"
)

const boundsSchema = "entity user {}\nentity doc {\n relation owner @user\n attribute on boolean\n permission view = owner or on\n}\nentity long {\n relation " +
	"rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrr @user\n}"

// TestBoundsOfFields checks every rule for a field at its bound and beyond it,
// over REST and gRPC. Both must give the same text.
func TestBoundsOfFields(t *testing.T) {
	t.Parallel()
	c := connect(t, boundsSchema)
	server := listen(t, c.door)
	for _, b := range []struct {
		name string
		// at is the JSON of a check at the bound, beyond that of one beyond it.
		at, beyond string
		field      string
	}{
		{"depth", field("depth", "3"), field("depth", "2"), "invalid PermissionCheckRequestMetadata.Depth: value must be greater than or equal to 3"},
		{"entity type", field("etype", "doc"), field("etype", strings.Repeat("d", 65)), "invalid Entity.Type: value does not match"},
		{"entity type without digits", field("etype", "doc"), field("etype", "doc1"), "invalid Entity.Type: value does not match"},
		{"entity id", field("eid", strings.Repeat("i", 128)), field("eid", strings.Repeat("i", 129)), "invalid Entity.Id: value does not match"},
		{"entity id of signs", field("eid", "aZ09_-@.:+"), field("eid", "a/b"), "invalid Entity.Id: value does not match"},
		{"entity star", field("eid", "*"), field("eid", "**"), "invalid Entity.Id: value does not match"},
		{"subject type", field("stype", strings.Repeat("s", 64)), field("stype", strings.Repeat("s", 65)), "invalid Subject.Type: value does not match"},
		{"subject id", field("sid", strings.Repeat("i", 128)), field("sid", strings.Repeat("i", 129)), "invalid Subject.Id: value does not match"},
		{"subject id not empty", field("sid", "i"), field("sid", ""), "invalid Subject.Id: value does not match"},
		{"subject relation", field("srel", strings.Repeat("r", 64)), field("srel", strings.Repeat("r", 65)), "invalid Subject.Relation: value does not match"},
		{"permission", field("perm", "view"), field("perm", strings.Repeat("p", 65)), "invalid PermissionCheckRequest.Permission: value does not match"},
		{"permission is required", field("perm", "view"), field("perm", ""), "invalid PermissionCheckRequest.Permission: value does not match"},
	} {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			if status, body := postTo(t, server.URL+"/v1/tenants/t1/permissions/check", b.at); status != http.StatusOK {
				t.Errorf("at the bound: %d %s", status, body)
			}
			code, body := postTo(t, server.URL+"/v1/tenants/t1/permissions/check", b.beyond)
			var e struct {
				Code    int
				Message string
			}
			if err := json.Unmarshal(body, &e); err != nil || code != http.StatusBadRequest || e.Code != 3 || !strings.HasPrefix(e.Message, b.field) {
				t.Errorf("beyond the bound: %d %s", code, body)
			}
			m := &permifypb.PermissionCheckRequest{}
			if err := protojson.Unmarshal([]byte(b.beyond), m); err != nil {
				t.Fatal(err)
			}
			m.TenantId = "t1"
			if _, err := c.permit.Check(t.Context(), m); status.Code(err) != codes.InvalidArgument || status.Convert(err).Message() != e.Message {
				t.Errorf("over gRPC: %v, over REST: %s", err, e.Message)
			}
		})
	}
}

// field returns the JSON of a check with one field changed.
func field(name, value string) string {
	f := map[string]string{"depth": "20", "etype": "doc", "eid": "1", "perm": "view", "stype": "user", "sid": "1", "srel": ""}
	f[name] = value
	return fmt.Sprintf(`{"metadata":{"depth":%s},"entity":{"type":%q,"id":%q},"permission":%q,"subject":{"type":%q,"id":%q,"relation":%q}}`,
		f["depth"], f["etype"], f["eid"], f["perm"], f["stype"], f["sid"], f["srel"])
}

func postTo(t testing.TB, url, body string) (int, []byte) {
	t.Helper()
	res, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, text
}

// TestBoundsOfCounts: lists at their bound and one beyond it.
func TestBoundsOfCounts(t *testing.T) {
	t.Parallel()
	c := connect(t, boundsSchema)
	server := listen(t, c.door)
	tuple := func(i int) string {
		return fmt.Sprintf(`{"entity":{"type":"doc","id":"%d"},"relation":"owner","subject":{"type":"user","id":"1"}}`, i)
	}
	repeat := func(n int, one func(int) string) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = one(i)
		}
		return strings.Join(parts, ",")
	}
	item := func(int) string {
		return `{"entity":{"type":"doc","id":"1"},"permission":"view","subject":{"type":"user","id":"1"}}`
	}
	attribute := func(i int) string {
		return fmt.Sprintf(`{"entity":{"type":"doc","id":"%d"},"attribute":"on","value":{"@type":"type.googleapis.com/base.v1.BooleanValue","data":true}}`, i)
	}
	id := func(i int) string { return fmt.Sprintf("%q", fmt.Sprint("x", i)) }
	bundle := func(i int) string { return fmt.Sprintf(`{"name":"b%d","arguments":[],"operations":[]}`, i) }
	for _, b := range []struct {
		path string
		most int
		body func(n int) string
		want string
	}{
		{"permissions/bulk-check", bulkItemsMax, func(n int) string {
			return `{"metadata":{"depth":20},"items":[` + repeat(n, item) + `]}`
		}, "invalid PermissionBulkCheckRequest.Items: value must contain between 1 and 100 items, inclusive"},
		{"data/write", writeMax, func(n int) string {
			return `{"metadata":{},"tuples":[` + repeat(n, tuple) + `]}`
		}, "ERROR_CODE_MAX_DATA_PER_WRITE_EXCEEDED"},
		{"data/write", writeMax, func(n int) string {
			return `{"metadata":{},"tuples":[` + repeat(500, tuple) + `],"attributes":[` + repeat(n-500, attribute) + `]}`
		}, "ERROR_CODE_MAX_DATA_PER_WRITE_EXCEEDED"},
		{"data/delete", 100, func(n int) string {
			return `{"tuple_filter":{"entity":{"type":"doc","ids":[` + repeat(n, id) + `]}},"attribute_filter":{}}`
		}, "invalid TupleFilter: 101 combinations of ids, the bound FiltersMax is 100"},
		{"data/delete", 100, func(n int) string {
			return `{"tuple_filter":{},"attribute_filter":{"entity":{"type":"doc","ids":[` + repeat(n, id) + `]}}}`
		}, "invalid AttributeFilter: 101 combinations of ids and attributes, the bound FiltersMax is 100"},
		{"data/delete", 100, func(n int) string {
			return `{"tuple_filter":{},"attribute_filter":{"entity":{"type":"doc"},"attributes":[` + repeat(n, id) + `]}}`
		}, "invalid AttributeFilter: 101 combinations of ids and attributes, the bound FiltersMax is 100"},
		{"bundle/write", bundlesMax, func(n int) string {
			return `{"bundles":[` + repeat(n, bundle) + `]}`
		}, "invalid BundleWriteRequest.Bundles: value must contain between 1 and 100 items, inclusive"},
		{"permissions/lookup-entity", permissionsMax, func(n int) string {
			return `{"metadata":{"depth":20},"entity_type":"doc","subject":{"type":"user","id":"1"},"permissions":[` + repeat(n, func(int) string { return `"view"` }) + `]}`
		}, "invalid PermissionLookupEntityRequest.Permissions: value must contain between 0 and 20 items, inclusive"},
	} {
		url := server.URL + "/v1/tenants/t1/" + b.path
		if status, body := postTo(t, url, b.body(b.most)); status != http.StatusOK {
			t.Errorf("%s at the bound: %d %s", b.path, status, body)
		}
		if status, body := postTo(t, url, b.body(b.most+1)); status != http.StatusBadRequest || !bytes.Contains(body, []byte(b.want)) {
			t.Errorf("%s beyond the bound: %d %s", b.path, status, body)
		}
	}
	for _, n := range []int{tenantBytesMax, tenantBytesMax + 1} {
		want := http.StatusOK
		if n > tenantBytesMax {
			want = http.StatusBadRequest
		}
		for _, body := range []string{
			fmt.Sprintf(`{"id":%q,"name":"x"}`, strings.Repeat("a", n)),
			fmt.Sprintf(`{"id":"n%d","name":%q}`, n, strings.Repeat("ü", n/2)+strings.Repeat("x", n%2)),
		} {
			if status, out := postTo(t, server.URL+"/v1/tenants/create", body); status != want {
				t.Errorf("a tenant of %d bytes: %d %s", n, status, out)
			}
		}
	}
}

// TestLongRelation checks that a relation with a name of 64 letters, the
// protocol's bound, can hold data.
func TestLongRelation(t *testing.T) {
	t.Parallel()
	c := connect(t, boundsSchema)
	relation := strings.Repeat("r", 64)
	c.write(t, "long:1#"+relation+"@user:1")
	out, err := c.permit.Check(t.Context(), &permifypb.PermissionCheckRequest{TenantId: "t1", Metadata: &permifypb.PermissionCheckRequestMetadata{Depth: 3},
		Entity: &permifypb.Entity{Type: "long", Id: "1"}, Permission: relation, Subject: &permifypb.Subject{Type: "user", Id: "1"}})
	if err != nil || out.Can != permifypb.CheckResult_CHECK_RESULT_ALLOWED {
		t.Errorf("%v, %v", out, err)
	}
}

// TestHostileRules checks that rules which never end, or would need too much
// memory, end quickly with an error that names the rule.
func TestHostileRules(t *testing.T) {
	t.Parallel()
	many := "[" + strings.Repeat("1,", 99) + "1]"
	for name, body := range map[string]string{
		"never ends": many + ".all(a, " + many + ".all(b, " + many + ".all(c, " + many + ".all(d, a + b + c + d > 0))))",
		"grows":      many + ".map(a, " + many + ".map(b, " + many + ".map(c, s + s + s))).size() > 0",
		"matches":    `(s + s + s).matches("(a*)*(a*)*(a*)*b")`,
		"recurses":   "context.data.a.b.c.d.e == s",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := connect(t, "entity user {}\nentity doc {\n attribute s string\n permission view = r(s)\n}\nrule r(s string) { "+body+" }")
			c.write(t, "doc:1$s|string:"+strings.Repeat("a", 1000))
			begin := time.Now()
			out, err := c.permit.Check(t.Context(), &permifypb.PermissionCheckRequest{TenantId: "t1", Metadata: &permifypb.PermissionCheckRequestMetadata{Depth: 3},
				Entity: &permifypb.Entity{Type: "doc", Id: "1"}, Permission: "view", Subject: &permifypb.Subject{Type: "user", Id: "1"}})
			if err != nil && (status.Code(err) != codes.InvalidArgument || !strings.HasPrefix(status.Convert(err).Message(), "rule r on doc:1: ")) || err == nil && out.Can == permifypb.CheckResult_CHECK_RESULT_ALLOWED {
				t.Errorf("%v, %v", out, err)
			}
			t.Logf("%v after %v", err, time.Since(begin))
		})
	}
}
