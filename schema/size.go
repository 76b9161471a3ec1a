package schema

import "unsafe"

// Bytes estimates the memory of the schema, with its model.
func (s *Schema) Bytes() int { return s.bytes }

// Estimates of the memory in bytes of the parts of a schema. They include the
// model and the tables by name.
const (
	bytesPerType      = 512
	bytesPerRelation  = 640
	bytesPerStep      = 192 // an operator or a step, compiled, in the model, and read backwards
	bytesPerKind      = 160
	bytesPerCondition = 16 << 10
)

// schemaBytes estimates the memory of the compiled schema.
func (c *compilation) schemaBytes() int {
	bytes := len(c.s.Types)*bytesPerType + len(c.s.Relations)*bytesPerRelation + c.steps*bytesPerStep +
		len(c.s.Kinds)*bytesPerKind + len(c.s.Conditions)*bytesPerCondition
	blocks := map[*kindBlock]struct{}{}
	sets := map[*(*kindBlock)]struct{}{}
	for i := range c.s.Relations {
		set := c.s.Relations[i].Reach
		if len(set) == 0 {
			continue
		}
		if _, ok := sets[&set[0]]; ok {
			continue
		}
		sets[&set[0]] = struct{}{}
		bytes += len(set) * int(unsafe.Sizeof(set[0]))
		for _, b := range set {
			blocks[b] = struct{}{}
		}
	}
	return bytes + len(blocks)*int(unsafe.Sizeof(kindBlock{}))
}
