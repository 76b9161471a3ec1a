package identity

import "context"

// Above returns the projects above a project and its domain, the nearest first. It
// fails with NotFound.
func (s *Service) Above(ctx context.Context, project string) (all []*Record, err error) {
	d, err := s.at(ctx)
	if err != nil {
		return nil, err
	}
	r, err := d.get(Project, project)
	for err == nil && r.Parent != "" {
		if r, err = d.get(Project, r.Parent); err == nil {
			all = append(all, r)
		}
	}
	return all, err
}

// Below returns the projects directly below a project or a domain, in the order of
// their ids.
func (s *Service) Below(ctx context.Context, project string) ([]*Record, error) {
	d, err := s.at(ctx)
	if err != nil {
		return nil, err
	}
	return d.below(Project, project), nil
}
