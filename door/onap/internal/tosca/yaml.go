package tosca

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ostiary/ostiary/internal/tool/jsonread"
)

// ParseYAML reads a text with one YAML document, with the bounds of [ParseJSON]
// and [YAMLBytesMax]. It refuses aliases, anchors, tags of programs and names
// that are not scalars. Numbers become JSON numbers; dates stay strings. An
// empty text is null. Its errors are *[Error], with a place where there is one.
func ParseYAML(text []byte) (Value, error) {
	if len(text) > YAMLBytesMax {
		return Value{}, &Error{Text: fmt.Sprintf("the YAML text has %d bytes: expected at most %d; JSON may be longer", len(text), YAMLBytesMax)}
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	var node yaml.Node
	if err := d.Decode(&node); errors.Is(err, io.EOF) {
		return Value{}, nil
	} else if err != nil {
		return Value{}, &Error{Text: strings.TrimPrefix(err.Error(), "yaml: ")}
	}
	var second yaml.Node
	if err := d.Decode(&second); !errors.Is(err, io.EOF) {
		return Value{}, errorAt(Position{max(second.Line, 1), max(second.Column, 1)}, "unexpected second document")
	}
	p := yamlParser{}
	return p.value(node.Content[0], 0)
}

// yamlParser converts nodes to values.
type yamlParser struct{ values int }

// value converts a node at a depth.
func (p *yamlParser) value(n *yaml.Node, depth int) (v Value, err error) {
	v.Position = Position{n.Line, n.Column}
	if p.values++; p.values > ValuesMax {
		return v, errorAt(v.Position, "more than %d values", ValuesMax)
	}
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return v, errorAt(v.Position, "unexpected anchor or alias: write the value out")
	}
	if n.Kind != yaml.ScalarNode && depth == DepthMax {
		return v, errorAt(v.Position, "more than %d nested maps and lists", DepthMax)
	}
	switch n.Kind {
	case yaml.MappingNode:
		v.Kind = Map
		err = p.members(&v, n, depth)
	case yaml.SequenceNode:
		v.Kind = List
		for _, item := range n.Content {
			var i Value
			if i, err = p.value(item, depth+1); err != nil {
				return v, err
			}
			v.Items = append(v.Items, i)
		}
	default:
		err = scalar(&v, n)
	}
	return v, err
}

// members converts the members of a map.
func (p *yamlParser) members(v *Value, n *yaml.Node, depth int) error {
	names := nameSet{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		at := Position{key.Line, key.Column}
		if key.Kind != yaml.ScalarNode || key.Anchor != "" || key.Tag == "!!merge" {
			return errorAt(at, "expected a scalar as the name of a member")
		}
		if names.add(key.Value, len(v.Members)) {
			return errorAt(at, "the member %s comes twice", shown(key.Value))
		}
		value, err := p.value(n.Content[i+1], depth+1)
		if err != nil {
			return err
		}
		v.Members = append(v.Members, Member{key.Value, value, at})
	}
	return nil
}

// scalar converts a scalar node.
func scalar(v *Value, n *yaml.Node) error {
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		var b bool
		if n.Decode(&b) != nil {
			return errorAt(v.Position, "invalid boolean %s", shown(n.Value))
		}
		v.Kind, v.Text = Bool, strconv.FormatBool(b)
	case "!!int", "!!float":
		return number(v, n)
	case "!!str", "!!timestamp":
		v.Kind, v.Text = String, n.Value
	default:
		return errorAt(v.Position, "unexpected tag %s", shown(n.Tag))
	}
	return nil
}

// number converts a number to the form of JSON. A number of that form keeps its
// text, so that it keeps its precision.
func number(v *Value, n *yaml.Node) error {
	v.Kind = Number
	r := jsonread.New([]byte(n.Value))
	if v.Text = string(r.Number()); r.End() == nil && inRange(v.Text) {
		return nil
	}
	var i int64
	if n.ShortTag() == "!!int" && n.Decode(&i) == nil {
		v.Text = strconv.FormatInt(i, 10)
		return nil
	}
	var f float64
	if n.ShortTag() == "!!int" || n.Decode(&f) != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return errorAt(v.Position, "invalid number %s: expected a finite number, and a whole number of at most 64 bits unless it is decimal", shown(n.Value))
	}
	v.Text = strconv.FormatFloat(f, 'g', -1, 64)
	return nil
}
