// Package scenario reads and runs Permify's validation files: a schema, data,
// and scenarios that say what must be answered. Its main types are File and
// Report. It runs them through the protocol, on an engine that is handed in,
// and opens no file itself.
package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// FileBytesMax bounds a validation file, and a schema that it names.
const FileBytesMax = 4 << 20

// DepthDefault is the depth of a question that names none.
const DepthDefault = 100

// ErrFile is the kind of every error about a file's form.
var ErrFile = errors.New("invalid validation file")

// File is a validation file as it is written.
type File struct {
	// Schema is the schema's text, or the path or URL of one.
	Schema        string     `yaml:"schema"`
	Relationships []string   `yaml:"relationships"`
	Attributes    []string   `yaml:"attributes"`
	Scenarios     []Scenario `yaml:"scenarios"`
}

// Scenario is a group of questions with what must be answered.
type Scenario struct {
	Name           string          `yaml:"name"`
	Description    string          `yaml:"description"`
	Checks         []Check         `yaml:"checks"`
	EntityFilters  []EntityFilter  `yaml:"entity_filters"`
	SubjectFilters []SubjectFilter `yaml:"subject_filters"`
}

// Context is what a question brings along.
type Context struct {
	Tuples     []string       `yaml:"tuples"`
	Attributes []string       `yaml:"attributes"`
	Data       map[string]any `yaml:"data"`
}

// Check asks, per permission, whether Subject has it on Entity.
type Check struct {
	Depth      *int32          `yaml:"depth"`
	Context    Context         `yaml:"context"`
	Entity     string          `yaml:"entity"`
	Subject    string          `yaml:"subject"`
	Assertions map[string]bool `yaml:"assertions"`
}

// EntityFilter asks, per permission, which entities of a type Subject has it on.
type EntityFilter struct {
	Depth      *int32              `yaml:"depth"`
	Context    Context             `yaml:"context"`
	EntityType string              `yaml:"entity_type"`
	Subject    string              `yaml:"subject"`
	Assertions map[string][]string `yaml:"assertions"`
}

// SubjectFilter asks, per permission, which subjects have it on Entity.
type SubjectFilter struct {
	Depth   *int32  `yaml:"depth"`
	Context Context `yaml:"context"`
	// SubjectReference is "user" or "group#member".
	SubjectReference string              `yaml:"subject_reference"`
	Entity           string              `yaml:"entity"`
	Assertions       map[string][]string `yaml:"assertions"`
}

// Parse reads a validation file. Keys that it does not know are an error: they
// would be assertions that nobody looks at.
func Parse(text []byte) (*File, error) {
	if len(text) > FileBytesMax {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrFile, FileBytesMax)
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	f := &File{}
	if err := dec.Decode(f); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrFile, err)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: more than one document", ErrFile)
	}
	return f, nil
}

// Reference returns the path or URL of the schema, if it does not stand in the
// file itself.
func (f *File) Reference() (string, bool) {
	s := strings.TrimSpace(f.Schema)
	if s == "" || strings.ContainsAny(s, "\n{") {
		return "", false
	}
	return s, true
}
