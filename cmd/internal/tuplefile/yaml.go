package tuplefile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"

	"go.yaml.in/yaml/v3"

	"github.com/ostiary/ostiary/rel"
)

// nodesMax bounds the YAML values of one context. An alias counts as many as the
// value that it refers to.
const nodesMax = 10_000

// ReadNode reads a tuple from a YAML mapping with the fields of [Record]. It is
// for files that hold tuples among other things. It fails with [ErrTuple],
// [ErrBound] or [rel.ErrName].
func ReadNode(n *yaml.Node) (rel.Tuple, error) {
	var rec struct {
		User      string `yaml:"user"`
		Relation  string `yaml:"relation"`
		Object    string `yaml:"object"`
		Condition *struct {
			Name    string    `yaml:"name"`
			Context yaml.Node `yaml:"context"`
		} `yaml:"condition"`
		Expires string `yaml:"expires"`
	}
	if err := strict(n, &rec); err != nil {
		return rel.Tuple{}, err
	}
	out := Record{User: rec.User, Relation: rec.Relation, Object: rec.Object, Expires: rec.Expires}
	if rec.Condition != nil {
		values, err := Values(&rec.Condition.Context)
		if err != nil {
			return rel.Tuple{}, err
		}
		out.Condition = &RecordCondition{rec.Condition.Name, values}
	}
	return out.Tuple()
}

// NodeError is an error in a YAML file at a place that is known.
type NodeError struct {
	// Line and Column count from 1.
	Line, Column int
	// Err is the cause, which is an [ErrTuple].
	Err error
}

// Error returns the line and the cause.
func (e *NodeError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns the cause.
func (e *NodeError) Unwrap() error { return e.Err }

// at returns an [ErrTuple] at the place of a node.
func at(n *yaml.Node, format string, args ...any) error {
	return &NodeError{n.Line, n.Column, fmt.Errorf("%w: %w", ErrTuple, fmt.Errorf(format, args...))}
}

// strict decodes a mapping and refuses unknown fields.
func strict(n *yaml.Node, out any) error {
	if n.Kind != yaml.MappingNode {
		return at(n, "not a mapping")
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch key := n.Content[i].Value; key {
		case "user", "relation", "object", "condition", "expires":
		default:
			return at(n.Content[i], "unknown field %q", clip(key))
		}
		condition := n.Content[i+1]
		if condition.Kind == yaml.AliasNode {
			condition = condition.Alias
		}
		if n.Content[i].Value != "condition" || condition.Kind != yaml.MappingNode {
			continue
		}
		for j := 0; j+1 < len(condition.Content); j += 2 {
			if key := condition.Content[j]; key.Value != "name" && key.Value != "context" {
				return at(key, "unknown field %q in a condition", clip(key.Value))
			}
		}
	}
	if err := n.Decode(out); err != nil {
		return fmt.Errorf("%w: %w", ErrTuple, err)
	}
	return nil
}

// Values reads a context: a mapping from names to values. The values have the
// types of encoding/json, with numbers as [json.Number]. A zero node and a null
// are no context, nil. It fails with [ErrTuple] or [ErrBound].
func Values(n *yaml.Node) (map[string]any, error) {
	if n.IsZero() || n.ShortTag() == "!!null" {
		return nil, nil
	}
	remaining := nodesMax
	v, err := value(n, &remaining)
	if err != nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, at(n, "expected a mapping as context")
	}
	return m, nil
}

// value recurses as deep as the file nests, which the YAML parser bounds.
// remaining bounds the number of values, which aliases could multiply.
func value(n *yaml.Node, remaining *int) (any, error) {
	if *remaining--; *remaining < 0 {
		return nil, fmt.Errorf("%w: a context has more than %d values", ErrBound, nodesMax)
	}
	switch n.Kind {
	case yaml.AliasNode:
		return value(n.Alias, remaining)
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for _, item := range n.Content {
			v, err := value(item, remaining)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	case yaml.MappingNode:
		m := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if _, twice := m[key.Value]; twice || key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge" {
				return nil, at(key, "invalid or duplicate name %q", clip(key.Value))
			}
			v, err := value(n.Content[i+1], remaining)
			if err != nil {
				return nil, err
			}
			m[key.Value] = v
		}
		return m, nil
	case yaml.ScalarNode:
		return scalar(n)
	}
	return nil, at(n, "expected a value")
}

func scalar(n *yaml.Node) (any, error) {
	isText := n.Style&yaml.TaggedStyle != 0 && n.ShortTag() == "!!str"
	if n.Style&^yaml.TaggedStyle == 0 && !isText && isNumber(n.Value) { // YAML's own reader refuses 1e700
		return json.Number(n.Value), nil
	}
	switch n.ShortTag() {
	case "!!null":
		return nil, nil
	case "!!int", "!!float", "!!bool":
	default: // JSON has no timestamps or other special types: their values stay text
		return n.Value, nil
	}
	var v any
	if err := n.Decode(&v); err != nil {
		return nil, at(n, "%w", err)
	}
	return v, nil
}

// isNumber reports whether s is a JSON number.
func isNumber(s string) bool {
	return s != "" && (s[0] == '-' || s[0] >= '0' && s[0] <= '9') && json.Valid([]byte(s))
}

func readYAML(r io.Reader) iter.Seq2[rel.Tuple, error] {
	return func(yield func(rel.Tuple, error) bool) {
		text, err := io.ReadAll(io.LimitReader(r, YAMLBytesMax+1))
		if err == nil && len(text) > YAMLBytesMax {
			err = fmt.Errorf("%w: a YAML file has more than %d bytes", ErrBound, YAMLBytesMax)
		}
		var records []*yaml.Node
		if err == nil {
			records, err = recordNodes(text)
		}
		if err != nil {
			yield(rel.Tuple{}, &Error{1, recordError(err)})
			return
		}
		for i := range records {
			t, err := ReadNode(records[i])
			if err != nil {
				yield(rel.Tuple{}, &Error{i + 1, recordError(err)})
				return
			}
			if !yield(t, nil) {
				return
			}
		}
	}
}

// recordNodes returns the nodes of the records in a file. The file is either a
// sequence of records, or a mapping with the records in its field tuples, such as
// a response of OpenFGA's Read or an exported store.
func recordNodes(text []byte) ([]*yaml.Node, error) {
	var document, second yaml.Node
	in := yaml.NewDecoder(bytes.NewReader(text))
	if err := in.Decode(&document); err == io.EOF {
		return nil, nil // an empty file
	} else if err != nil {
		return nil, err
	}
	if err := in.Decode(&second); err == nil {
		return nil, at(&second, "a second document: expected one")
	} else if err != io.EOF {
		return nil, err
	}
	root := document.Content[0]
	if root.Kind != yaml.MappingNode {
		return sequence(root)
	}
	var records []*yaml.Node
	for i := 0; i+1 < len(root.Content); i += 2 {
		name, v := root.Content[i].Value, root.Content[i+1]
		empty := v.ShortTag() == "!!null" || v.Kind == yaml.ScalarNode && v.Value == "" || len(v.Content) == 0 && v.Kind != yaml.ScalarNode
		switch name {
		case "tuples":
			var err error
			if records, err = sequence(v); err != nil {
				return nil, err
			}
		case "name", "model", "model_file", "tests":
		case "continuation_token":
			if !empty {
				return nil, at(v, "the page has a continuation_token: more tuples follow it, which are not in the file")
			}
		case "tuple_file", "tuple_files":
			if !empty {
				return nil, at(v, "the file names other files of tuples: import each of them")
			}
		default:
			return nil, at(v, "unknown field %q: expected a list of tuples, or a mapping with the field tuples", clip(name))
		}
	}
	return records, nil
}

// sequence returns the records of a sequence, which may be null. A record with a
// timestamp is in a field key.
func sequence(n *yaml.Node) ([]*yaml.Node, error) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return nil, nil
	}
	if n.Kind != yaml.SequenceNode {
		return nil, at(n, "expected a list of tuples")
	}
	out := make([]*yaml.Node, len(n.Content))
	for i, item := range n.Content {
		if out[i] = item; item.Kind == yaml.MappingNode && len(item.Content) == 4 && item.Content[0].Value == "key" && item.Content[2].Value == "timestamp" {
			out[i] = item.Content[1]
		}
	}
	return out, nil
}

// yamlWriter writes a sequence of records.
type yamlWriter struct {
	w io.Writer
	n int // records written so far
}

// Write adds a record.
func (y *yamlWriter) Write(t rel.Tuple) error {
	rec, err := RecordOf(t)
	if err != nil {
		return err
	}
	if rec.Condition != nil && rec.Condition.Context != nil {
		rec.Condition.Context = yamlValue(rec.Condition.Context).(map[string]any)
	}
	y.n++
	text, err := yaml.Marshal([]Record{rec})
	if err != nil {
		return err
	}
	_, err = y.w.Write(text)
	return err
}

// Close writes an empty sequence if there are no records.
func (y *yamlWriter) Close() error {
	if y.n > 0 {
		return nil
	}
	_, err := io.WriteString(y.w, "[]\n")
	return err
}

// yamlValue makes numbers plain scalars, and quotes strings that look like
// numbers.
func yamlValue(v any) any {
	switch v := v.(type) {
	case json.Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: v.String()}
	case string:
		if isNumber(v) {
			return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: v}
		}
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = yamlValue(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = yamlValue(v[k])
		}
		return out
	}
	return v
}
