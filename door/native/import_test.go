package native_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ostiary/ostiary"
)

// TestImportLines checks how a stream is divided into lines, and its counts.
func TestImportLines(t *testing.T) {
	t.Parallel()
	w := open(t, ostiary.Options{})
	path := w.acme(t)
	const tuple = `{"tuple":{"object":"document:%d","relation":"owner","subject":"user:anne"}}`
	one, two := fmt.Sprintf(tuple, 1), fmt.Sprintf(tuple, 2)
	const end = `{"end":{"tuples":2,"attributes":0}}`
	for name, text := range map[string]string{
		"newlines":         one + "\n" + two + "\n" + end + "\n",
		"CRLF":             one + "\r\n" + two + "\r\n" + end + "\r\n",
		"no last newline":  one + "\n" + two + "\n" + end,
		"empty lines":      "\n\r\n\n" + one + "\n\n\r\n\r\r\n" + two + "\n" + end + "\n\n\r\n",
		"white space":      "  " + one + "  \n\t" + two + "\t\n " + end + " \n",
		"more end members": one + "\n" + two + "\n" + `{"end":{"tuples":2,"attributes":0,"token":"x","later":{}}}`,
	} {
		if got := w.do(t, "POST", path+"/import?on_duplicate=ignore", text); fmt.Sprint(got["read"]) != "2" {
			t.Errorf("%s: %v", name, got)
		}
	}
	for name, c := range map[string]struct {
		text string
		code string
		want string
	}{
		"too few tuples":    {one + "\n" + end, "malformed", "line 2: "},
		"too many tuples":   {one + "\n" + two + "\n" + fmt.Sprintf(tuple, 3) + "\n" + end, "malformed", "line 4: "},
		"attributes":        {one + "\n" + two + "\n" + `{"end":{"tuples":2,"attributes":1}}`, "malformed", "the count differs"},
		"more after end":    {one + "\n" + two + "\n" + end + "\n" + one, "invalid_request", "line 4: unexpected data after the end line"},
		"error of export":   {one + "\n" + `{"error":{"code":"x"}}`, "malformed", "the export of this stream failed"},
		"two in a line":     {`{"tuple":{"object":"document:1","relation":"owner","subject":"user:anne"},"end":{"tuples":1,"attributes":0}}`, "malformed", "expected one of"},
		"nothing in a line": {"{}", "malformed", "expected one of"},
		"another member":    {`{"other":1}`, "malformed", "unknown member"},
		"empty lines count": {"\n\n" + one + "\n{}", "malformed", "line 4: "},
	} {
		rec := w.send(t, "POST", path+"/import?on_duplicate=ignore", c.text)
		got := decode(t, rec.Body.Bytes())
		if rec.Code/100 == 2 || got["code"] != c.code || !strings.Contains(fmt.Sprint(got["message"]), c.want) {
			t.Errorf("%s: %d %s, want %s %q", name, rec.Code, rec.Body, c.code, c.want)
		}
	}
}

// TestImportAttributes imports as many attributes as one write takes, one less and
// one more. If an attribute occurs twice, the later value counts.
func TestImportAttributes(t *testing.T) {
	t.Parallel()
	const batch = 1000
	for _, n := range []int{1, batch - 1, batch, batch + 1, 2*batch + 1} {
		w := open(t, ostiary.Options{})
		w.do(t, "POST", "/stores", `{"name":"a","aliases":{"native":"a"}}`)
		w.do(t, "POST", "/stores/a/schemas", `{"dialect":"permify","source":"entity user {}\nentity doc { attribute level integer }"}`)
		var text strings.Builder
		line := func(id, value int) {
			fmt.Fprintf(&text, `{"attribute":{"object":"doc:%d","name":"level","value":%d}}`+"\n", id, value)
		}
		for i := range n {
			line(i, i)
		}
		line(0, -7)
		line(n-1, -8)
		fmt.Fprintf(&text, `{"end":{"tuples":0,"attributes":%d}}`, n+2)
		got := w.do(t, "POST", "/stores/a/import", text.String())
		if set := fmt.Sprint(got["attributes"]); got["token"] == "" || set == "0" {
			t.Errorf("%d attributes: %v", n, got)
		}
		export := w.send(t, "GET", "/stores/a/export", "").Body.String()
		want := min(n, 2) // of them have the later values
		if n == 1 {
			if !strings.Contains(export, `"value":-8`) {
				t.Errorf("%d attributes: the later value is lost", n)
			}
			continue
		}
		if lines := strings.Count(export, `{"attribute"`); lines != n || strings.Count(export, `"value":-7`)+strings.Count(export, `"value":-8`) != want {
			t.Errorf("%d attributes: %d lines in the export, %d of the later values", n, lines, strings.Count(export, `"value":-`))
		}
	}
}

// TestQuestionBounds checks the smallest and the largest values of the bounds of a
// question.
func TestQuestionBounds(t *testing.T) {
	t.Parallel()
	w := open(t, ostiary.Options{})
	path := w.acme(t)
	const question = `"object":"document:1","relation":"viewer","subject":"user:anne"`
	for _, member := range []string{"depth", "nodes"} {
		for value, ok := range map[string]bool{"0": false, "1": true, "1073741824": true, "1073741825": false} {
			rec := w.send(t, "POST", path+"/check", `{`+question+`,"bounds":{"`+member+`":`+value+`}}`)
			if malformed := strings.Contains(rec.Body.String(), `"malformed"`); malformed == ok {
				t.Errorf("%s %s: %d %s", member, value, rec.Code, rec.Body)
			}
		}
	}
}
