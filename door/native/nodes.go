package native

// nodes serves Nodes: what this server knows about itself and the nodes that share its log. Its
// caller administers all stores, because the addresses of nodes are about all of them.
func (c *call) nodes() error {
	if _, err := c.QueryOf(); err != nil {
		return err
	}
	if err := c.options.Callers.Administers(c.Context()); err != nil {
		return err
	}
	if c.options.Nodes == nil {
		return c.setJSON(struct {
			Log   string     `json:"log"`
			Nodes []struct{} `json:"nodes"`
		}{"none", []struct{}{}})
	}
	return c.setJSON(c.options.Nodes(c.Context()))
}
