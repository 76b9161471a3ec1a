package tuplefile_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/cmd/internal/tuplefile"
	"github.com/ostiary/ostiary/rel"
)

// fgaTuples are the tuples of every text in TestFGAOutputs.
const fgaTuples = `document:1#viewer@user:anne
document:1#viewer@group:eng#member
document:2#viewer@user:* with in_office {"zone":"UTC"}`

// Read accepts what OpenFGA's command fga prints: "tuple read" in its four formats
// and "store export".
func TestFGAOutputs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		format tuplefile.Format
		text   string
	}{
		"tuple read": {tuplefile.JSON, `{
  "continuation_token":"",
  "tuples": [
    {"key": {"object":"document:1","relation":"viewer","user":"user:anne"}, "timestamp":"2026-01-02T15:04:05.123Z"},
    {"key": {"object":"document:1","relation":"viewer","user":"group:eng#member"}, "timestamp":"2026-01-02T15:04:05.123Z"},
    {"key": {"condition":{"context":{"zone":"UTC"},"name":"in_office"},"object":"document:2","relation":"viewer","user":"user:*"}, "timestamp":"2026-01-02T15:04:05Z"}
  ]
}
`},
		"pages of the API": {tuplefile.JSON, `{"tuples":[{"key":{"user":"user:anne","relation":"viewer","object":"document:1","condition":null},"timestamp":"2026-01-02T15:04:05Z"},` +
			`{"key":{"user":"group:eng#member","relation":"viewer","object":"document:1"},"timestamp":"2026-01-02T15:04:05Z"}],"continuation_token":"next"}` +
			`{"tuples":[{"key":{"user":"user:*","relation":"viewer","object":"document:2","condition":{"name":"in_office","context":{"zone":"UTC"}}},"timestamp":"2026-01-02T15:04:05Z"}],"continuation_token":""}`},
		"simple-json": {tuplefile.JSON, `[
  {"object":"document:1","relation":"viewer","user":"user:anne"},
  {"object":"document:1","relation":"viewer","user":"group:eng#member"},
  {"condition":{"context":{"zone":"UTC"},"name":"in_office"},"object":"document:2","relation":"viewer","user":"user:*"}
]`},
		"tuple changes": {tuplefile.JSON, `{
  "changes": [
    {"operation":"TUPLE_OPERATION_WRITE","timestamp":"2026-01-02T15:04:05.123Z","tuple_key":{"object":"document:1","relation":"viewer","user":"user:bob"}},
    {"operation":"TUPLE_OPERATION_WRITE","timestamp":"2026-01-02T15:04:05.123Z","tuple_key":{"object":"document:1","relation":"viewer","user":"user:anne"}},
    {"operation":"TUPLE_OPERATION_WRITE","timestamp":"2026-01-02T15:04:05.123Z","tuple_key":{"object":"document:2","relation":"viewer","user":"user:*"}},
    {"operation":"TUPLE_OPERATION_DELETE","timestamp":"2026-01-02T15:04:05.123Z","tuple_key":{"object":"document:1","relation":"viewer","user":"user:bob"}},
    {"operation":"TUPLE_OPERATION_DELETE","timestamp":"2026-01-02T15:04:05.123Z","tuple_key":{"object":"document:2","relation":"viewer","user":"user:*"}}
  ],
  "continuation_token":"next"
}
{"continuation_token":"last","changes":[
    {"operation":"TUPLE_OPERATION_WRITE","timestamp":"2026-01-02T15:04:05.123Z","tuple_key":{"object":"document:1","relation":"viewer","user":"group:eng#member"}},
    {"operation":"TUPLE_OPERATION_WRITE","timestamp":"2026-01-02T15:04:05.123Z","tuple_key":{"condition":{"context":{"zone":"UTC"},"name":"in_office"},"object":"document:2","relation":"viewer","user":"user:*"}}
]}`},
		// The command fga leaves the column user_relation empty.
		"csv": {tuplefile.CSV, `user_type,user_id,user_relation,relation,object_type,object_id,condition_name,condition_context
user,anne,,viewer,document,1,,
group,eng#member,,viewer,document,1,,
user,*,,viewer,document,2,in_office,"{""zone"":""UTC""}"
`},
		"yaml": {tuplefile.YAML, `tuples:
    - key:
        user: user:anne
        relation: viewer
        object: document:1
      timestamp: 2026-01-02T15:04:05.123Z
    - key:
        user: group:eng#member
        relation: viewer
        object: document:1
      timestamp: 2026-01-02T15:04:05.123Z
    - key:
        user: user:*
        relation: viewer
        object: document:2
        condition:
            name: in_office
            context:
                zone: UTC
      timestamp: 2026-01-02T15:04:05.123Z
continuation_token: ""
`},
		"store export": {tuplefile.YAML, `name: FGA Demo Store
model: |+
    model
      schema 1.1
    type user

model_file: ""
tuples:
    - user: user:anne
      relation: viewer
      object: document:1
    - user: group:eng#member
      relation: viewer
      object: document:1
    - user: user:*
      relation: viewer
      object: document:2
      condition:
        name: in_office
        context:
            zone: UTC
tuple_file: ""
tests:
    - name: Tests
      check:
        - user: user:anne
          object: document:1
          assertions:
            viewer: true
`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tuples, err := tuplefile.ReadAll(strings.NewReader(c.text), c.format)
			if err != nil {
				t.Fatal(err)
			}
			var lines []string
			for _, tuple := range tuples {
				lines = append(lines, tuple.String())
			}
			if got := strings.Join(lines, "\n"); got != fgaTuples {
				t.Errorf("read\n%s\nwant\n%s", got, fgaTuples)
			}
		})
	}
}

// Read refuses a file that holds a part of the tuples, or something else.
func TestIncompleteOutputs(t *testing.T) {
	t.Parallel()
	for text, format := range map[string]tuplefile.Format{
		`{"tuples":[],"continuation_token":"next"}`:              tuplefile.JSON,
		`{"tuples":[{"user":"user:a"}],"continuation_token":""}`: tuplefile.JSON,
		`{"tuples":[{"key":{"user":"user:a"}}]}`:                 tuplefile.JSON,
		`{"tuples":[]`:                                           tuplefile.JSON,
		`{"tuples":[],"other":1}`:                                tuplefile.JSON,
		`{"changes":[{"operation":"TUPLE_OPERATION_DELETE","tuple_key":{"object":"d:1","relation":"v","user":"u:1"}}]}`:                                                                                               tuplefile.JSON,
		`{"changes":[{"operation":"TUPLE_OPERATION_MOVE","tuple_key":{"object":"d:1","relation":"v","user":"u:1"}}]}`:                                                                                                 tuplefile.JSON,
		`{"changes":[{"tuple_key":{"object":"d:1","relation":"v","user":"u:1"}}]}`:                                                                                                                                    tuplefile.JSON,
		`{"changes":[{"operation":"TUPLE_OPERATION_WRITE","tuple_key":{"object":"d:1","relation":"v"}}]}`:                                                                                                             tuplefile.JSON,
		`{"changes":[{"operation":"TUPLE_OPERATION_WRITE","tuple_key":{"object":"d:1","relation":"v","user":"u:1"}},{"operation":"TUPLE_OPERATION_WRITE","tuple_key":{"object":"d:1","relation":"v","user":"u:1"}}]}`: tuplefile.JSON,
		"tuples: []\ncontinuation_token: next\n": tuplefile.YAML,
		"tuples: []\nother: 1\n":                 tuplefile.YAML,
		"name: x\ntuple_file: tuples.csv\n":      tuplefile.YAML,
		"tuples: 5\n":                            tuplefile.YAML,
		"- key:\n    user: user:a\n  other: 1\n": tuplefile.YAML,
		"user_type,user_id,user_relation,relation,object_type,object_id\ngroup,eng#member,owner,viewer,document,1\n": tuplefile.CSV,
	} {
		if _, err := tuplefile.ReadAll(strings.NewReader(text), format); !errors.Is(err, tuplefile.ErrTuple) && !errors.Is(err, rel.ErrName) {
			t.Errorf("%s: error %v, want ErrTuple or ErrName", text, err)
		}
	}
}

// A CSV file has the column expires only if a tuple expires, because OpenFGA's
// command refuses a column that it does not know.
func TestExpiresColumn(t *testing.T) {
	t.Parallel()
	const fgaHeader = "user_type,user_id,user_relation,relation,object_type,object_id,condition_name,condition_context"
	for _, n := range []int{0, 1, 30_000} { // the last one is more than is kept in memory
		for _, expiring := range []int{-1, 0, n / 2, n - 1} {
			var tuples []rel.Tuple
			for i := range n {
				tuple := rel.Tuple{Object: rel.Object{Type: "document", ID: strings.Repeat("x", i%50) + "1"}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "anne"}}
				if i == 0 {
					tuple.Condition, tuple.Context = "c", `{"a":"x, \"y\""}`
				}
				if i == expiring {
					tuple.Expires, _ = rel.ParseExpiry("2040-01-01T00:00:00Z")
				}
				tuples = append(tuples, tuple)
			}
			var out bytes.Buffer
			w, err := tuplefile.NewWriter(&out, tuplefile.CSV)
			if err != nil {
				t.Fatal(err)
			}
			for _, tuple := range tuples {
				if err := w.Write(tuple); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			want := fgaHeader
			if expiring >= 0 && expiring < n {
				want += ",expires"
			}
			if header, _, _ := strings.Cut(out.String(), "\n"); header != want {
				t.Errorf("%d tuples, tuple %d expires: header %q, want %q", n, expiring, header, want)
			}
			back, err := tuplefile.ReadAll(&out, tuplefile.CSV)
			if err != nil || len(back) != n {
				t.Fatalf("%d tuples, tuple %d expires: read %d back, error %v", n, expiring, len(back), err)
			}
			for i := range back {
				if back[i] != tuples[i] {
					t.Fatalf("tuple %d is %v, want %v", i, back[i], tuples[i])
				}
			}
		}
	}
}
