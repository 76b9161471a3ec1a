package permify

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/permifypb"
	"github.com/ostiary/ostiary/rel"
)

// FuzzFastJSON checks that the hand-written readers give the same result as the
// general reader, if they accept the text.
func FuzzFastJSON(f *testing.F) {
	for _, s := range []string{
		`{"metadata":{"snap_token":"","schema_version":"","depth":20},"entity":{"type":"content","id":"1"},"permission":"view","subject":{"type":"user","id":"2"},"page_size":20}`,
		`{"metadata":{"depth":3},"items":[{"entity":{"type":"a","id":"b"},"permission":"c","subject":{"type":"d","id":"e","relation":"..."}},{"entity":{"type":"a","id":"b2"},"permission":"c","subject":{"type":"d","id":"\u00fc"}}]}`,
		`{"metadata":{},"tuples":[{"entity":{"type":"a","id":"b"},"relation":"c","subject":{"type":"d","id":"e"}}],"attributes":[]}`,
		`{"metadata":{"depth":2147483648},"entity":{},"subject":{}}`,
		`{"metadata":{"depth":1e1},"entity":{},"subject":{},"tenant_id":"x"}`,
		`{"metadata":null}`, `{"metadata":{"depth":"20"}}`, `[]`, `{} {}`, `{"entity":{},"entity":{}}`,
		`{"metadata":{"schemaVersion":"1","snapToken":"2"}}`,
		`{"metadata":{"depth":4.0},"entity":{"type":"\ud800"},"subject":{}}`,
		`{"page_size":{"a":[1,{"b":null}]},"metadata":{},"entity":{},"subject":{}}`,
	} {
		f.Add(s)
	}
	f.Fuzz(checkFastJSON)
}

// checkFastJSON compares all readers on one text.
func checkFastJSON(t *testing.T, body string) {
	t.Helper()
	var p door.Params
	var q checkRequest
	if readPlain([]byte(body), q.readJSON) {
		var m *permifypb.PermissionCheckRequest
		want, err := decodeAs([]byte(body), p, func(in *permifypb.PermissionCheckRequest) (checkRequest, error) {
			m = in
			return newCheckRequest(in)
		})
		want.tenant = ""
		want.context, want.arguments = nil, nil
		if err != nil || m.Context != nil || len(m.Arguments) > 0 || !reflect.DeepEqual(q, want) {
			t.Fatalf("check %q: %+v with the fast reader, %+v with the general one (%v)", body, q, want, err)
		}
	}
	var b bulkCheckRequest
	if readPlain([]byte(body), b.readJSON) {
		want, err := decodeAs([]byte(body), p, newBulkCheckRequest)
		want.tenant = ""
		want.arguments = nil
		if len(b.items) == 0 {
			b.items = []authz.Question{}
		}
		if err != nil && len(b.items) <= bulkItemsMax || err == nil && !reflect.DeepEqual(b, want) {
			t.Fatalf("bulk %q: %+v with the fast reader, %+v with the general one (%v)", body, b, want, err)
		}
	}
	var c writeRequest
	if readPlain([]byte(body), c.readJSON) {
		want, err := decodeAs([]byte(body), p, newWriteRequest)
		want.tenant = ""
		if len(c.tuples) == 0 {
			c.tuples = []rel.Tuple{}
		}
		if len(want.attributes) == 0 {
			want.attributes = nil
		}
		if err != nil || !reflect.DeepEqual(c, want) {
			t.Fatalf("write %q: %+v with the fast reader, %+v with the general one (%v)", body, c, want, err)
		}
	}
}

// TestFastJSONLists checks lists whose items differ only in their ids, or
// almost only: both readers must give the same result.
func TestFastJSONLists(t *testing.T) {
	t.Parallel()
	const seed, lists = 1, 20_000
	random := rand.New(rand.NewPCG(seed, seed))
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	accepted := 0
	for range lists {
		field := pick("permission", "permission", "relation")
		typ, rest := pick("content", "a"), pick("", "", `,"relation":"member"`, `,"relation":"..."`)
		space := pick("", "", "", " ")
		item := func() string {
			id := func() string { return pick("1", "22", "", "x", "x y", "é", `\u0031`, `\"`, "a{b}", "a,b") }
			if random.IntN(3) > 0 {
				id = func() string { return pick("1", "22", "333") }
			}
			entity := fmt.Sprintf(`"entity":{"type":"%s",%s"id":"%s"}`, typ, space, id())
			subject := fmt.Sprintf(`"subject":{"type":"user","id":"%s"%s}`, id(), rest)
			relation := fmt.Sprintf(`"%s":"view"`, field)
			switch random.IntN(24) {
			case 0:
				return fmt.Sprintf("{%s,%s,%s}", subject, relation, entity)
			case 1:
				return fmt.Sprintf("{%s,%s}", entity, relation)
			case 2:
				return fmt.Sprintf("{%s,%s,%s,%s}", entity, relation, subject, entity)
			case 3:
				return fmt.Sprintf("{%s,%s,%s,\"odd\":1}", entity, relation, subject)
			case 4:
				return strings.Replace(fmt.Sprintf("{%s,%s,%s}", entity, relation, subject), `"view"`, `"edit"`, 1)
			case 5:
				return fmt.Sprintf("{%s,%s,%s", entity, relation, subject)
			}
			return fmt.Sprintf("{%s,%s,%s}", entity, relation, subject)
		}
		var items []string
		for range 1 + random.IntN(6) {
			items = append(items, item())
		}
		body := fmt.Sprintf(`{"metadata":{},"%s":[%s]}`, pick("items", "items", "tuples"), strings.Join(items, ","+space))
		checkFastJSON(t, body)
		var b bulkCheckRequest
		var c writeRequest
		if readPlain([]byte(body), b.readJSON) || readPlain([]byte(body), c.readJSON) {
			accepted++
		}
	}
	if accepted < lists/10 {
		t.Errorf("the fast reader accepted only %d of %d lists", accepted, lists)
	}
}

// FuzzLine checks that no line of a bundle or validation file causes a panic,
// and that no value of an argument changes the structure of a line.
func FuzzLine(f *testing.F) {
	for _, s := range []string{"doc:1#owner@user:{{.x}}", "doc:{{.x}}#owner@user:1#member", "doc:1$on|boolean:{{.x}}", "doc:{{.x}}$tags|string[]:a,b", "{{.x}}", "doc:1#{{.x}}@user:1", "{{}}", "{{."} {
		f.Add(s, "1")
		f.Add(s, "1#member")
		f.Add(s, "a,b|c$d:e@f#g{{.x}}")
	}
	f.Fuzz(func(t *testing.T, line, argument string) {
		args, plainly := map[string]string{"x": argument}, map[string]string{"x": "x"}
		if got, err := parseTuple(line, args); err == nil {
			want, err := parseTuple(line, plainly)
			if err != nil {
				t.Fatalf("%q: %v, but no error with the argument %q", line, err, argument)
			}
			if err := validTuple(&got); err != nil {
				t.Fatalf("%q with %q: %v", line, argument, err)
			}
			if !strings.Contains(line, "{{") && got != want {
				t.Fatalf("%q: %v, %v", line, got, want)
			}
			// A subject's relation comes from the line, never from an argument's text.
			if (got.Subject.Relation != "") && want.Subject.Relation == "" {
				t.Fatalf("%q with %q: %v", line, argument, got)
			}
		}
		if a, typ, err := parseAttribute(line, args); err == nil && typ.String() != "any" {
			again, _, err := parseAttribute(fmt.Sprintf("%s:%s$%s|%s:%s", a.Object.Type, a.Object.ID, a.Name, "string", "x"), nil)
			if err != nil || again.Object != a.Object || again.Name != a.Name {
				t.Fatalf("%q with %q is about %v: %v", line, argument, a, err)
			}
		}
	})
}

// FuzzToken checks that no continuous token causes a panic.
func FuzzToken(f *testing.F) {
	key := tokenKey("a", "b")
	f.Add((&position{"o1.x", "last", 3, "c"}).token(key))
	f.Add("p1.")
	f.Add("m1.a~b")
	f.Add("")
	f.Fuzz(func(t *testing.T, token string) {
		at, err := parsePosition(token, key)
		if err == nil && token != "" {
			again, err := parsePosition(at.token(key), key)
			if err != nil || again != at {
				t.Fatalf("%q: %+v, then %+v (%v)", token, at, again, err)
			}
			if _, err := parsePosition(token, tokenKey("a", "b", "")); err == nil {
				t.Fatalf("%q is accepted for another request", token)
			}
		}
		if parts, err := splitToken(token, 2); err == nil && len(parts) != 2 {
			t.Fatalf("%q: %q", token, parts)
		}
	})
}
