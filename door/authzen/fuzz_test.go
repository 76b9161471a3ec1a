package authzen_test

import (
	"encoding/json"
	"testing"
)

// FuzzRequest sends random bodies to every endpoint. No response may be a
// server error, and every successful response must have a decision or results.
func FuzzRequest(f *testing.F) {
	w := open(f, readFile(f, "testdata/certification.txt"))
	paths := []string{"evaluation", "evaluations", "search/subject", "search/resource", "search/action"}
	for i, body := range []string{
		`{"subject":{"type":"user","id":"alice"},"action":{"name":"read"},"resource":{"type":"record","id":"record-1"}}`,
		`{"subject":{"type":"user","id":"alice"},"evaluations":[{"action":{"name":"read"},"resource":{"type":"record","id":"record-1"}},{}],"options":{"evaluations_semantic":"deny_on_first_deny"}}`,
		`{"subject":{"type":"user"},"action":{"name":"write"},"resource":{"type":"record","id":"record-2","properties":{"status":"archived"}},"page":{"limit":1,"token":"x.y"}}`,
		`{"subject":{"type":"user","id":"bob","properties":{"role":"admin"}},"action":{"name":"write"},"resource":{"type":"record"},"context":{"a":[1,null]}}`,
		`{"subject":{"type":"user","id":"alice"},"resource":{"type":"record","id":"record-1"},"page":{"limit":1}}`,
	} {
		f.Add(uint8(i), body)
	}
	f.Fuzz(func(t *testing.T, which uint8, body string) {
		path := "/access/v1/" + paths[int(which)%len(paths)]
		rec := send(t, w, path, body)
		if rec.Code >= 500 {
			t.Fatalf("%s %q: %d %s", path, body, rec.Code, rec.Body)
		}
		if rec.Code != 200 {
			return
		}
		var response struct {
			Decision    *bool
			Evaluations []struct{ Decision *bool }
			Results     []any
		}
		if err := json.Unmarshal(rec.Body.Bytes(), &response); err != nil {
			t.Fatalf("%s %q: %v %s", path, body, err, rec.Body)
		}
		if response.Decision == nil && response.Evaluations == nil && response.Results == nil {
			t.Fatalf("%s %q: %s", path, body, rec.Body)
		}
	})
}
