package permify

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/permifypb"
	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/internal/workshop/golden"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// TestPlainForms compares with testdata/plain.txt what the readers of the plain form read
// of a body. They must not leave a plain body to the general reader, which is slower.
func TestPlainForms(t *testing.T) {
	t.Parallel()
	const (
		head    = `"metadata":{"snap_token":"s","schema_version":"v","depth":20}`
		entity  = `"entity":{"type":"doc","id":"1"}`
		user    = `"subject":{"type":"user","id":"2"}`
		members = `"subject":{"type":"org","id":"3","relation":"member"}`
	)
	check := func(parts ...string) string { return "{" + strings.TrimSuffix(strings.Join(parts, ","), ",") + "}" }
	triple := func(field, name, subject string) string {
		return check(entity, `"`+field+`":"`+name+`"`, subject)
	}
	var out strings.Builder
	show := func(body string, read func(*jsonread.Reader), value func() any) {
		outcome := "not plain"
		if readPlain([]byte(body), read) {
			outcome = strings.TrimPrefix(fmt.Sprintf("%+v", value()), "&")
		}
		fmt.Fprintf(&out, "%s\n\t%s\n", body, outcome)
	}
	for _, body := range []string{
		check(head, entity, `"permission":"view"`, user), check(user, `"permission":"view"`, entity, head), check(head, entity, `"permission":"view"`, members),
		check(`"metadata":{}`, `"entity":{}`, `"subject":{}`), check(head, entity, user, `"page_size":{"a":[1]}`), check(head, entity, user, `"tenant_id":"t9"`),
		check(head, entity, user, `"tenant_id":1`), check(head, entity, user, `"other":1`), check(entity, user), check(head, user), check(head, entity),
		check(`"metadata":{"depth":2147483647}`, entity, user), check(`"metadata":{"depth":2147483648}`, entity, user), check(`"metadata":{"depth":-1}`, entity, user),
		check(`"metadata":{"other":1}`, entity, user), check(head, `"entity":{"type":"doc","id":"1","relation":"r"}`, user), check(head, `"entity":{"other":"doc"}`, user),
		check(head, entity, `"subject":{"type":"user","id":"2","relation":"..."}`), check(head, entity, `"subject":{"type":"user","id":"2","relation":""}`), check(head, entity, user) + "{}",
		check(head, entity, user, `"context":{}`), check(head, entity, user, `"arguments":[]`),
	} {
		var q checkRequest
		show(body, q.readJSON, func() any { return q })
	}
	for _, items := range []string{"", triple("permission", "view", user), triple("permission", "view", user) + "," + strings.ReplaceAll(triple("permission", "view", user), `"1"`, `"4"`),
		triple("permission", "view", members) + "," + triple("permission", "edit", user), triple("relation", "view", user), `{"entity":{}}`, "1",
		strings.Repeat(triple("permission", "view", user)+",", 2) + `{"other":1}`,
	} {
		for _, rest := range []string{head, head + `,"tenant_id":"t9"`, `"other":1`, `"metadata":{}`, ""} {
			if rest != head && items != "" {
				continue
			}
			var b bulkCheckRequest
			show(check(`"items":[`+items+`]`, rest), b.readJSON, func() any { return b })
		}
	}
	for _, tuples := range []string{"", triple("relation", "owner", user), triple("relation", "owner", user) + "," + strings.ReplaceAll(triple("relation", "owner", user), `"2"`, `"5"`),
		triple("relation", "owner", members), triple("permission", "owner", user), "{}",
	} {
		for _, rest := range []string{head, head + `,"attributes":[]`, head + `,"attributes":[{}]`, head + `,"tenant_id":"t9"`, `"other":1`, ""} {
			if rest != head && tuples != "" {
				continue
			}
			var c writeRequest
			show(check(`"tuples":[`+tuples+`]`, rest), c.readJSON, func() any { return c })
		}
	}
	golden.Equal(t, "testdata/plain.txt", out.String())
	for count, want := range map[int]bool{bulkItemsMax + 1: true, bulkItemsMax + 2: false} { // the call refuses one too many
		var b bulkCheckRequest
		if got := readPlain([]byte(check(head, `"items":[`+strings.Repeat(triple("permission", "view", user)+",", count-1)+triple("permission", "view", user)+`]`)), b.readJSON); got != want {
			t.Errorf("%d items are plain: %v", count, got)
		}
	}
	for count, want := range map[int]bool{writeMax + 1: true, writeMax + 2: false} {
		var c writeRequest
		if got := readPlain([]byte(check(head, `"tuples":[`+strings.Repeat(triple("relation", "owner", user)+",", count-1)+triple("relation", "owner", user)+`]`)), c.readJSON); got != want {
			t.Errorf("%d tuples are plain: %v", count, got)
		}
	}
}

// TestValuesOfTypes compares values of each type of an attribute with
// testdata/values.txt, also values of another type, as after a change of the schema.
func TestValuesOfTypes(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	for _, kind := range []expr.Kind{expr.Bool, expr.String, expr.Int, expr.Double} {
		elem := expr.Type{Kind: kind}
		for _, typ := range []expr.Type{elem, {Kind: expr.List, Elem: &elem}} {
			fmt.Fprintf(&out, "%s\n", typ)
			for _, text := range []string{`true`, `"a"`, `7`, `0.5`, `[]`, `[true]`, `["a"]`, `[7]`, `[0.5]`, `[7,"a"]`, `{}`, ``} {
				m, err := valueMessage(text, typ)
				if err == nil {
					fmt.Fprintf(&out, "\t%s: %s %x\n", text, m.TypeUrl, m.Value)
					continue
				}
				var f *failure
				if !errors.As(err, &f) || f.cause == nil {
					t.Errorf("%s as %s: %v, expected a failure with its cause", text, typ, err)
					continue
				}
				fmt.Fprintf(&out, "\t%s: %d %s\n", text, httpStatus(f.code), f.message)
			}
		}
	}
	for _, text := range []string{"[", "[[true]]", `["x",`, "", "t", "-", "1.0", "1E3", `"1.0"`, "[1.0", "null"} {
		fmt.Fprintf(&out, "the type of %s is %s\n", text, guessType(text))
	}
	golden.Equal(t, "testdata/values.txt", out.String())
}

// TestPlainText checks that a text is copied as it is, unless it has a character that
// needs an escape.
func TestPlainText(t *testing.T) {
	t.Parallel()
	for c := range 0x100 {
		s := "<" + string([]byte{byte(c)})
		if got, plain := string(appendText([]byte("x"), s)), `x"`+s+`"`; (got == plain) != (c >= ' ' && c < 0x80 && c != '"' && c != '\\') {
			t.Errorf("%q is written as %s", s, got)
		}
	}
}

// TestHeldChanges checks how many changes each message of a watch has, and which memory
// the watch asks for before it makes the messages of one write.
func TestHeldChanges(t *testing.T) {
	t.Parallel()
	full := errors.New("the memory is full")
	for _, c := range []struct {
		changes int
		holdErr error
		sent    string
		held    string
	}{
		{0, nil, "[]", "[]"}, {1, nil, "[1]", "[]"}, {15, full, "[15]", "[]"}, {16, nil, "[16]", "[16384 0]"}, {16, full, "[]", "[16384]"},
		{999, nil, "[999]", "[1022976 0]"}, {1000, nil, "[1000]", "[1024000 0]"}, {1001, nil, "[1000 1]", "[1024000 0]"}, {2000, nil, "[1000 1000]", "[1024000 0]"},
	} {
		e := storageEntry(c.changes)
		held, sent := []int64{}, []int{}
		ctx := door.WithHold(t.Context(), func(bytes int64) error {
			held = append(held, bytes)
			return c.holdErr
		})
		err := sendEntry(ctx, nil, &e, func(m *permifypb.WatchResponse) error {
			sent = append(sent, len(m.Changes.DataChanges))
			if m.Changes.SnapToken != string(e.Token) {
				t.Errorf("%d changes: a message has the token %q", c.changes, m.Changes.SnapToken)
			}
			return nil
		})
		if refused := c.holdErr != nil && len(sent) == 0; (err != nil) != refused {
			t.Errorf("%d changes: %v", c.changes, err)
		}
		if fmt.Sprint(sent) != c.sent || fmt.Sprint(held) != c.held {
			t.Errorf("%d changes: messages %v and memory %v, expected %s and %s", c.changes, sent, held, c.sent, c.held)
		}
	}
	e, sent := storageEntry(2500), 0
	gone := errors.New("the client is gone")
	if err := sendEntry(context.Background(), nil, &e, func(*permifypb.WatchResponse) error { sent++; return gone }); !errors.Is(err, gone) || sent != 1 {
		t.Errorf("%v after %d messages, expected the error of the client after one", err, sent)
	}
}

// storageEntry returns an entry of the log that adds tuples.
func storageEntry(changes int) authz.ChangeEntry {
	e := authz.ChangeEntry{Token: "token"}
	for i := range changes {
		e.Changes = append(e.Changes, storage.Change{Kind: storage.TupleAdd, Tuple: rel.Tuple{
			Object: rel.Object{Type: "doc", ID: fmt.Sprint(i)}, Relation: "owner", Subject: rel.Subject{Type: "user", ID: "1"}}})
	}
	return e
}
