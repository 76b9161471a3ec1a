package graph

// Compact copies v into a new lineage that contains only what v contains. Nodes
// and names of attributes get new numbers. Kinds keep their numbers, so schemas
// that were compiled for the old lineage remain valid for the new one. While it
// runs, Compact needs the memory of both lineages and 12 more bytes for each
// tuple. Other goroutines may write to the old lineage while Compact runs.
func Compact(v *View) (*Graph, error) {
	g := New(v.g.opts)
	for _, k := range v.kinds[1:] {
		if _, err := g.Intern(k.name); err != nil {
			return nil, err
		}
	}
	c := compaction{v, g, g.Load(), make([]Node, len(v.blocks)<<blockBits)}
	if err := c.tuples(); err != nil {
		return nil, err
	}
	if err := c.attributes(); err != nil {
		return nil, err
	}
	if _, err := c.load.Finish(); err != nil {
		return nil, err
	}
	return g, nil
}

// compaction is a running [Compact].
type compaction struct {
	v        *View
	g        *Graph
	load     *Loader
	newNodes []Node // by old node; 0 if it has no new one yet
}

// node returns the new node of an old one.
func (c *compaction) node(n Node) (Node, error) {
	if c.newNodes[n] == 0 {
		m, err := c.g.node(c.v.kindOf(n), c.v.ID(n))
		if err != nil {
			return 0, err
		}
		c.newNodes[n] = m
	}
	return c.newNodes[n], nil
}

// tuples copies all tuples.
func (c *compaction) tuples() error {
	c.g.mu.Lock()
	defer c.g.mu.Unlock()
	for b := range c.v.blocks {
		seg := c.v.segment(Node(b) << blockBits)
		if seg == nil {
			continue
		}
		for i := range seg.nodes() {
			if err := c.lists(Node(b)<<blockBits|Node(i), seg.groups(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// lists copies the tuples of an object's node o.
func (c *compaction) lists(o Node, gs groups) error {
	for s, l, ok := gs.next(); ok; s, l, ok = gs.next() {
		if s.reverse() {
			continue
		}
		for i := range l.Chunks() {
			for _, e := range l.Chunk(i) {
				if err := c.tuple(o, e); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (c *compaction) tuple(o Node, e Edge) error {
	newO, err := c.node(o)
	if err != nil {
		return err
	}
	newS, err := c.node(e.Node())
	if err != nil {
		return err
	}
	var d *Detail
	if e.Detailed() {
		d, _ = c.v.details.Get(pair(uint32(o), uint32(e.Node())))
		c.load.extraBytes += d.bytes()
	}
	c.load.addPair(newO, newS, d)
	return nil
}

// attributes copies all attributes.
func (c *compaction) attributes() (err error) {
	c.g.mu.Lock()
	defer c.g.mu.Unlock()
	c.v.values.Ascend(0, func(k uint64, value string) bool {
		var n Node
		if n, err = c.node(Node(k >> 32)); err != nil {
			return false
		}
		var name uint32
		if name, err = c.g.internAttribute(c.v.attributes[uint32(k)]); err != nil {
			return false
		}
		c.load.addValue(n, name, value)
		return true
	})
	return err
}
