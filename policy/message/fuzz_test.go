package message_test

import (
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/ostiary/ostiary/policy/message"
)

// seed adds the texts of scripts to a corpus: those of JSON, or those of XML.
func seed(f *testing.F, json bool, files ...string) {
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for i := 0; i < len(archive.Files); i += 2 {
			text := strings.TrimSuffix(strings.ReplaceAll(string(archive.Files[i].Data), "$X", message.Namespace), "\n")
			if strings.HasPrefix(text, "{") == json {
				f.Add([]byte(text))
			}
		}
	}
}

// FuzzReadXML checks that every request that is read can be printed in both forms
// and read again.
func FuzzReadXML(f *testing.F) {
	seed(f, false, "testdata/requests.txtar", "testdata/refused.txtar")
	f.Fuzz(func(t *testing.T, text []byte) {
		if q, err := message.ReadXML(text); err == nil {
			checkRequest(t, "fuzz", q)
		} else if q != nil {
			t.Fatalf("a request and %v", err)
		}
	})
}

// FuzzReadJSON does the same for a request in JSON, as far as XML can express it.
func FuzzReadJSON(f *testing.F) {
	seed(f, true, "testdata/requests.txtar", "testdata/refused.txtar")
	f.Fuzz(func(t *testing.T, text []byte) {
		q, err := message.ReadJSON(text)
		if err != nil {
			if q != nil {
				t.Fatalf("a request and %v", err)
			}
			return
		}
		printed := message.PrintJSONRequest(q)
		if again, err := message.ReadJSON(printed); err != nil || !same(splitTypes(q), again) {
			t.Fatalf("%v\n%s\nexpected:\n%s", err, printed, show(q))
		}
	})
}

// FuzzParseXMLResponse checks that every response that is read can be written in
// both forms and read again.
func FuzzParseXMLResponse(f *testing.F) {
	seed(f, false, "testdata/responses.txtar")
	f.Fuzz(func(t *testing.T, text []byte) {
		if results, err := message.ParseXMLResponse(text); err == nil {
			checkResponse(t, "fuzz", results)
		}
	})
}

// FuzzParseJSONResponse does the same for a response in JSON.
func FuzzParseJSONResponse(f *testing.F) {
	seed(f, true, "testdata/responses.txtar")
	f.Fuzz(func(t *testing.T, text []byte) {
		results, err := message.ParseJSONResponse(text)
		if err != nil {
			return
		}
		again, err := message.ParseJSONResponse(message.WriteJSON(results))
		if err != nil || !same(results, again) {
			t.Fatalf("%v\n%s", err, message.WriteJSON(results))
		}
	})
}
