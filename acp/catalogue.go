package acp

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// Catalogue lists the names in a policy, and the objects and actors in its
// relationships.
type Catalogue struct {
	// ActorResource is the name of the actors' type.
	ActorResource string
	// Actors are the DIDs of owners and of actors in relationships, sorted. All actors
	// ("*") are not among them.
	Actors []string
	// Resources maps the name of each resource to its part of the catalogue.
	Resources map[string]ResourceCatalogue
}

// ResourceCatalogue lists the names and the objects of one resource. Each list is
// sorted.
type ResourceCatalogue struct {
	// Permissions and Relations are the names in the policy; Relations includes
	// owner.
	Permissions, Relations []string
	// Objects are the ids of the registered objects, archived ones included.
	Objects []string
}

// Catalogue returns the catalogue of a policy. It reads all relationships of the
// policy, and fails with [ErrBound] if there are more than [Options].BatchMax
// objects and actors.
func (e *Engine) Catalogue(ctx context.Context, policy string) (*Catalogue, error) {
	c, err := e.catalogue(ctx, policy)
	if err != nil {
		return nil, failed("get catalogue", err)
	}
	return c, nil
}

func (e *Engine) catalogue(ctx context.Context, policy string) (*Catalogue, error) {
	rec, err := e.Policy(ctx, policy)
	if err != nil {
		return nil, err
	}
	actors, objects, count := map[string]bool{}, map[string][]string{}, 0
	for x, err := range e.FilterRelationships(ctx, policy, RelationshipFilter{}) {
		if err != nil {
			return nil, err
		}
		if x.Relation == ownerRelation {
			objects[x.Object.Resource] = append(objects[x.Object.Resource], x.Object.ID)
			count++
		}
		if x.Subject.Actor != "" && x.Subject.Actor != AllActors {
			actors[x.Subject.Actor] = true
		}
		if n := count + len(actors); n > e.opts.BatchMax {
			return nil, fmt.Errorf("%w: more than BatchMax objects and actors, which is %d", ErrBound, e.opts.BatchMax)
		}
	}
	c := &Catalogue{ActorResource: rec.Actor.Name, Actors: slices.Sorted(maps.Keys(actors)), Resources: map[string]ResourceCatalogue{}}
	for i := range rec.Resources {
		res := &rec.Resources[i]
		r := ResourceCatalogue{Relations: res.relationNames(), Objects: objects[res.Name]}
		for j := range res.Permissions {
			r.Permissions = append(r.Permissions, res.Permissions[j].Name)
		}
		for _, list := range [...][]string{r.Relations, r.Permissions, r.Objects} {
			slices.Sort(list)
		}
		c.Resources[res.Name] = r
	}
	return c, nil
}
