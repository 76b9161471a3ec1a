package rel

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestParseTuple(t *testing.T) {
	for _, s := range []string{
		"doc:1#viewer@user:anne",
		"doc:1#viewer@user:*",
		"doc:a@b#viewer@user:c@d",
		"doc:a:b/c?d=e#viewer@group:x#member",
		"ns/doc:1#viewer@ns/user:1",
		"doc:1#viewer@user:anne with hours",
		`doc:1#viewer@user:anne with hours {"from":"08:00","list":[1,"a b"]}`,
		"doc:1#viewer@user:anne until 2026-11-21T21:00:00Z",
		`doc:1#viewer@user:anne with hours {"a":1} until 2026-11-21T21:00:00.000000001Z`,
		"doc:1#viewer@user:anne with hours until 2026-11-21T21:00:00Z",
		"dök:Ä#vïewer@user:😀",
	} {
		tuple, err := Parse(s)
		if err != nil {
			t.Errorf("%s: %v", s, err)
		} else if got := tuple.String(); got != s {
			t.Errorf("String() of %s = %s", s, got)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, s := range []string{
		"", "doc:1", "doc:1#viewer", "doc#viewer@user:1", ":1#viewer@user:1", "doc:#viewer@user:1",
		"doc:1#@user:1", "doc:1#viewer@", "doc:1#viewer@user", "doc:1#viewer@user:1#", "doc:1#viewer@user:*#member",
		"doc:1#viewer@group:1#a#b", "doc:1#view er@user:1", "doc:1#viewer@user:1 with", "doc:1#viewer@user:1 also",
		"doc:1#viewer@user:1 with c {", "doc:1#viewer@user:1 until tomorrow", "doc:1#viewer@user:\xff",
		"doc:1#viewer@user:a\x00b", "doc:1\t#viewer@user:1",
	} {
		if tuple, err := Parse(s); !errors.Is(err, ErrName) {
			t.Errorf("Parse(%q) = %v, %v; want ErrName", s, tuple, err)
		}
	}
}

func TestNameBounds(t *testing.T) {
	for _, c := range []struct {
		max  int
		make func(s string) error
	}{
		{TypeBytesMax, func(s string) error { return Object{s, "1"}.Validate() }},
		{IDBytesMax, func(s string) error { return Object{"doc", s}.Validate() }},
		{RelationBytesMax, func(s string) error { return Subject{"g", "1", s}.Validate() }},
	} {
		if err := c.make(strings.Repeat("a", c.max)); err != nil {
			t.Errorf("%d bytes, the limit: %v", c.max, err)
		}
		if err := c.make(strings.Repeat("a", c.max+1)); !errors.Is(err, ErrName) {
			t.Errorf("one byte above the limit %d: %v, want ErrName", c.max, err)
		}
	}
	tuple := Tuple{Object{"doc", "1"}, "viewer", Subject{Type: "user", ID: "1"}, "c", strings.Repeat("a", ContextBytesMax), 0}
	if err := tuple.Validate(); err != nil {
		t.Error(err)
	}
	tuple.Context += "a"
	if err := tuple.Validate(); !errors.Is(err, ErrName) {
		t.Error(err)
	}
}

func TestCanonical(t *testing.T) {
	for in, want := range map[string]string{
		`{ "b": 1, "a": [ 1.50, "x<y" ] }`: `{"a":[1.50,"x<y"],"b":1}`,
		`{}`:                               "",
		`{"n":12345678901234567890}`:       `{"n":12345678901234567890}`,
	} {
		if got, err := Canonical([]byte(in)); err != nil || got != want {
			t.Errorf("Canonical(%s) = %s, %v; want %s", in, got, err, want)
		}
	}
	for _, in := range []string{"", "{", "{} {}", "nope"} {
		if _, err := Canonical([]byte(in)); !errors.Is(err, ErrName) {
			t.Errorf("Canonical(%q): error %v, want ErrName", in, err)
		}
	}
}

func TestFilter(t *testing.T) {
	k := Key{Object{"doc", "1"}, "viewer", Subject{"group", "eng", "member"}}
	plain := Key{Object{"doc", "1"}, "viewer", Subject{Type: "user", ID: "anne"}}
	for _, c := range []struct {
		f                 Filter
		userset, onePlain bool
	}{
		{Filter{}, true, true},
		{Filter{ObjectType: "doc", ObjectID: "1", Relation: "viewer"}, true, true},
		{Filter{ObjectType: "folder"}, false, false},
		{Filter{ObjectID: "2"}, false, false},
		{Filter{Relation: "owner"}, false, false},
		{Filter{SubjectType: "group"}, true, false},
		{Filter{SubjectID: "anne"}, false, true},
		{Filter{SubjectRelation: "member"}, true, false},
		{Filter{SubjectPlain: true}, false, true},
	} {
		if c.f.Match(k) != c.userset || c.f.Match(plain) != c.onePlain {
			t.Errorf("%+v does not select as expected", c.f)
		}
	}
}

func TestExpired(t *testing.T) {
	for _, c := range []struct {
		expires, now Time
		want         bool
	}{{0, 5, false}, {6, 5, false}, {5, 5, true}, {4, 5, true}} {
		if got := (Tuple{Expires: c.expires}).Expired(c.now); got != c.want {
			t.Errorf("expiry %d at time %d: Expired() = %v", c.expires, c.now, got)
		}
	}
	if TimeOf(Time(0).Time()) != 0 || TimeOf(Time(7).Time()) != 7 {
		t.Error("TimeOf does not undo Time")
	}
}

// String returns a text from which Parse reads the same tuple.
func FuzzParse(f *testing.F) {
	f.Add("doc:1#viewer@user:anne")
	f.Add(`doc:1#viewer@g:x#m with c {"a":1} until 2026-11-21T21:00:00Z`)
	f.Fuzz(func(t *testing.T, s string) {
		tuple, err := Parse(s)
		if err != nil {
			return
		}
		again, err := Parse(tuple.String())
		if err != nil || again != tuple {
			t.Fatalf("%q is read as %+v, its String() as %+v, %v", s, tuple, again, err)
		}
	})
}

// A time outside the range of Time stays in the past or in the future, and
// ParseExpiry rejects it.
func TestTimesOutOfRange(t *testing.T) {
	t.Parallel()
	now := TimeOf(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	for text, past := range map[string]bool{"0001-01-01T00:00:01Z": true, "1600-01-01T00:00:00Z": true, "1677-09-21T00:00:00Z": true,
		"2262-04-12T00:00:00Z": false, "9999-12-31T23:59:59Z": false} {
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t.Fatal(err)
		}
		if got := TimeOf(at); got < now != past || got-1 < now != past {
			t.Errorf("TimeOf(%s) = %d, which is on the wrong side of the present", text, got)
		}
		if e, err := ParseExpiry(text); !errors.Is(err, ErrName) {
			t.Errorf("ParseExpiry(%s) = %d, %v; want ErrName", text, e, err)
		}
	}
	for _, text := range []string{"", "tomorrow", "0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "1970-01-01T01:00:00+01:00"} {
		if e, err := ParseExpiry(text); !errors.Is(err, ErrName) || e != 0 {
			t.Errorf("ParseExpiry(%q) = %d, %v; want ErrName", text, e, err)
		}
	}
	for _, text := range []string{"1969-12-31T23:59:59.999999999Z", "1970-01-01T00:00:00.000000001Z", "2262-04-11T23:47:16.854775807Z"} {
		e, err := ParseExpiry(text)
		if err != nil || e.Time().Format(time.RFC3339Nano) != text {
			t.Errorf("ParseExpiry(%s) = %d, %v", text, e, err)
		}
	}
	if _, err := Parse("doc:1#viewer@user:anne until 0001-01-01T00:00:00Z"); !errors.Is(err, ErrName) {
		t.Error("Parse accepts an expiry in the year 1:", err)
	}
}
