package doortest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/ostiary/ostiary/door"
)

// echo returns a small door: notes that can be written and read, and gRPC
// health checks.
func echo(t testing.TB) *door.Door {
	notes := map[string]string{}
	reply := func(w http.ResponseWriter, code int, format string, args ...any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		fmt.Fprintf(w, format, args...)
	}
	d := &door.Door{Name: "echo", Prefixes: []string{"/notes"}}
	d.Routes = []door.Route{
		{Method: "POST", Pattern: "/notes", Name: "Put", Serve: func(w http.ResponseWriter, r *http.Request, _ door.Params) {
			body, err := door.ReadBody(r)
			if err != nil {
				reply(w, http.StatusBadRequest, `{"error":%q}`, err.Error())
				return
			}
			defer body.Free()
			const id = "01HVMMBCMGZNT3SED4Z17ECXCA"
			notes[id] = string(body.Bytes)
			w.Header().Set("X-Id", id)
			reply(w, http.StatusCreated, `{"id":%q,"made":"2026-11-22T00:38:00.25Z","n":%d,"tags":["b","a"],"none":null}`, id, len(body.Bytes))
		}},
		{Method: "GET", Pattern: "/notes/{id}", Name: "Get", Serve: func(w http.ResponseWriter, r *http.Request, p door.Params) {
			if note, ok := notes[p.At(0)]; ok {
				reply(w, http.StatusOK, "%s", note)
				return
			}
			reply(w, http.StatusNotFound, `{"error":"there is no note %s"}`, p.At(0))
		}},
		{Method: "GET", Pattern: "/notes/{id}/text", Name: "Text", Serve: func(w http.ResponseWriter, r *http.Request, p door.Params) {
			io.WriteString(w, "plain "+r.Header.Get("X-Word")+"\n")
		}},
		{Method: "GET", Pattern: "/notes/{id}/stream", Name: "Stream", Streams: true, Serve: func(w http.ResponseWriter, r *http.Request, p door.Params) {
			for i := range 3 {
				fmt.Fprintf(w, "{\"result\":{\"n\":%d}}\n", i)
			}
		}},
	}
	h := health.NewServer()
	h.SetServingStatus("notes", healthpb.HealthCheckResponse_NOT_SERVING)
	d.Services = []door.Service{{Desc: &healthpb.Health_ServiceDesc, Impl: odd{h}}}
	return d
}

// odd is a health server that returns a code outside of the standard ones for
// the service "odd".
type odd struct{ *health.Server }

func (o odd) Check(ctx context.Context, r *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	if r.Service == "odd" {
		return nil, status.Error(codes.Code(2000), "odd")
	}
	return o.Server.Check(ctx, r)
}

func TestPlay(t *testing.T) { Run(t, "testdata/*.http", echo) }

// TestDiff checks the description of every kind of difference.
func TestDiff(t *testing.T) {
	t.Parallel()
	const body = `{"id":"01HVMMBCMGZNT3SED4Z17ECXCA","at":"2026-11-22T00:38:00Z","n":1,"list":["a","b"],"x":null}`
	p := &player{vars: map[string]string{}}
	got := &response{status: "200", header: http.Header{"X-A": {"1"}}, body: body}
	for _, c := range []struct {
		want, why string
	}{
		{"200\n", ""},
		{"201\n", "status 200, want 201"},
		{"200\nX-A: 1\nX-B: <none>\n", ""},
		{"200\nX-A: 2\n", "header X-A"},
		{"200\nX-A: <none>\n", "header X-A"},
		{"200\nX-B: <any>\n", "header X-B"},
		{"200\n\n", "body is not"},
		{"200\n\n" + body, ""},
		{"200\n\n" + body + body, "1 JSON values, want 2"},
		{"200\n\n" + strings.Replace(body, `"n":1`, `"n":1.0`, 1), "$.n: 1, want 1.0"},
		{"200\n\n" + strings.Replace(body, `"n":1`, `"n":"<number>"`, 1), ""},
		{"200\n\n" + strings.Replace(body, `"n":1`, `"n":"1"`, 1), "$.n: 1, want \"1\""},
		{"200\n\n" + strings.Replace(body, `"x":null`, `"x":"<value>"`, 1), ""},
		{"200\n\n" + strings.Replace(body, `,"x":null`, ``, 1), `unexpected member "x"`},
		{"200\n\n" + strings.Replace(body, `"x":null`, `"x":null,"y":1`, 1), `no member "y"`},
		{"200\n\n" + strings.Replace(body, `["a","b"]`, `["b","a"]`, 1), "$.list[0]"},
		{"200\n\n" + strings.Replace(body, `["a","b"]`, `["<in any order>","b","a"]`, 1), ""},
		{"200\n\n" + strings.Replace(body, `["a","b"]`, `["<in any order>","b","b"]`, 1), "no item matches"},
		{"200\n\n" + strings.Replace(body, `["a","b"]`, `["a"]`, 1), "2 items, want 1"},
		{"200\n\n" + strings.Replace(body, `01HVMMBCMGZNT3SED4Z17ECXCA`, `<ulid:id>`, 1), ""},
		{"200\n\n" + strings.Replace(body, `01HVMMBCMGZNT3SED4Z17ECXCA`, `${id}`, 1), ""},
		{"200\n\n" + strings.Replace(body, `01HVMMBCMGZNT3SED4Z17ECXCA`, `${other}`, 1), "$.id"},
		{"200\n\n" + strings.Replace(body, `01HVMMBCMGZNT3SED4Z17ECXCA`, `<uuid>`, 1), "$.id"},
		{"200\n\n" + strings.Replace(body, `2026-11-22T00:38:00Z`, `<time>`, 1), ""},
	} {
		sc, err := parse("GET /\n----\n" + c.want)
		if err != nil {
			t.Fatalf("%q: %v", c.want, err)
		}
		if why := p.diff(&sc.steps[0], got); (c.why == "") != (why == "") || !strings.Contains(why, c.why) {
			t.Errorf("%s\ngot difference %q, want %q", c.want, why, c.why)
		}
	}
	for _, body := range []string{`{"a":1,"a":1}`, `{"a":`, `[1`, `{"a":1}}`, strings.Repeat("[", depthMax+2)} {
		if _, err := readValues(body); err == nil {
			t.Errorf("%.20q is accepted", body)
		}
	}
}

// TestRewrite checks that a rewrite fills in a script that expects nothing, so
// that it passes with other ids and times, and that it leaves a script that
// passes as it is, with or without a body.
func TestRewrite(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/notes.http")
	if err != nil {
		t.Fatal(err)
	}
	sc, err := parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	p := Suite{Door: echo}.player(t)
	for i := range sc.steps {
		st := &sc.steps[i]
		got, err := p.send(st)
		if err != nil {
			t.Fatal(err)
		}
		before := *st
		p.rewrite(st, got)
		if st.wantBody != before.wantBody || st.status != before.status {
			t.Errorf("line %d: rewritten to\n%s", st.line, st.wantBody)
		}
		st.comparesBody, st.wantBody = false, ""
		p.rewrite(st, got)
		if st.comparesBody {
			t.Errorf("line %d: a step that compares the status alone gets the body\n%s", st.line, st.wantBody)
		}
		st.status = ""
		p.rewrite(st, got)
		if why := p.diff(st, got); why != "" {
			t.Errorf("line %d: %s", st.line, why)
		}
		if strings.Contains(st.wantBody, "01HV") || strings.Contains(st.wantBody, "2026") {
			t.Errorf("line %d: a volatile value was kept:\n%s", st.line, st.wantBody)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "GET /", "----\n200", "GET\n----\n200", "GET x\n----\n", "GET /a b\n----\n", "GET /\nX\n----\n",
		"GET /\n----\n200 OK\n", "GET /\n----\n200\nbody\n", "GET /\n----\n----\n", "# only\n----\n"} {
		if _, err := parse(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// FuzzParse checks that parse reads back what String prints.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.http")
	if err != nil || len(files) == 0 {
		f.Fatalf("no scripts in testdata: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		sc, err := parse(text)
		if err != nil {
			return
		}
		printed := sc.String()
		again, err := parse(printed)
		if err != nil {
			t.Fatalf("%v\n%q\n%q", err, text, printed)
		}
		if got := again.String(); got != printed {
			t.Fatalf("%q\n%q\n%q", text, printed, got)
		}
	})
}

// FuzzValue checks that a printed value is valid JSON and reads back the same.
func FuzzValue(f *testing.F) {
	f.Add(`{"a":[1,"<ulid>",null,true,{"b":"\u2028"}]} 2`)
	f.Fuzz(func(t *testing.T, text string) {
		values, err := readValues(text)
		if err != nil {
			return
		}
		p := &player{vars: map[string]string{}}
		for _, v := range values {
			again, err := readValues(v.String())
			if err != nil || len(again) != 1 || !json.Valid([]byte(v.String())) {
				t.Fatalf("%q: %v", v, err)
			}
			if why := p.diffValue(v, again[0], "$"); why != "" && !strings.Contains(text, "<") && !strings.Contains(text, "$") && !strings.Contains(text, `\`) {
				t.Fatalf("%q: %s", v, why)
			}
		}
	})
}
