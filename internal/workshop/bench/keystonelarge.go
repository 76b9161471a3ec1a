package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/ostiary/ostiary/internal/identity"
)

// KeystoneSize is the size of a large deployment: users, a tenth as many projects,
// three roles, and five grants for each user. All belong to the default domain.
// The deployment is always the same.
type KeystoneSize struct {
	// Users is the number of users; 0 means none. It is a multiple of 10.
	Users int
}

// keystoneGrants is the number of grants of each user.
const keystoneGrants = 5

// keystoneRoles is the number of roles that are granted.
const keystoneRoles = 3

// Projects returns the number of projects.
func (k KeystoneSize) Projects() int { return k.Users / 10 }

// check fails if the size is not allowed.
func (k KeystoneSize) check() error {
	if k.Users < 0 || k.Users > KeystoneUsersMax || k.Users%10 != 0 {
		return fmt.Errorf("bench: invalid number of users %d: expected a multiple of 10, at most %d", k.Users, KeystoneUsersMax)
	}
	return nil
}

// KeystoneUsersMax bounds [KeystoneSize.Users].
const KeystoneUsersMax = 10_000_000

// UserID returns the id of the i-th user, if Load has made it.
func (KeystoneSize) UserID(i int) string { return fmt.Sprintf("%032x", i) }

// ProjectID returns the id of the i-th project, if Load has made it.
func (KeystoneSize) ProjectID(i int) string { return fmt.Sprintf("%032x", i) }

// RoleID returns the id of the i-th role, if Load has made it.
func (KeystoneSize) RoleID(i int) string { return fmt.Sprintf("%032x", i) }

// Granted returns the project and the role of the n-th grant of a user.
func (k KeystoneSize) Granted(user, n int) (project, role int) {
	return (user*7 + n*13) % k.Projects(), (user + n) % keystoneRoles
}

func largeUser(i int) string    { return fmt.Sprintf("user-%d", i) }
func largeProject(i int) string { return fmt.Sprintf("project-%d", i) }
func largeRole(i int) string    { return fmt.Sprintf("role-%d", i) }

// Load adds the deployment to a service that has the default domain. progress gets
// the number of users and grants that exist.
func (k KeystoneSize) Load(ctx context.Context, s *identity.Service, progress func(done int)) error {
	l := keystoneLoader{ctx: ctx, service: s}
	in := func(kind identity.Kind, id, name string) identity.Record {
		return identity.Record{Kind: kind, ID: id, Name: name, Domain: identity.DefaultDomain}
	}
	for i := range keystoneRoles {
		l.record(identity.Record{Kind: identity.Role, ID: k.RoleID(i), Name: largeRole(i)})
	}
	for i := range k.Projects() {
		l.record(in(identity.Project, k.ProjectID(i), largeProject(i)))
	}
	for i := range k.Users {
		l.record(in(identity.User, k.UserID(i), largeUser(i)))
		progress(i)
	}
	l.flush()
	for i := range k.Users {
		for n := range keystoneGrants {
			project, role := k.Granted(i, n)
			l.grant(identity.Grant{UserID: k.UserID(i), Target: k.ProjectID(project), RoleID: k.RoleID(role)})
		}
		progress(k.Users + keystoneGrants*i)
	}
	l.flush()
	return l.err
}

// keystoneLoader collects records and grants, and loads them in large writes. It
// does nothing after the first error.
type keystoneLoader struct {
	ctx     context.Context
	service *identity.Service
	records []identity.Loaded
	grants  []identity.Grant
	err     error
}

func (l *keystoneLoader) record(r identity.Record) {
	if l.records = append(l.records, identity.Loaded{Record: r}); len(l.records) == identity.LoadRecordsMax {
		l.flush()
	}
}

func (l *keystoneLoader) grant(g identity.Grant) {
	if l.grants = append(l.grants, g); len(l.grants) == identity.LoadLinksMax {
		l.flush()
	}
}

func (l *keystoneLoader) flush() {
	if l.err == nil && len(l.records) > 0 {
		l.done(l.service.LoadRecords(l.ctx, l.records))
	}
	if l.err == nil && len(l.grants) > 0 {
		l.done(l.service.LoadGrants(l.ctx, l.grants))
	}
	l.records, l.grants = l.records[:0], l.grants[:0]
}

func (l *keystoneLoader) done(refused []identity.Refusal, err error) {
	if l.err = err; err == nil && len(refused) > 0 {
		l.err = refused[0].Err
	}
}

// largeRun measures a large deployment on one side.
type largeRun struct {
	*keystoneRun
	size                   KeystoneSize
	users, projects, roles []string // ids of a deployment that was made over HTTP
}

func (k *largeRun) user(i int) string {
	if k.users == nil {
		return k.size.UserID(i)
	}
	return k.users[i]
}

func (k *largeRun) project(i int) string {
	if k.projects == nil {
		return k.size.ProjectID(i)
	}
	return k.projects[i]
}

// makers is how many clients make a deployment over HTTP.
const makers = 4

// make makes the deployment over HTTP, unless it was loaded.
func (k *largeRun) make(ctx context.Context, admin *identityClient) (err error) {
	if _, err := admin.call(ctx, http.MethodGet, "/users/"+k.size.UserID(0), http.StatusOK, nil); err == nil {
		return nil
	}
	progress := k.r.progress("making the deployment of "+k.side.Peer, keystoneRoles+k.size.Projects()+k.size.Users)
	done := 0
	record := func(kind string, n int, name func(int) string) []string {
		ids := make([]string, n)
		err = cmp.Or(err, k.each(ctx, admin, n, func(c *identityClient, i int) (err error) {
			members := map[string]any{"name": name(i), "domain_id": identity.DefaultDomain}
			if kind == "role" {
				delete(members, "domain_id")
			}
			ids[i], err = c.made(ctx, kind, "/"+kind+"s", members)
			return err
		}, func() { done++; progress(done) }))
		return ids
	}
	k.roles = record("role", keystoneRoles, largeRole)
	k.projects = record("project", k.size.Projects(), largeProject)
	k.users = record("user", k.size.Users, largeUser)
	progress = k.r.progress("making the grants of "+k.side.Peer, k.size.Users)
	done = 0
	return cmp.Or(err, k.each(ctx, admin, k.size.Users, func(c *identityClient, i int) error {
		for n := range keystoneGrants {
			project, role := k.size.Granted(i, n)
			if _, err := c.call(ctx, http.MethodPut, "/projects/"+k.projects[project]+"/users/"+k.users[i]+"/roles/"+k.roles[role], http.StatusNoContent, nil); err != nil {
				return err
			}
		}
		return nil
	}, func() { done++; progress(done) }))
}

// each calls do with the numbers below n, from several clients. done is called
// after each, never concurrently.
func (k *largeRun) each(ctx context.Context, admin *identityClient, n int, do func(*identityClient, int) error, done func()) error {
	var mu sync.Mutex
	var wait sync.WaitGroup
	errs := make([]error, makers)
	for m := range makers {
		wait.Go(func() {
			c := k.client()
			c.token = admin.token
			defer c.conn.close()
			for i := m; i < n && errs[m] == nil && ctx.Err() == nil; i += makers {
				errs[m] = do(c, i)
				mu.Lock()
				done()
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	return errors.Join(append(errs, ctx.Err())...)
}

// largePasswords is the number of users with passwords, whose tokens are
// validated.
const largePasswords = 16

// tokens makes users with passwords, each with a role on some project, and returns
// a token of each.
func (k *largeRun) tokens(ctx context.Context, admin *identityClient, garbage *junk) (tokens []string, err error) {
	roles, err := admin.listed(ctx, "roles", "/roles")
	if err != nil {
		return nil, err
	}
	for i := range largePasswords {
		c := k.client()
		c.user, c.pass = randomName(), randomName()
		id, err := admin.made(ctx, "user", "/users", map[string]any{"name": c.user, "domain_id": identity.DefaultDomain, "password": c.pass})
		if err != nil {
			return nil, err
		}
		garbage.users = append(garbage.users, id)
		project := i * k.size.Projects() / largePasswords
		c.scope = largeProject(project)
		if _, err := admin.call(ctx, http.MethodPut, "/projects/"+k.project(project)+"/users/"+id+"/roles/"+roles["member"], http.StatusNoContent, nil); err != nil {
			return nil, err
		}
		err = c.login(ctx)
		c.conn.close()
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, c.token)
	}
	return tokens, nil
}

// largeCells is the number of cells of run.
const largeCells = 8

// run measures lists, validations and effective roles.
func (k *largeRun) run(ctx context.Context, admin *identityClient) (err error) {
	if err := k.make(ctx, admin); err != nil {
		return err
	}
	garbage := &junk{}
	defer func() {
		err = errors.Join(err, (&RallyPlayer{Password: k.o.Password, admin: admin}).remove(context.WithoutCancel(ctx), garbage))
	}()
	tokens, err := k.tokens(ctx, admin, garbage)
	if err != nil {
		return err
	}
	users := k.size.Users
	for _, cell := range []struct {
		name string
		path func() string
	}{
		{"list users", func() string { return "/users" }},
		{"list users, limit 1000", func() string { return "/users?limit=1000" }},
		{"list users by name", func() string { return "/users?name=" + largeUser(rand.IntN(users)) }},
		{"list projects", func() string { return "/projects" }},
		{"list role assignments", func() string { return "/role_assignments" }},
		{"list role assignments of a user", func() string { return "/role_assignments?user.id=" + k.user(rand.IntN(users)) }},
		{"list effective role assignments of a user on a project", func() string {
			user := rand.IntN(users)
			project, _ := k.size.Granted(user, rand.IntN(keystoneGrants))
			return "/role_assignments?effective&user.id=" + k.user(user) + "&scope.project.id=" + k.project(project)
		}},
	} {
		if err := k.list(ctx, admin, cell.name, cell.path); err != nil {
			return err
		}
	}
	return k.r.measure(ctx, k.side, k.cell(fmt.Sprintf("validate tokens of %d users", largePasswords)), k.o.Load, func(ctx context.Context, _, i int) error {
		return admin.validate(ctx, tokens[i%len(tokens)])
	})
}

// cell returns the record of a cell.
func (k *largeRun) cell(name string) Record {
	return Record{Workload: fmt.Sprintf("keystone, %d users", k.size.Users), Cell: name, Size: k.size.Users}
}

// list measures a list by one client: the time to the end of the response, and in
// a record of its own the time to its first byte.
func (k *largeRun) list(ctx context.Context, admin *identityClient, name string, path func() string) error {
	first, size := newResult(), 0
	load := k.o.Load
	load.Clients, load.Timeout = 1, 5*time.Minute
	began := time.Now()
	err := k.r.measure(ctx, k.side, k.cell(name), load, func(ctx context.Context, _, _ int) error {
		begin := time.Now()
		text, err := admin.call(ctx, http.MethodGet, path(), http.StatusOK, nil)
		first.add(admin.conn.first.Sub(begin), err)
		size = len(text)
		return err
	})
	if err != nil {
		return err
	}
	first.Elapsed = time.Since(began)
	record := k.side.record(k.cell(name + ": first byte"))
	record.Load, record.Notes = load.String(), fmt.Sprintf("the response has %d bytes; with the warm-up", size)
	first.Fill(&record)
	return k.r.Emit(record)
}
