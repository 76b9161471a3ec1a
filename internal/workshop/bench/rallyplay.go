package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// RallyPlayer plays workloads as Rally does, on servers of the Identity API that share
// their state. Its methods must not be called concurrently.
type RallyPlayer struct {
	// Servers are the addresses, HOST:PORT. Each of them gets the whole workload, all at
	// the same time, as from a Rally of its own.
	Servers []string
	// Admin is the address of the server that makes and removes what workloads need.
	// The default is the first of Servers.
	Admin string
	// Password is that of the user admin of project admin.
	Password string
	// Timeout bounds an iteration. An iteration that takes longer fails. 0 means no bound.
	Timeout time.Duration
	// LoggedIn is true if clients have a token already. Otherwise they log in by password,
	// three times or more in an iteration.
	LoggedIn bool
	// Times, if not nil, is called after one iteration on each server, with the time that the
	// longest of them took. It returns how many iterations each server plays then, and these are
	// the result. With 0 there are no others, and the first ones are the result.
	Times func(w RallyWorkload, took time.Duration) int
	// Progress, if not nil, gets the number of finished iterations. It is never called
	// concurrently.
	Progress func(done int)

	admin *identityClient
}

// removers is how many clients remove what a workload has made, at the same time. Nothing is
// measured meanwhile, and with a slow network there is much to wait for.
const removers = 64

// client returns a new client of a server.
func (p *RallyPlayer) client(address string) *identityClient {
	return &identityClient{conn: conn{address: address}, paths: "/v3", user: "admin", pass: p.Password, scope: "admin"}
}

// Login logs in as the administrator. It must be called before [RallyPlayer.Play], and
// again before the token expires.
func (p *RallyPlayer) Login(ctx context.Context) error {
	p.Close()
	p.admin = p.client(cmp.Or(p.Admin, p.Servers[0]))
	if err := p.admin.login(ctx); err != nil {
		return fmt.Errorf("log in as admin: %w", err)
	}
	return nil
}

// Close closes the connection of the administrator.
func (p *RallyPlayer) Close() {
	if p.admin != nil {
		p.admin.conn.close()
	}
}

// Play makes what the workload needs, plays it, and removes what it has made. between is
// called before and after the iterations of the result, without what is made and removed;
// with Times, also before and after the first ones. Errors of iterations are in the result;
// Play fails if it cannot make or remove something, or if ctx ends.
func (p *RallyPlayer) Play(ctx context.Context, w RallyWorkload, between func()) (result RallyResult, err error) {
	garbage := &junk{}
	users, err := p.users(ctx, w, garbage)
	play := func(times int) {
		if err == nil && times > 0 {
			part := w
			part.Times = times
			between()
			result, err = p.iterations(ctx, part, users, garbage)
			between()
		}
	}
	times := w.Times
	if p.Times != nil {
		if play(1); err == nil {
			times = p.Times(w, result.longest())
		}
	}
	play(times)
	return result, errors.Join(err, p.remove(context.WithoutCancel(ctx), garbage))
}

// longest returns how long the longest iteration took.
func (r *RallyResult) longest() (took time.Duration) {
	for _, i := range r.Iterations {
		took = max(took, span(i.Duration))
	}
	return took
}

// pair is a user and its project.
type pair struct{ user, project string }

// users makes the users of the context of a workload.
func (p *RallyPlayer) users(ctx context.Context, w RallyWorkload, garbage *junk) (all []pair, err error) {
	roles, err := p.admin.listed(ctx, "roles", "/roles")
	for range w.Tenants {
		var project string
		if err == nil {
			project, err = p.admin.made(ctx, "project", "/projects", map[string]any{"name": randomName(), "domain_id": "default"})
		}
		if err != nil {
			return nil, err
		}
		garbage.projects = append(garbage.projects, project)
		for range w.Users {
			user, err := p.admin.made(ctx, "user", "/users", map[string]any{"name": randomName(), "domain_id": "default", "password": randomName()})
			if err != nil {
				return nil, err
			}
			garbage.users = append(garbage.users, user)
			if _, err := p.admin.call(ctx, http.MethodPut, "/projects/"+project+"/users/"+user+"/roles/"+roles["member"], http.StatusNoContent, nil); err != nil {
				return nil, err
			}
			all = append(all, pair{user, project})
		}
	}
	return all, nil
}

// iterations runs the iterations of a workload on all servers.
func (p *RallyPlayer) iterations(ctx context.Context, w RallyWorkload, users []pair, garbage *junk) (RallyResult, error) {
	result := RallyResult{Workload: w, Began: time.Now()}
	var mu sync.Mutex
	var wait sync.WaitGroup
	for _, server := range p.Servers {
		numbers := make(chan int, w.Times)
		for n := range w.Times {
			numbers <- n
		}
		close(numbers)
		for range w.Concurrency {
			wait.Go(func() {
				c := p.client(server)
				defer func() {
					c.conn.close()
					mu.Lock()
					result.Requests += c.sent
					mu.Unlock()
				}()
				for n := range numbers {
					if ctx.Err() != nil {
						return
					}
					done, made := p.iteration(ctx, c, w, users[n%len(users)])
					mu.Lock()
					result.Iterations = append(result.Iterations, done)
					garbage.add(made)
					if p.Progress != nil {
						p.Progress(len(result.Iterations))
					}
					mu.Unlock()
				}
			})
		}
	}
	wait.Wait()
	result.Load = time.Since(result.Began)
	return result, ctx.Err()
}

// iteration runs one iteration with a client.
func (p *RallyPlayer) iteration(ctx context.Context, c *identityClient, w RallyWorkload, of pair) (Iteration, junk) {
	if p.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.Timeout)
		defer cancel()
	}
	c.token = p.admin.token
	i := &iteration{identityClient: c, ctx: ctx, each: !p.LoggedIn, user: of.user, project: of.project, enabled: w.Enabled, made: &junk{}}
	done := i.run(w.Scenario)
	if !p.LoggedIn {
		c.conn.close() // the clients of an iteration are new
	}
	return done, *i.made
}

// remove deletes what a workload has made.
func (p *RallyPlayer) remove(ctx context.Context, garbage *junk) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	var errs []error
	for _, kind := range []struct {
		path string
		ids  []string
	}{{"/users/", garbage.users}, {"/roles/", garbage.roles}, {"/projects/", garbage.projects}} {
		ids := make(chan string, len(kind.ids))
		for _, id := range kind.ids {
			ids <- id
		}
		close(ids)
		var mu sync.Mutex
		var wait sync.WaitGroup
		for range min(removers, len(kind.ids)) {
			wait.Go(func() {
				c := p.client(p.admin.conn.address)
				defer c.conn.close()
				c.token = p.admin.token
				for id := range ids {
					_, err := c.call(ctx, http.MethodDelete, kind.path+id, http.StatusNoContent, nil)
					mu.Lock()
					if err != nil && len(errs) < 3 {
						errs = append(errs, err)
					}
					mu.Unlock()
				}
			})
		}
		wait.Wait()
	}
	return errors.Join(errs...)
}
