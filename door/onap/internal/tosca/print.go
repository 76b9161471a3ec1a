package tosca

import (
	"bytes"

	"go.yaml.in/yaml/v3"

	"github.com/ostiary/ostiary/internal/tool/jsonread"
)

// AppendJSON appends a value as JSON without white space. Members keep their
// order.
func AppendJSON(dst []byte, v *Value) []byte {
	switch v.Kind {
	case Null:
		return append(dst, "null"...)
	case Bool, Number:
		return append(dst, v.Text...)
	case String:
		return jsonread.AppendString(dst, v.Text)
	case List:
		dst = append(dst, '[')
		for i := range v.Items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = AppendJSON(dst, &v.Items[i])
		}
		return append(dst, ']')
	}
	dst = append(dst, '{')
	for i := range v.Members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(jsonread.AppendString(dst, v.Members[i].Name), ':')
		dst = AppendJSON(dst, &v.Members[i].Value)
	}
	return append(dst, '}')
}

// PrintYAML returns a value as a YAML document.
func PrintYAML(v *Value) ([]byte, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(node(v)); err != nil {
		return nil, err
	}
	err := e.Close()
	return b.Bytes(), err
}

// node converts a value to a YAML node.
func node(v *Value) *yaml.Node {
	switch v.Kind {
	case Null:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
	case Bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: v.Text}
	case Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: v.Text}
	case String:
		n := &yaml.Node{}
		n.SetString(v.Text)
		return n
	case List:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for i := range v.Items {
			n.Content = append(n.Content, node(&v.Items[i]))
		}
		return n
	}
	n := &yaml.Node{Kind: yaml.MappingNode}
	for i := range v.Members {
		name := &yaml.Node{}
		name.SetString(v.Members[i].Name)
		n.Content = append(n.Content, name, node(&v.Members[i].Value))
	}
	return n
}
