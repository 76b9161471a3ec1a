package message_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/language"
	"github.com/ostiary/ostiary/policy/message"
	"github.com/ostiary/ostiary/policy/value"
)

// small returns a request with four attributes, as an enforcer sends it.
func small() *policy.Request {
	one := func(category, id, text string) policy.Category {
		return policy.Category{Name: category, Attributes: []policy.Attribute{{ID: id, Values: []value.Value{value.NewString(text)}}}}
	}
	return &policy.Request{Categories: []policy.Category{
		one(policy.CategorySubject, policy.AttributeSubjectID, "anne"),
		one(policy.CategoryResource, policy.AttributeResourceID, "document-1"),
		one(policy.CategoryAction, policy.AttributeActionID, "read"),
		one(policy.CategoryEnvironment, "urn:example:network", "office"),
	}}
}

// BenchmarkXML reads a small request, decides it and writes the response.
func BenchmarkXML(b *testing.B) {
	benchmark(b, message.PrintXMLRequest(small()), message.ReadXML, message.AppendXML)
}

// BenchmarkJSON does the same in JSON.
func BenchmarkJSON(b *testing.B) {
	benchmark(b, message.PrintJSONRequest(small()), message.ReadJSON, message.AppendJSON)
}

func benchmark(b *testing.B, body []byte, read func([]byte) (*policy.Request, error), write func([]byte, []policy.Result) []byte) {
	text, err := os.ReadFile(filepath.Join("testdata", "policy.xml"))
	if err != nil {
		b.Fatal(err)
	}
	root, err := language.ParseXML(b.Context(), text, "policy.xml")
	if err != nil {
		b.Fatal(err)
	}
	plan, err := policy.Compile(b.Context(), root, nil, policy.CompileOptions{})
	if err != nil {
		b.Fatal(err)
	}
	var out []byte
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		q, err := read(body)
		if err != nil {
			b.Fatal(err)
		}
		results := plan.Decide(b.Context(), q, policy.Options{})
		if results[0].Decision != policy.Permitted {
			b.Fatal(results)
		}
		out = write(out[:0], results)
	}
}
