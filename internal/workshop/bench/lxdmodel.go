package bench

import (
	"fmt"
	"strings"

	"github.com/ostiary/ostiary/rel"
)

// The model of the workload "lxd" has the structure of LXD's model of 2024: 21
// types and 170 relations. Each relation is a union of direct assignments to
// identities and groups, other relations of the same type, and a relation of the
// parent (a server, project, instance or volume).

// entitlement is one permission. It is granted directly, by other permissions of
// its type, and by a permission of the parent.
type entitlement struct {
	name   string
	or     []string // the other permissions of the same type
	parent string   // the relation to the parent, for example "project"; may be ""
	from   string   // the permission of the parent
}

// lxdType is a type with the relation to its parent and its permissions.
type lxdType struct {
	name, parent, parentType string
	permissions              []entitlement
}

var verbs = [...]string{"create", "view", "edit", "delete"}

// family returns the four permissions on one kind of things. Each is implied by
// roles, and "view" also by "edit" and "delete".
func family(things, parent string, roles ...string) []entitlement {
	var out []entitlement
	for _, verb := range verbs {
		e := entitlement{name: "can_" + verb + "_" + things, or: roles, parent: parent}
		if parent != "" {
			e.from = e.name
		}
		if verb == "view" {
			e.or = append(append([]string{}, roles...), "viewer", "can_edit_"+things, "can_delete_"+things)
		}
		out = append(out, e)
	}
	return out
}

// leaf returns a type whose permissions are inherited from the parent's permissions
// on things of its kind.
func leaf(name, parent, things string) lxdType {
	t := lxdType{name: name, parent: parent, parentType: parent}
	for _, verb := range verbs[1:] {
		e := entitlement{name: "can_" + verb, parent: parent, from: "can_" + verb + "_" + things}
		if verb == "view" {
			e.or = []string{"can_edit", "can_delete"}
		}
		t.permissions = append(t.permissions, e)
	}
	return t
}

// projectThings are the kinds of things that a project has permissions on.
var projectThings = [...]string{"images", "image_aliases", "instances", "instance_backups", "instance_snapshots", "networks",
	"network_acls", "network_zones", "profiles", "storage_volumes", "storage_buckets", "storage_backups"}

// lxdTypes returns the types of the model.
func lxdTypes() []lxdType {
	server := lxdType{name: "server", permissions: []entitlement{
		{name: "admin"}, {name: "viewer", or: []string{"admin"}}, {name: "can_edit", or: []string{"admin"}},
		{name: "can_view", or: []string{"viewer", "can_edit"}}, {name: "can_view_resources", or: []string{"viewer"}},
		{name: "can_view_metrics", or: []string{"viewer"}}, {name: "can_view_warnings", or: []string{"viewer"}},
		{name: "can_view_events", or: []string{"viewer"}},
	}}
	for _, things := range []string{"identities", "groups", "identity_provider_groups", "certificates", "storage_pools", "projects"} {
		server.permissions = append(server.permissions, family(things, "", "admin")...)
	}
	project := lxdType{name: "project", parent: "server", parentType: "server", permissions: []entitlement{
		{name: "operator"}, {name: "viewer", or: []string{"operator"}},
		{name: "can_view", or: []string{"viewer", "can_edit"}, parent: "server", from: "can_view_projects"},
		{name: "can_edit", parent: "server", from: "can_edit_projects"},
		{name: "can_delete", parent: "server", from: "can_delete_projects"},
		{name: "can_view_operations", or: []string{"viewer"}, parent: "server", from: "can_view_projects"},
	}}
	for _, things := range projectThings {
		family := family(things, "", "operator")
		for i := range family {
			family[i].parent, family[i].from = "server", "can_edit_projects"
		}
		project.permissions = append(project.permissions, family...)
	}
	instance := leaf("instance", "project", "instances")
	for _, name := range []string{"operator", "user", "can_update_state", "can_manage_snapshots", "can_manage_backups", "can_connect_sftp", "can_access_files", "can_exec", "can_access_console"} {
		e := entitlement{name: name, parent: "project", from: "can_edit_instances"}
		if name != "operator" {
			e.or = []string{"operator"}
		}
		instance.permissions = append(instance.permissions, e)
	}
	volume := leaf("storage_volume", "project", "storage_volumes")
	for _, name := range []string{"can_manage_snapshots", "can_manage_backups"} {
		volume.permissions = append(volume.permissions, entitlement{name: name, or: []string{"can_edit"}, parent: "project", from: "can_edit_storage_volumes"})
	}
	alias := leaf("image_alias", "project", "image_aliases")
	alias.permissions = alias.permissions[:2]
	alias.permissions[0].or = []string{"can_edit"}
	types := []lxdType{
		{name: "service_account"}, leaf("identity", "server", "identities"), leaf("group", "server", "groups"),
		leaf("identity_provider_group", "server", "identity_provider_groups"), server,
		leaf("certificate", "server", "certificates"), leaf("storage_pool", "server", "storage_pools"),
		project, leaf("image", "project", "images"), alias, instance,
		leaf("instance_backup", "project", "instance_backups"), leaf("instance_snapshot", "project", "instance_snapshots"),
		leaf("network", "project", "networks"), leaf("network_acl", "project", "network_acls"), leaf("network_zone", "project", "network_zones"),
		leaf("profile", "project", "profiles"), leaf("storage_bucket", "project", "storage_buckets"), volume,
		leaf("storage_volume_backup", "storage_volume", ""), leaf("storage_volume_snapshot", "storage_volume", ""),
	}
	for i := len(types) - 2; i < len(types); i++ {
		for j := range types[i].permissions {
			types[i].permissions[j].from = types[i].permissions[j].name
		}
	}
	return types
}

// LXDModel returns the model of the workload "lxd" in OpenFGA's language.
func LXDModel() string {
	const direct = "[identity, service_account, group#member]"
	var b strings.Builder
	b.WriteString("model\n  schema 1.1\n")
	for _, t := range lxdTypes() {
		fmt.Fprintf(&b, "\ntype %s\n", t.name)
		if t.parent == "" && t.permissions == nil {
			continue
		}
		b.WriteString("  relations\n")
		if t.parent != "" {
			fmt.Fprintf(&b, "    define %s: [%s]\n", t.parent, t.parentType)
		}
		if t.name == "group" {
			b.WriteString("    define member: [identity, service_account]\n")
		}
		for _, p := range t.permissions {
			fmt.Fprintf(&b, "    define %s: %s", p.name, direct)
			for _, o := range p.or {
				b.WriteString(" or " + o)
			}
			if p.parent != "" {
				fmt.Fprintf(&b, " or %s from %s", p.from, p.parent)
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// ProjectEntitlements returns the 54 relations that a listing of a project with
// all entitlements asks for.
func ProjectEntitlements() []string {
	for _, t := range lxdTypes() {
		if t.name == "project" {
			var out []string
			for _, p := range t.permissions {
				out = append(out, p.name)
			}
			return out
		}
	}
	return nil
}

const (
	lxdProjects = 10
	lxdIdentity = "/1.0/auth/identities/tls/5f2d8c1b7a3e4f609182736455463728190a0b0c0d0e0f101112131415161718"
	lxdGroup    = "/1.0/auth/groups/operators"
)

func lxdProject(i int) rel.Object {
	name := "default"
	if i > 0 {
		name = fmt.Sprint("p", i)
	}
	return rel.Object{Type: "project", ID: "/1.0/projects/" + name}
}

// lxdInstance returns the only instance of a project.
func lxdInstance(i int) rel.Object {
	return rel.Object{Type: "instance", ID: fmt.Sprintf("/1.0/instances/c1?project=p%d", i)}
}

// lxdTuples yields 72 tuples: one server with eleven projects. Ten of them have
// two profiles, two volumes and an instance, and a group as their operator.
func lxdTuples(yield func(rel.Tuple) bool) {
	more := true
	add := func(object rel.Object, relation string, subject rel.Subject) {
		more = more && yield(rel.Tuple{Object: object, Relation: relation, Subject: subject})
	}
	inside := func(typ, id string, p int) {
		project := lxdProject(p)
		add(rel.Object{Type: typ, ID: id}, "project", rel.Subject{Type: project.Type, ID: project.ID})
	}
	for p := range lxdProjects + 1 {
		add(lxdProject(p), "server", rel.Subject{Type: "server", ID: "/1.0"})
	}
	inside("profile", "/1.0/profiles/default?project=default", 0)
	for p := 1; p <= lxdProjects; p++ {
		add(lxdProject(p), "operator", rel.Subject{Type: "group", ID: lxdGroup, Relation: "member"})
		inside("profile", fmt.Sprintf("/1.0/profiles/default?project=p%d", p), p)
		inside("profile", fmt.Sprintf("/1.0/profiles/bench-profile?project=p%d", p), p)
		inside("storage_volume", fmt.Sprintf("/1.0/storage-pools/default/volumes/custom/bench-volume?project=p%d", p), p)
		inside("storage_volume", fmt.Sprintf("/1.0/storage-pools/default/volumes/container/c1?project=p%d", p), p)
		inside("instance", lxdInstance(p).ID, p)
	}
}
