package tuplefile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/ostiary/ostiary/rel"
)

func mustParse(t testing.TB, s string) rel.Tuple {
	t.Helper()
	x, err := rel.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func sample(t testing.TB) []rel.Tuple {
	return []rel.Tuple{
		mustParse(t, "doc:1#viewer@user:anne"),
		mustParse(t, "doc:2#viewer@user:*"),
		mustParse(t, "doc:a,\"b\"#viewer@group:eng#member"),
		mustParse(t, `doc:3#viewer@user:bob with office {"at":[1,2.5,1e3,12345678901234567890],"in":{"a":null,"b":true},"x":"<&>"}`),
		mustParse(t, `doc:4#viewer@user:bob with office until 2030-01-02T03:04:05.000000006Z`),
		mustParse(t, `doc:5#viewer@user:0x10`),
	}
}

func write(t testing.TB, f Format, tuples []rel.Tuple) string {
	t.Helper()
	var buf bytes.Buffer
	w, err := NewWriter(&buf, f)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range tuples {
		if err := w.Write(x); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.String()
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, f := range []Format{CSV, JSON, JSONL, YAML} {
		for _, tuples := range [][]rel.Tuple{nil, sample(t)[:1], sample(t)} {
			text := write(t, f, tuples)
			got, err := ReadAll(iotest.OneByteReader(strings.NewReader(text)), f)
			if err != nil || fmt.Sprint(got) != fmt.Sprint(tuples) {
				t.Errorf("%s: %v\nwant %s\ngot  %s\n%s", f, err, tuples, got, text)
			}
		}
	}
}

func TestCSV(t *testing.T) {
	t.Parallel()
	const header = "user_type,user_id,user_relation,relation,object_type,object_id,condition_name,condition_context\n"
	for _, c := range []struct{ name, in, want string }{
		{"empty file", "", "[]"},
		{"only a header", header, "[]"},
		{"as the fga command line documents it", header + "folder,product,,parent,folder,product-2021,inOfficeIP,\"{\"\"ip_addr\"\":\"\"10.0.0.1\"\"}\"\nteam,fga,member,viewer,folder,product-2021,,\nuser,anne,,owner,folder,product,inOfficeIP,\n",
			`[folder:product-2021#parent@folder:product with inOfficeIP {"ip_addr":"10.0.0.1"} folder:product-2021#viewer@team:fga#member folder:product#owner@user:anne with inOfficeIP]`},
		{"other order, CR LF, byte order mark, blanks", "\ufeffobject_type, object_id ,relation,user_id,user_type\r\ndoc,1,viewer,anne,user\r\n\r\n", "[doc:1#viewer@user:anne]"},
		{"no newline at the end", "object_type,object_id,relation,user_id,user_type\ndoc,1,viewer,anne,user", "[doc:1#viewer@user:anne]"},
		{"newline in a context", header + "user,1,,r,doc,1,c,\"{\"\"a\"\":\n1}\"\nuser,2,,r,doc,1,,\n", `[doc:1#r@user:1 with c {"a":1} doc:1#r@user:2]`},
		{"column twice", "user_id,user_id\n", `line or tuple 1: not a tuple: duplicate column "user_id"`},
		{"unknown column", "user_type,user\n", `no column is called "user"`},
		{"missing column", "user_type,user_id\n", `column "relation" is missing`},
		{"context without its name's column", "user_type,user_id,relation,object_type,object_id,condition_context\n", "requires column condition_name"},
		{"too few fields", header + "user,1\n", "line or tuple 2: not a tuple: 2 fields, expected 8 as in the header"},
		{"too many fields", header + "user,1,,r,doc,1,,,,,,,,,\n", "line or tuple 2: not a tuple: 15 fields, expected 8 as in the header"},
		{"open quote", header + "user,\"1,,r,doc,1,,\n", `line or tuple 2: not a tuple: line 2, column 20: extraneous or missing " in quoted-field`},
		{"text after a quote", header + "user,\"1\"x,,r,doc,1,,\n", `line or tuple 2: not a tuple: line 2, column 8: extraneous or missing " in quoted-field`},
		{"stray quote", header + "user,1\"\",,r,doc,1,,\n", `line or tuple 2: not a tuple: line 2, column 7: bare " in non-quoted-field`},
		{"bad line after good ones", header + "user,1,,r,doc,1,,\nuser,,,r,doc,1,,\n", "line or tuple 3: invalid name: empty id"},
		{"context that is a list", header + "user,1,,r,doc,1,c,[]\n", "not a JSON object"},
		{"context without condition", header + "user,1,,r,doc,1,,{\"a\":1}\n", `bare " in non-quoted-field`},
		{"bad expiry", "object_type,object_id,relation,user_id,user_type,expires\ndoc,1,viewer,anne,user,tomorrow", "expected RFC 3339"},
	} {
		got, err := ReadAll(strings.NewReader(c.in), CSV)
		text := fmt.Sprint(got)
		if err != nil {
			text = err.Error()
		}
		if err == nil && text != c.want || err != nil && !strings.Contains(text, c.want) {
			t.Errorf("%s:\nwant %s\ngot  %s", c.name, c.want, text)
		}
	}
}

func TestRecordsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		f        Format
		in, want string
		kind     error
	}{
		{JSON, `[{"user":"user:1","relation":"r","object":"doc:1"},{"user":"1"}]`, "line or tuple 2", rel.ErrName},
		{JSON, `[{"user":"user:1","relation":"r","object":"doc:1","condtion":{"name":"c"}}]`, "condtion", ErrTuple},
		{JSON, `[{"user":"user:1","relation":"r","object":"doc:1","condition":{}}]`, "has no name", ErrTuple},
		{JSON, `[{"user":"user:1","relation":"r","object":"doc:1"}`, "unexpected", ErrTuple},
		{JSON, `[] []`, "data after the list", ErrTuple},
		{JSON, `7`, "line or tuple 1", ErrTuple},
		{JSON, strings.Repeat("[", 100_000), "line or tuple 1", ErrTuple},
		{JSON, `[{"user":"user:1","relation":"r","object":"doc:1","condition":{"name":"c","context":{"a":` + strings.Repeat("[", 100_000) + `}}}]`, "", ErrTuple},
		{JSON, `["` + strings.Repeat("x", RecordBytesMax+5000) + `"]`, "a record has more than", ErrBound},
		{JSONL, "{\"user\":\"user:1\",\"relation\":\"r\",\"object\":\"doc:1\"}\nx", "line or tuple 2", ErrTuple},
		{YAML, "- user: user:1\n  relation: r\n  object: doc:1\n  condtion: {name: c}\n", "condtion", ErrTuple},
		{YAML, "a: b", "", ErrTuple},
		{YAML, strings.Repeat("[", 100_000), "", ErrTuple},
		{YAML, "a: &a [x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c]\ne: [*d,*d,*d,*d,*d,*d,*d]\n", "", ErrTuple},
		{Format("x"), "", "unknown tuple file format", ErrFormat},
	} {
		_, err := ReadAll(strings.NewReader(c.in), c.f)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %.60s: %.300v", c.f, c.in, err)
		}
	}
}

func TestRecordBound(t *testing.T) {
	t.Parallel()
	const header = "user_type,user_id,relation,object_type,object_id,condition_name,condition_context\n"
	for _, over := range []int{0, 1} {
		line := "user,1,r,doc,1,c,{"
		line += strings.Repeat(" ", RecordBytesMax-len(line)-1+over) + "}"
		for _, text := range []string{header + line, header + line + "\n", header + line + "\nuser,1,r,doc,2,,\n"} {
			for name, r := range map[string]io.Reader{"at once": strings.NewReader(text), "byte by byte": iotest.OneByteReader(strings.NewReader(text)), "the end with the last bytes": iotest.DataErrReader(strings.NewReader(text))} {
				_, err := ReadAll(r, CSV)
				if errors.Is(err, ErrBound) != (over == 1) || over == 0 && err != nil {
					t.Errorf("%d over, read %s: %v", over, name, err)
				}
			}
		}
	}
	// Newlines in a quote that is never closed must not make it slow.
	_, err := ReadAll(strings.NewReader(header+`"`+strings.Repeat("\n", 1<<20)), CSV)
	if !errors.Is(err, ErrBound) {
		t.Error(err)
	}
}

func TestReaderFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk is gone")
	for _, f := range []Format{CSV, JSON, JSONL, YAML} {
		text := write(t, f, sample(t))
		_, err := ReadAll(io.MultiReader(strings.NewReader(text[:len(text)/2]), iotest.ErrReader(broken)), f)
		if !errors.Is(err, broken) {
			t.Errorf("%s: %v", f, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	for i, format := range []Format{CSV, JSON, JSONL, YAML} {
		f.Add(byte(i), []byte(write(f, format, sample(f))))
	}
	f.Fuzz(func(t *testing.T, which byte, text []byte) {
		formats := []Format{CSV, JSON, JSONL, YAML}
		tuples, err := ReadAll(bytes.NewReader(text), formats[which%4])
		if err != nil {
			return
		}
		for _, format := range formats {
			back, err := ReadAll(strings.NewReader(write(t, format, tuples)), format)
			if err != nil || fmt.Sprint(back) != fmt.Sprint(tuples) {
				t.Fatalf("%s: %v\nwas %s\nis  %s", format, err, tuples, back)
			}
		}
	})
}

// BenchmarkCSV reads lines like those of the document-sharing benchmark data,
// one tuple an operation.
func BenchmarkCSV(b *testing.B) {
	var text bytes.Buffer
	text.WriteString("user_type,user_id,user_relation,relation,object_type,object_id,condition_name,condition_context\n")
	for i := range 100_000 {
		fmt.Fprintf(&text, "user,u%d,,viewer,document,d%d,,\n", i%1000, i)
	}
	b.ReportAllocs()
	b.SetBytes(int64(text.Len() / 100_000))
	for n := 0; n < b.N; {
		for _, err := range Read(bytes.NewReader(text.Bytes()), CSV) {
			if err != nil {
				b.Fatal(err)
			}
			if n++; n >= b.N {
				break
			}
		}
	}
}
