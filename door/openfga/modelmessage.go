// Package openfga serves OpenFGA's protocol. [New] returns its door: the HTTP
// and gRPC API over an engine. [Message] returns a model as the protocol's
// message, and [Conditions] compiles the conditions that the protocol adds. The
// package language reads and prints model texts. This package never evaluates a
// relation, stores nothing itself, and imports no storage driver.
package openfga

import (
	"bytes"
	"encoding/json"
	"fmt"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/ostiary/ostiary/door/openfga/language"
	"github.com/ostiary/ostiary/schema"
)

// Message returns a model as the protocol's message. It fails with
// [language.ErrInexpressible] where [language.FormatJSON] does.
func Message(m *schema.Model) (*openfgav1.AuthorizationModel, error) {
	text, err := language.FormatJSON(m)
	if err != nil {
		return nil, err
	}
	return readMessage(text)
}

// readMessage reads a model's JSON form.
func readMessage(text []byte) (*openfgav1.AuthorizationModel, error) {
	m := &openfgav1.AuthorizationModel{}
	err := protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, m)
	return m, err
}

// translate checks and translates a model, and returns its canonical JSON too.
// The caller bounds its depth first. m is not changed.
func translate(b language.Bounds, m *openfgav1.AuthorizationModel) (*schema.Model, []byte, error) {
	text, err := canonicalJSON(m)
	if err != nil {
		return nil, nil, err
	}
	b.SourceBytes = len(text) // the message came in already: its own size is bounded
	return b.ParseJSON(text)
}

// canonicalJSON prints a message with the field order of the protocol and
// without blanks.
func canonicalJSON(m proto.Message) ([]byte, error) {
	text, err := protojson.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("writing %s as JSON: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	var buf bytes.Buffer
	if err := json.Compact(&buf, text); err != nil { // protojson adds random blanks
		return nil, fmt.Errorf("writing %s as JSON: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	return buf.Bytes(), nil
}

// depthWithin reports whether a rewrite has at most depthMax operators inside
// each other. It recurses at most one deeper.
func depthWithin(r *openfgav1.Userset, depthMax int) bool {
	if depthMax <= 0 {
		return false
	}
	for _, child := range children(r) {
		if !depthWithin(child, depthMax-1) {
			return false
		}
	}
	return true
}

func children(r *openfgav1.Userset) []*openfgav1.Userset {
	switch u := r.GetUserset().(type) {
	case *openfgav1.Userset_Union:
		return u.Union.GetChild()
	case *openfgav1.Userset_Intersection:
		return u.Intersection.GetChild()
	case *openfgav1.Userset_Difference:
		return []*openfgav1.Userset{u.Difference.GetBase(), u.Difference.GetSubtract()}
	}
	return nil
}
