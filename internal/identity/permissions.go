package identity

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// everyUser is the id of the subject that means all users. What a role gives, it gives
// to everyone who has the role.
const everyUser = "*"

// treePart and abovePart end the relations of a project for the permissions that it
// gives to those below it, and that it has from those above it.
const (
	treePart  = ".tree"
	abovePart = ".above"
)

// permissionBytes are the bytes of the name of a permission.
const permissionBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

// ValidatePermissions fails with Invalid if there are too many permissions, or if a name is
// malformed or is a relation of [Model].
func ValidatePermissions(p settings.Permissions) error {
	if len(p) > settings.PermissionsMax {
		return failf(Invalid, "%d permissions: at most %d are allowed (PermissionsMax)", len(p), settings.PermissionsMax)
	}
	taken := map[string]bool{}
	for _, t := range Model().Types {
		for _, r := range t.Relations {
			taken[r.Name] = true
		}
	}
	for name := range p {
		if name == "" || len(name) > settings.PermissionBytesMax || strings.Trim(name, permissionBytes) != "" {
			return failf(Invalid, "invalid permission %.64q: expected 1 to %d letters, digits, _ or -, for example compute_create", name, settings.PermissionBytesMax)
		}
		if taken[name] {
			return failf(Invalid, "invalid permission %q: role assignments have a relation of this name", name)
		}
	}
	return nil
}

// ModelWith returns the schema of role assignments with permissions, whose names
// are valid.
func ModelWith(names []string) *schema.Model {
	m := Model()
	for _, name := range slices.Sorted(slices.Values(names)) {
		for i := range m.Types {
			t := &m.Types[i]
			t.Relations = append(t.Relations, permissionRelations(t.Name, name)...)
		}
	}
	return m
}

// permissionRelations returns the relations of a type for a permission.
func permissionRelations(of, name string) []schema.RelationDef {
	switch of {
	case roleType:
		return []schema.RelationDef{{Name: name, Rewrite: union(schema.Direct(), schema.Arrow(impliesRelation, name)),
			Subjects: []schema.SubjectType{{Type: userType, Wildcard: true}}}}
	case bindingType:
		both := []schema.Rewrite{schema.Computed(subjectRelation), schema.Arrow(bindingRole, name)}
		return []schema.RelationDef{{Name: name, Rewrite: schema.Rewrite{Op: schema.OpIntersection, Children: both}}}
	case projectType:
		return []schema.RelationDef{
			{Name: name + treePart, Rewrite: schema.Arrow(treeRelation, name)},
			{Name: name + abovePart, Rewrite: union(schema.Arrow(parentRelation, name+treePart), schema.Arrow(parentRelation, name+abovePart))},
			{Name: name, Rewrite: union(schema.Arrow(bindingRelation, name), schema.Computed(name+abovePart))},
		}
	}
	return nil
}

// SetPermissions makes p the permissions of the deployment: it changes the schema if
// their names have changed, and the tuples of the roles. It writes nothing if
// nothing changes. It returns the names of roles that do not exist, which get no
// permission, and fails as [ValidatePermissions].
func (s *Service) SetPermissions(ctx context.Context, p settings.Permissions) (missing []string, err error) {
	if err := ValidatePermissions(p); err != nil {
		return nil, err
	}
	if err := s.permissionSchema(ctx, p); err != nil {
		return nil, err
	}
	_, err = s.write(ctx, func(d *directory) (w authz.WriteRequest, err error) {
		var wanted []rel.Tuple
		wanted, missing = d.permissionTuples(p)
		stored, err := s.read(ctx, rel.Filter{ObjectType: roleType, SubjectType: userType, SubjectID: everyUser})
		if err != nil {
			return w, err
		}
		for _, t := range stored {
			if !slices.Contains(wanted, t) {
				w.Remove = append(w.Remove, t.Key())
			}
		}
		for _, t := range wanted {
			if !slices.Contains(stored, t) {
				w.Add = append(w.Add, t)
			}
		}
		return w, nil
	})
	return missing, err
}

// PermissionNames returns the permissions that the schema of the deployment has,
// sorted.
func (s *Service) PermissionNames(ctx context.Context) ([]string, error) {
	current, err := s.store.Schema(ctx, "")
	if err != nil {
		return nil, err
	}
	var names []string
	own := relationsOf(Model(), bindingType)
	for name := range relationsOf(current.Model, bindingType) {
		if !own[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// relationsOf returns the names of the relations of a type.
func relationsOf(m *schema.Model, of string) map[string]bool {
	names := map[string]bool{}
	for _, t := range m.Types {
		for _, r := range t.Relations {
			if t.Name == of {
				names[r.Name] = true
			}
		}
	}
	return names
}

// permissionSchema writes the schema with permissions unless it is the current one.
func (s *Service) permissionSchema(ctx context.Context, p settings.Permissions) error {
	wanted := ModelWith(slices.Collect(maps.Keys(p)))
	current, err := s.store.Schema(ctx, "")
	if err != nil && !errors.Is(err, authz.ErrNoSchema) {
		return err
	}
	if err == nil {
		a, err1 := json.Marshal(wanted)
		b, err2 := json.Marshal(current.Model)
		if err1 == nil && err2 == nil && bytes.Equal(a, b) {
			return nil
		}
	}
	_, _, err = s.store.WriteSchema(ctx, authz.SchemaSource{Model: wanted, Dialect: "identity"})
	return err
}

// permissionTuples returns the tuples of the roles that give permissions, and the
// names of roles that do not exist, sorted.
func (d *directory) permissionTuples(p settings.Permissions) (tuples []rel.Tuple, missing []string) {
	for _, permission := range slices.Sorted(maps.Keys(p)) {
		for _, name := range p[permission] {
			role := d.find(Role, "", name)
			if role == nil {
				missing = append(missing, name)
				continue
			}
			t := tuple(object(roleType, role.ID), permission, plain(userType, everyUser))
			if !slices.Contains(tuples, t) {
				tuples = append(tuples, t)
			}
		}
	}
	slices.Sort(missing)
	return tuples, slices.Compact(missing)
}
