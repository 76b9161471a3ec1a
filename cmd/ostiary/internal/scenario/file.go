// Package scenario reads and runs Permify's validation files: a schema, data,
// and scenarios with expected results. [Parse] reads a [File], [Run] runs it
// and returns a [Report], and [Cover] computes a [Coverage]. The package sends
// the requests of the protocol to an engine that the caller provides. It opens
// no files.
package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// FileBytesMax bounds a validation file, and a schema that it refers to, in
// bytes.
const FileBytesMax = 4 << 20

// DepthDefault is the depth of a request that sets none.
const DepthDefault = 100

// ErrFile is the kind of all errors of [Parse].
var ErrFile = errors.New("invalid validation file")

// File is a parsed validation file. Its fields have the meaning of the YAML
// keys.
type File struct {
	// Schema is the text of the schema, or its path or URL; see
	// [File.Reference].
	Schema string `yaml:"schema"`
	// Relationships and Attributes are the data, one line each; see
	// [permify.ParseTuple] and [permify.ParseAttribute].
	Relationships []string `yaml:"relationships"`
	Attributes    []string `yaml:"attributes"`
	// Scenarios run in their order.
	Scenarios []Scenario `yaml:"scenarios"`
}

// Scenario is a group of requests with their expected results.
type Scenario struct {
	// Name and Description are for the reader only.
	Name        string `yaml:"name"`
	Description string `yaml:"description"`
	// Checks, EntityFilters and SubjectFilters are checks, lookups of entities
	// and lookups of subjects.
	Checks         []Check         `yaml:"checks"`
	EntityFilters  []EntityFilter  `yaml:"entity_filters"`
	SubjectFilters []SubjectFilter `yaml:"subject_filters"`
}

// Context is the context of a request.
type Context struct {
	// Tuples and Attributes are contextual data, with the syntax of
	// File.Relationships and File.Attributes.
	Tuples     []string `yaml:"tuples"`
	Attributes []string `yaml:"attributes"`
	// Data holds the values that rules read as context.data.
	Data map[string]any `yaml:"data"`
}

// Check is one check for each permission in Assertions.
type Check struct {
	// Depth is the request's depth; DepthDefault if nil.
	Depth *int32 `yaml:"depth"`
	// Context is the request's context.
	Context Context `yaml:"context"`
	// Entity is "type:id", and Subject "type:id" or "type:id#relation".
	Entity  string `yaml:"entity"`
	Subject string `yaml:"subject"`
	// Assertions map a permission to the expected decision.
	Assertions map[string]bool `yaml:"assertions"`
}

// EntityFilter is one lookup of entities for each permission in Assertions.
type EntityFilter struct {
	// Depth is the request's depth; DepthDefault if nil.
	Depth *int32 `yaml:"depth"`
	// Context is the request's context.
	Context Context `yaml:"context"`
	// EntityType is the type of the entities, and Subject "type:id" or
	// "type:id#relation".
	EntityType string `yaml:"entity_type"`
	Subject    string `yaml:"subject"`
	// Assertions map a permission to the expected ids.
	Assertions map[string][]string `yaml:"assertions"`
}

// SubjectFilter is one lookup of subjects for each permission in Assertions.
type SubjectFilter struct {
	// Depth is the request's depth; DepthDefault if nil.
	Depth *int32 `yaml:"depth"`
	// Context is the request's context.
	Context Context `yaml:"context"`
	// SubjectReference is the type of the subjects: "user" or "group#member".
	SubjectReference string `yaml:"subject_reference"`
	// Entity is "type:id".
	Entity string `yaml:"entity"`
	// Assertions map a permission to the expected ids.
	Assertions map[string][]string `yaml:"assertions"`
}

// Parse parses a validation file. It rejects unknown keys, so that a misspelled
// assertion is not ignored. Errors are of kind [ErrFile].
func Parse(text []byte) (*File, error) {
	if len(text) > FileBytesMax {
		return nil, fmt.Errorf("%w: %d bytes exceed the maximum of %d", ErrFile, len(text), FileBytesMax)
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	f := &File{}
	if err := dec.Decode(f); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrFile, err)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: expected one YAML document, found more", ErrFile)
	}
	return f, nil
}

// Reference returns the path or URL of the schema. ok is false if Schema is the
// text itself.
func (f *File) Reference() (location string, ok bool) {
	s := strings.TrimSpace(f.Schema)
	if s == "" || strings.ContainsAny(s, "\n{") {
		return "", false
	}
	return s, true
}
