package jsonread_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/tool/jsonread"
)

type inner struct {
	ID string `json:"id"`
}

type world struct {
	inner
	Name   string           `json:"name,omitempty"`
	Plain  int              // has no tag
	Hidden int              `json:"-"`
	Next   *world           `json:"next"`
	List   []inner          `json:"list"`
	ByName map[string]inner `json:"by_name"`
	Any    any              `json:"any"`
	Raw    json.RawMessage  `json:"raw"`
}

// TestUnmarshal reads texts into structs. A part of the text of the error is expected; ""
// is none, and then the result is that of encoding/json.
func TestUnmarshal(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"id":"1","name":"n","Plain":2,"next":{"id":"3","list":[{"id":"4"},{}]},"by_name":{"ID":{"id":"5"}},"any":{"ID":1},"raw":{"ID":1},"more":{"ID":1},"Hidden":3}`: "",
		`null`:                        "",
		`{"na\u006de":"n"}`:           "",
		`{"list":null,"next":null}`:   "",
		`{"ID":"1"}`:                  "ID: unknown member: expected id, in this case",
		`{"id":"1","Id":"2"}`:         "Id: unknown member: expected id",
		`{"NAME":"n"}`:                "expected name",
		`{"\u006eAME":"n"}`:           "expected name",
		`{"plain":2}`:                 "expected Plain",
		`{"li\u017ft":[]}`:            "expected list", // a letter that becomes an S in capitals
		`{"next":{"next":{"ID":1}}}`:  "next.next.ID: unknown member",
		`{"list":[{},{"Id":1}]}`:      "list[1].Id: unknown member",
		`{"by_name":{"x":{"Id":1}}}`:  "by_name.x.Id: unknown member",
		`{"id":"1","id":"2"}`:         "duplicate member",
		`{"id":"1","i\u0064":"2"}`:    "duplicate member",
		`{"any":{"a":1,"a":2}}`:       "duplicate member",
		`{"raw":{"a":1,"a":2}}`:       "duplicate member",
		`{"more":{"a":1,"a":2}}`:      "duplicate member",
		`{"by_name":{"a":{},"a":{}}}`: "duplicate member",
		`{"id":"` + "\xff" + `"}`:     "invalid UTF-8",
		`{} {}`:                       "unexpected data",
		`{"id":1}`:                    "id: expected a string, got number",
		`{"list":{}}`:                 "list: expected an array, got object",
		`[]`:                          "expected an object, got array",
		`{"Plain":"1"}`:               "Plain: expected a number, got string",
	} {
		var got, wanted world
		err := jsonread.Unmarshal([]byte(text), &got)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", text, err)
		case want == "":
			if err := json.Unmarshal([]byte(text), &wanted); err != nil {
				t.Fatal(err)
			}
			a, _ := json.Marshal(got)
			b, _ := json.Marshal(wanted)
			if string(a) != string(b) {
				t.Errorf("%s: %s, want %s", text, a, b)
			}
		case err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, jsonread.ErrSyntax):
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	var w world
	if err := jsonread.UnmarshalKnown([]byte(`{"next":{"more":1}}`), &w); err == nil || err.Error() != "next.more: unknown member" {
		t.Error(err)
	}
	if err := jsonread.UnmarshalKnown([]byte(`{"id":"1","next":{"name":"n"},"any":{"more":1}}`), &w); err != nil || w.ID != "1" || w.Next.Name != "n" {
		t.Error(w, err)
	}
}
