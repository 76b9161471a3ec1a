package native

import (
	"encoding/json"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/tool/jsonread"
)

// DocumentsKind is the kind of the documents that clients write: JSON values with a
// key, which a write stores together with tuples. A client can keep its position in
// another system there. The documents of other doors have other kinds, so clients
// can neither read nor write them.
const DocumentsKind = "native"

// readDocument reads a document of a write.
func readDocument(r *jsonread.Reader) authz.Document {
	out := authz.Document{Kind: DocumentsKind}
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "key":
			out.Key = r.String()
		case "value":
			out.Body = append([]byte(nil), r.Raw()...)
		default:
			r.Unknown()
		}
	}
	if out.Key == "" || out.Body == nil {
		r.Fail("expected key and value")
	}
	return out
}

// getDocument serves GetDocument: a document that a client wrote.
func (c *call) getDocument() error {
	if _, err := c.QueryOf(); err != nil {
		return err
	}
	d, err := c.store.Document(c.Context(), authz.DocumentKey{Kind: DocumentsKind, Key: c.Params.At(1)})
	if err != nil {
		return err
	}
	return c.setJSON(struct {
		Key   string          `json:"key"`
		Value json.RawMessage `json:"value"`
	}{d.Key, d.Body})
}
