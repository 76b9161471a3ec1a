package message_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/ostiary/ostiary/internal/workshop/golden"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/message"
	"github.com/ostiary/ostiary/policy/status"
	"github.com/ostiary/ostiary/policy/value"
)

// script plays a txtar file whose files come in pairs: a text, and what play
// returns for it.
func script(t *testing.T, file string, play func(name string, text []byte) string) {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(archive.Files) == 0 || len(archive.Files)%2 != 0 {
		t.Fatalf("%s has %d files: expected pairs", file, len(archive.Files))
	}
	for i := 0; i < len(archive.Files); i += 2 {
		in, want := archive.Files[i], &archive.Files[i+1]
		text := strings.TrimSuffix(strings.ReplaceAll(string(in.Data), "$X", message.Namespace), "\n")
		result := strings.ReplaceAll(play(in.Name, []byte(text)), message.Namespace, "$X")
		if !strings.HasSuffix(result, "\n") {
			result += "\n"
		}
		if golden.Rewrite() {
			want.Data = []byte(result)
		} else if string(want.Data) != result {
			t.Errorf("%s: %s\ngot:\n%s\nexpected:\n%s", file, in.Name, result, want.Data)
		}
	}
	if golden.Rewrite() {
		if err := os.WriteFile(file, txtar.Format(archive), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// read reads a request, as JSON if it begins with a brace.
func read(text []byte) (*policy.Request, error) {
	if strings.HasPrefix(string(text), "{") || strings.HasPrefix(string(text), "[") {
		return message.ReadJSON(text)
	}
	return message.ReadXML(text)
}

func TestRequests(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"testdata/requests.txtar", "testdata/refused.txtar"} {
		script(t, file, func(name string, text []byte) string {
			q, err := read(text)
			if err == nil {
				checkRequest(t, name, q)
				return show(q)
			}
			var s *status.Error
			if !errors.As(err, &s) || s.Code != status.SyntaxError || q != nil {
				t.Errorf("%s: request %v, error %#v: expected a syntax-error", name, q, err)
			}
			return err.Error()
		})
	}
}

// show returns a request as a text of one line for each value.
func show(q *policy.Request) string {
	var b strings.Builder
	if q.ReturnPolicyIDs || q.Combined {
		fmt.Fprintf(&b, "policy ids %v, combined %v\n", q.ReturnPolicyIDs, q.Combined)
	}
	for _, c := range q.Categories {
		fmt.Fprintf(&b, "category %s", c.Name)
		if c.ID != "" {
			fmt.Fprintf(&b, ", id %s", c.ID)
		}
		b.WriteString("\n")
		if c.Content != nil {
			fmt.Fprintf(&b, "  content %s\n", c.Content.AppendXML(nil))
		}
		for _, a := range c.Attributes {
			for _, v := range a.Values {
				fmt.Fprintf(&b, "  %s = %s %q", a.ID, v.Type(), v.Text())
				if x, ok := v.XPath(); ok {
					fmt.Fprintf(&b, " in %s with %v", x.Category, x.Namespaces)
				}
				if a.Issuer != "" {
					fmt.Fprintf(&b, ", issuer %q", a.Issuer)
				}
				if a.IncludeInResult {
					b.WriteString(", included")
				}
				b.WriteString("\n")
			}
		}
	}
	if len(q.References) > 0 {
		fmt.Fprintf(&b, "references %q\n", q.References)
	}
	return b.String()
}

// checkRequest prints a request in both forms and reads it again.
func checkRequest(t *testing.T, name string, q *policy.Request) {
	t.Helper()
	again, err := message.ReadXML(message.PrintXMLRequest(q))
	if err != nil || !same(q, again) {
		t.Errorf("%s: %v\n%s\nexpected:\n%s", name, err, message.PrintXMLRequest(q), show(q))
	}
	text := message.PrintJSONRequest(q)
	split, err := message.ReadJSON(text)
	if err != nil || !same(splitTypes(q), split) {
		t.Errorf("%s: %v\n%s\nexpected:\n%s", name, err, text, show(q))
	}
}

// splitTypes returns the request as JSON expresses it: an attribute has one data
// type.
func splitTypes(q *policy.Request) *policy.Request {
	out := *q
	out.Categories = nil
	for _, c := range q.Categories {
		all := c.Attributes
		c.Attributes = nil
		for _, a := range all {
			for len(a.Values) > 0 {
				n := 1
				for n < len(a.Values) && a.Values[n].Type() == a.Values[0].Type() {
					n++
				}
				part := a
				part.Values, a.Values = a.Values[:n], a.Values[n:]
				c.Attributes = append(c.Attributes, part)
			}
		}
		out.Categories = append(out.Categories, c)
	}
	return &out
}

// same compares requests or results. Empty and nil slices are equal.
func same(a, b any) bool { return fmt.Sprintf("%#v", plain(a)) == fmt.Sprintf("%#v", plain(b)) }

// plain returns a message without pointers and with the texts of its values.
func plain(x any) any {
	switch x := x.(type) {
	case *policy.Request:
		return []any{x.ReturnPolicyIDs, x.Combined, plain(x.Categories), fmt.Sprintf("%q", x.References)}
	case []policy.Category:
		var out []any
		for _, c := range x {
			out = append(out, c.ID, c.Name)
			if c.Content != nil {
				out = append(out, string(c.Content.AppendXML(nil)))
			}
			for _, a := range c.Attributes {
				out = append(out, a.ID, a.Issuer, a.IncludeInResult)
				for _, v := range a.Values {
					out = append(out, plain(v))
				}
			}
		}
		return out
	case []policy.Result:
		var out []any
		for _, r := range x {
			out = append(out, r.Decision, plain(r.Obligations), plain(r.Advice), plain(r.Categories), fmt.Sprintf("%+v", r.Policies))
			if r.Status != nil {
				out = append(out, r.Status.Code, r.Status.Message, fmt.Sprintf("%+v", r.Status.Missing))
			}
		}
		return out
	case []policy.Duty:
		var out []any
		for _, d := range x {
			out = append(out, d.ID)
			for _, a := range d.Arguments {
				out = append(out, a.ID, a.Category, a.Issuer, plain(a.Value))
			}
		}
		return out
	case value.Value:
		path, _ := x.XPath()
		return fmt.Sprintf("%s %q %q", x.Type(), x.Text(), path)
	}
	return x
}

func TestResponses(t *testing.T) {
	t.Parallel()
	script(t, "testdata/responses.txtar", func(name string, text []byte) string {
		results, err := parseResponse(text)
		if err != nil {
			return err.Error()
		}
		checkResponse(t, name, results)
		return string(message.WriteXML(results)) + "\n" + string(message.WriteJSON(results))
	})
}

func parseResponse(text []byte) ([]policy.Result, error) {
	if strings.HasPrefix(string(text), "{") {
		return message.ParseJSONResponse(text)
	}
	return message.ParseXMLResponse(text)
}

// checkResponse writes results in both forms and reads them again.
func checkResponse(t *testing.T, name string, results []policy.Result) {
	t.Helper()
	again, err := message.ParseXMLResponse(message.WriteXML(results))
	if err != nil || !same(results, again) {
		t.Errorf("%s: %v\n%s", name, err, message.WriteXML(results))
	}
	for i := range results {
		split := splitTypes(&policy.Request{Categories: results[i].Categories})
		results[i].Categories = split.Categories
	}
	again, err = message.ParseJSONResponse(message.WriteJSON(results))
	if err != nil || !same(results, again) {
		t.Errorf("%s: %v\n%s", name, err, message.WriteJSON(results))
	}
}

// TestConformanceMessages reads and prints every request and response of the
// conformance data.
func TestConformanceMessages(t *testing.T) {
	t.Parallel()
	folder := os.Getenv("OSTIARY_XACML_CONFORMANCE")
	if folder == "" {
		folder = "../../../shared/xacml-conformance"
	}
	if _, err := os.Stat(folder); err != nil {
		t.Skipf("no conformance data: set OSTIARY_XACML_CONFORMANCE to their folder (%v)", err)
	}
	requests, responses := 0, 0
	err := filepath.WalkDir(folder, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "Request.xml" && d.Name() != "Response.xml" {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if d.Name() == "Request.xml" {
			if q, err := message.ReadXML(text); err != nil {
				t.Errorf("%s: %v", file, err)
			} else {
				requests++
				checkRequest(t, file, q)
			}
			return nil
		}
		if results, err := message.ParseXMLResponse(text); err != nil {
			t.Errorf("%s: %v", file, err)
		} else {
			responses++
			checkResponse(t, file, results)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if t.Logf("%d requests and %d responses read and printed", requests, responses); requests == 0 || responses == 0 {
		t.Error("the folder has no messages")
	}
}

// TestNoSharing checks that a request does not change with its text.
func TestNoSharing(t *testing.T) {
	t.Parallel()
	for _, print := range []func(*policy.Request) []byte{message.PrintXMLRequest, message.PrintJSONRequest} {
		q := &policy.Request{Categories: []policy.Category{{Name: "c", Attributes: []policy.Attribute{{ID: "i", Values: []value.Value{value.NewString("v")}}}}}}
		text := print(q)
		got, err := read(text)
		if err != nil {
			t.Fatal(err)
		}
		for i := range text {
			text[i] = '!'
		}
		if !reflect.DeepEqual(plain(got), plain(q)) {
			t.Errorf("the request changed: %s", show(got))
		}
	}
}

// TestBounds reads requests at each bound and one above it.
func TestBounds(t *testing.T) {
	t.Parallel()
	attribute := func(values int) string {
		return `<Attribute AttributeId="i" IncludeInResult="false">` + strings.Repeat(`<AttributeValue DataType="http://www.w3.org/2001/XMLSchema#string"/>`, values) + `</Attribute>`
	}
	xml := func(inner string) string {
		return `<Request xmlns="` + message.Namespace + `" ReturnPolicyIdList="false" CombinedDecision="false">` + inner + `</Request>`
	}
	json := func(name, item string, n int, rest string) string {
		return fmt.Sprintf(`{"Request":{"%s":[%s]%s}}`, name, strings.TrimSuffix(strings.Repeat(item+",", n), ","), rest)
	}
	for _, c := range []struct {
		bound   string
		largest int
		text    func(n int) string
	}{
		{message.BoundCategories, message.CategoriesMax, func(n int) string { return xml(strings.Repeat(`<Attributes Category="c"/>`, n)) }},
		{message.BoundCategories, message.CategoriesMax, func(n int) string { return json("Resource", "{}", n, "") }},
		{message.BoundAttributes, message.AttributesMax, func(n int) string {
			return xml(`<Attributes Category="c">` + strings.Repeat(attribute(1), n) + `</Attributes>`)
		}},
		{message.BoundAttributes, message.AttributesMax, func(n int) string {
			return json("Resource", strings.TrimSuffix(`{"Attribute":[`+strings.Repeat(`{"AttributeId":"i","Value":1},`, n), ",")+`]}`, 1, "")
		}},
		{message.BoundValues, message.ValuesMax, func(n int) string { return xml(`<Attributes Category="c">` + attribute(n) + `</Attributes>`) }},
		{message.BoundValues, message.ValuesMax, func(n int) string {
			return json("Resource", `{"Attribute":[{"AttributeId":"i","Value":[`+strings.TrimSuffix(strings.Repeat("1,", n), ",")+`]}]}`, 1, "")
		}},
		{message.BoundReferences, message.ReferencesMax, func(n int) string {
			return xml(`<Attributes Category="c"/><MultiRequests><RequestReference>` + strings.Repeat(`<AttributesReference ReferenceId="r"/>`, n) + `</RequestReference></MultiRequests>`)
		}},
		{message.BoundReferences, message.ReferencesMax, func(n int) string {
			return json("Resource", `{}`, 1, `,"MultiRequests":{"RequestReference":[{"ReferenceId":[`+strings.TrimSuffix(strings.Repeat(`"r",`, n), ",")+`]}]}`)
		}},
		{"element depth", 256, func(n int) string {
			return xml(`<Attributes Category="c"><Content>` + strings.Repeat("<a>", n-3) + strings.Repeat("</a>", n-3) + `</Content></Attributes>`)
		}},
	} {
		var s *status.Error
		if _, err := read([]byte(c.text(c.largest))); errors.As(err, &s) && s.Bound != "" {
			t.Errorf("%s at the bound: %v", c.bound, err)
		}
		if _, err := read([]byte(c.text(c.largest + 1))); !errors.As(err, &s) || s.Bound != c.bound || s.Code != status.ProcessingError {
			t.Errorf("%s above the bound: %v", c.bound, err)
		}
	}
}

// TestResultsMax reads responses at the bound of results and one above it.
func TestResultsMax(t *testing.T) {
	t.Parallel()
	for _, n := range []int{message.ResultsMax, message.ResultsMax + 1} {
		results := make([]policy.Result, n)
		for _, text := range [][]byte{message.WriteXML(results), message.WriteJSON(results)} {
			_, err := parseResponse(text)
			var s *status.Error
			if above := n > message.ResultsMax; errors.As(err, &s) != above || above && s.Bound != message.BoundResults {
				t.Errorf("%d results: %v", n, err)
			}
		}
	}
}
