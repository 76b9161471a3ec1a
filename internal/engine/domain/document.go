package domain

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/language"
	"github.com/ostiary/ostiary/storage"
)

// The kinds and keys of the documents of a domain. A policy is a document of
// policyKind whose key is the name of the policy. Older versions wrote it with a
// secondary key, which nothing reads.
const (
	settingsKind = "xacml.domain"
	settingsKey  = "settings"
	policyKind   = "xacml.policy"
	rootKind     = "xacml.root"
	rootKey      = "root"
)

// documentVersion is the version of the bodies that this package writes.
const documentVersion = 1

// Language is a language of policies.
type Language string

// The languages.
const (
	XML  Language = "xml"  // XACML 3.0
	JSON Language = "json" // the JSON form of package language
	Text Language = "text" // the readable form of package language
)

// parse reads a policy. source names the text in errors.
func (l Language) parse(ctx context.Context, text []byte, source string) (policy.Element, error) {
	switch l {
	case XML:
		return language.ParseXML(ctx, text, source)
	case JSON:
		return language.ParseJSON(ctx, text, source)
	case Text:
		return language.ParseText(ctx, text, source)
	}
	return nil, fmt.Errorf("unknown language %q: expected %q, %q or %q", string(l), XML, JSON, Text)
}

// settings is the document that makes a store a policy domain. It is written
// once and never changes.
type settings struct {
	Version int `json:"v"`
	// Relations is the id of the relation store, and Incarnation its incarnation in
	// hexadecimal. Both are "" if the domain has none.
	Relations   string `json:"relations,omitempty"`
	Incarnation string `json:"incarnation,omitempty"`
}

// newSettings returns the settings of a domain that may ask relations, which is
// nil for none.
func newSettings(relations *ostiary.Store) settings {
	s := settings{Version: documentVersion}
	if relations != nil {
		info := relations.Info()
		s.Relations, s.Incarnation = info.ID.String(), hex.EncodeToString(info.Incarnation[:])
	}
	return s
}

func (s settings) document() authz.Document {
	body, _ := json.Marshal(s) // strings and a number always marshal
	return authz.Document{Kind: settingsKind, Key: settingsKey, Body: body}
}

func readSettings(body []byte) (s settings, err error) {
	if err := json.Unmarshal(body, &s); err != nil {
		return s, fmt.Errorf("%w: malformed settings of a domain: %v", authz.ErrFormat, err)
	}
	if s.Version != documentVersion {
		return s, fmt.Errorf("%w: settings of version %d, expected %d", authz.ErrFormat, s.Version, documentVersion)
	}
	return s, nil
}

// Source is the text of a policy.
type Source struct {
	// Language is the language of Text.
	Language Language
	// Text is the policy.
	Text []byte
}

// Parse reads the policy. source names the text in errors, which are an
// [InvalidError], or authz.ErrCanceled if ctx ends before.
func (s Source) Parse(ctx context.Context, source string) (policy.Element, error) {
	e, err := s.Language.parse(ctx, s.Text, source)
	if err != nil {
		return nil, invalid(source, err)
	}
	return e, nil
}

// header is the first line of the document of a policy. The text follows it.
type header struct {
	Version  int              `json:"v"`
	Language Language         `json:"language"`
	Revision storage.Revision `json:"revision"`
}

// body returns the document's body of a policy that is written at a revision.
func (s Source) body(at storage.Revision) []byte {
	b, _ := json.Marshal(header{documentVersion, s.Language, at}) // always marshals
	b = append(b, '\n')
	return append(b, s.Text...)
}

// readSource reads what [Source.body] wrote. The text is a part of body.
func readSource(body []byte) (Source, storage.Revision, error) {
	line, text, ok := bytes.Cut(body, []byte{'\n'})
	var h header
	if err := json.Unmarshal(line, &h); err != nil || !ok {
		return Source{}, 0, fmt.Errorf("%w: malformed policy document: expected a line of JSON and a text", authz.ErrFormat)
	}
	if h.Version != documentVersion {
		return Source{}, 0, fmt.Errorf("%w: policy document of version %d, expected %d", authz.ErrFormat, h.Version, documentVersion)
	}
	return Source{h.Language, text}, h.Revision, nil
}

// digest is the SHA-256 of a language and a text.
type digest [sha256.Size]byte

// digest returns the digest of the policy. Two policies with the same digest have the
// same language and text.
func (s Source) digest() (sum digest) {
	h := sha256.New()
	fmt.Fprintf(h, "%q\n", s.Language)
	h.Write(s.Text)
	h.Sum(sum[:0])
	return sum
}

// policyDocument returns the document of a named policy.
func policyDocument(name string, s Source, at storage.Revision) authz.Document {
	return authz.Document{Kind: policyKind, Key: name, Body: s.body(at)}
}

// rootDocument returns the document of the root.
func rootDocument(s Source, at storage.Revision) authz.Document {
	return authz.Document{Kind: rootKind, Key: rootKey, Body: s.body(at)}
}

// Stored is a policy of a domain, without its text.
type Stored struct {
	// Name is the name in the domain. It is not the PolicyId. It is "" for the root.
	Name string
	// Language is the language of the text.
	Language Language
	// Revision is the revision of the domain that stored the policy.
	Revision storage.Revision
	// ID and Version are the PolicyId or PolicySetId, and the Version.
	ID, Version string
	// Set is true for a policy set.
	Set bool

	element policy.Element
	bytes   int
	// digest is that of the language and the text.
	digest digest
	// references are the ids of the policies and policy sets that the policy refers
	// to.
	references []string
}

// same reports whether two policies have the same name, text and revision. other is
// nil for no policy.
func (p *Stored) same(other *Stored) bool {
	return p == other || other != nil && p.Name == other.Name && p.Revision == other.Revision && p.digest == other.digest
}

// addReferences collects the ids that an element refers to.
func (p *Stored) addReferences(e policy.Element) {
	switch e := e.(type) {
	case *policy.Reference:
		p.references = append(p.references, e.ID)
	case *policy.PolicySet:
		for _, child := range e.Children {
			p.addReferences(child)
		}
	}
}

// parseStored reads a policy. Its errors are those of [Source.Parse].
func parseStored(ctx context.Context, name string, s Source, at storage.Revision) (*Stored, error) {
	source := name
	if name == "" {
		source = rootKey
	}
	e, err := s.Language.parse(ctx, s.Text, source)
	if err != nil {
		return nil, invalid(name, err)
	}
	p := &Stored{Name: name, Language: s.Language, Revision: at, element: e, bytes: len(s.Text), digest: s.digest()}
	switch e := e.(type) {
	case *policy.Policy:
		p.ID, p.Version = e.ID, e.Version
	case *policy.PolicySet:
		p.ID, p.Version, p.Set = e.ID, e.Version, true
	}
	p.addReferences(e)
	return p, nil
}

// parseDocument parses the document of a policy. name is "" for the root.
func parseDocument(ctx context.Context, name string, body []byte) (*Stored, error) {
	src, at, err := readSource(body)
	if err != nil {
		return nil, err
	}
	p, err := parseStored(ctx, name, src, at)
	if errors.Is(err, authz.ErrCanceled) {
		return nil, err
	}
	if err != nil {
		// The cause is text only: the request that reads the policy is not invalid.
		return nil, fmt.Errorf("%w: stored policy: %v", authz.ErrFormat, err)
	}
	return p, nil
}
