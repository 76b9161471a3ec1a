package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ostiary/ostiary/internal/identity/password"
)

// KeystoneOptions are the settings of the workload "keystone".
type KeystoneOptions struct {
	// Workloads are the scenarios. The default is [RallySeven].
	Workloads []RallyWorkload
	// Instances is how many times each workload runs at the same time: 1 is the
	// study's low load, and the number of servers its high load. Default 1.
	Instances int
	// Password is the password of the user admin of project admin.
	Password string
	// Rounds are the rounds of bcrypt of the servers' passwords. They must be the same
	// on all sides. Default 12.
	Rounds int
	// Size, if it has users, plays no scenario and measures lists and validations of
	// a large deployment. A side without the deployment gets it over HTTP, and keeps it.
	Size KeystoneSize
	// Load is the load of the cells of validations. Its clients are ignored.
	Load Load
	// Results, if not nil, gets the results of the scenarios on a side.
	Results func(s *Side, results []RallyResult) error
}

// Keystone plays the scenarios of Rally on each side, which must have [*HTTP]
// targets, and measures validations. A scenario runs twice: as Rally does, with
// three or more logins by password in an iteration, and with clients that are
// logged in already. The name of the workload in records has the cost of a hash.
func (r *Runner) Keystone(ctx context.Context, o KeystoneOptions) error {
	if len(o.Workloads) == 0 {
		o.Workloads = RallySeven()
	}
	if o.Rounds == 0 {
		o.Rounds = password.RoundsDefault
	}
	o.Instances = max(1, o.Instances)
	for i := range o.Workloads {
		if err := o.Workloads[i].check(); err != nil {
			return err
		}
	}
	if err := o.Size.check(); err != nil {
		return err
	}
	if o.Size.Users > 0 {
		r.expect(len(r.Sides) * largeCells)
	} else {
		r.expect(len(r.Sides) * (2*len(o.Workloads) + 3))
		if err := r.hashFloor(o); err != nil {
			return err
		}
	}
	for i := range r.Sides {
		if err := r.keystoneSide(ctx, &r.Sides[i], o); err != nil {
			return fmt.Errorf("%s: %w", r.Sides[i].Peer, err)
		}
	}
	return nil
}

// keystoneWorkload is the name of the workload in records, which has the cost of a
// password hash.
func keystoneWorkload(rounds int) string { return fmt.Sprintf("keystone, hash cost %d", rounds) }

// hashFloor measures one password hash of this program, without any server.
func (r *Runner) hashFloor(o KeystoneOptions) error {
	hash, err := password.Hash("secret", o.Rounds)
	if err != nil {
		return err
	}
	result := newResult()
	const hashes = 10
	for range hashes {
		begin := time.Now()
		_, err := password.Verify("secret", hash)
		result.add(time.Since(begin), err)
	}
	record := Record{Kind: Measured, Workload: keystoneWorkload(o.Rounds), Cell: "one password hash", Peer: "floor", Machine: Machine(), Commit: Commit(), When: time.Now().UTC().Truncate(time.Second)}
	result.Fill(&record)
	return r.Emit(record)
}

// keystoneSide runs all cells on one side.
func (r *Runner) keystoneSide(ctx context.Context, s *Side, o KeystoneOptions) error {
	t, ok := s.Target.(*HTTP)
	if !ok {
		return fmt.Errorf("bench: the workload keystone needs an HTTP target, got %T", s.Target)
	}
	k := &keystoneRun{r: r, side: s, o: o, address: t.base.Host}
	admin := k.client()
	defer admin.conn.close()
	if err := admin.login(ctx); err != nil {
		return fmt.Errorf("log in as admin: %w", err)
	}
	if o.Size.Users > 0 {
		return (&largeRun{keystoneRun: k, size: o.Size}).run(ctx, admin)
	}
	var results []RallyResult
	for _, w := range o.Workloads {
		result, err := k.workload(ctx, admin, w)
		if err != nil {
			return err
		}
		results = append(results, result)
	}
	if o.Results != nil {
		if err := o.Results(s, results); err != nil {
			return err
		}
	}
	return k.validations(ctx, admin)
}

// keystoneRun is the workload on one side.
type keystoneRun struct {
	r       *Runner
	side    *Side
	o       KeystoneOptions
	address string
}

func (k *keystoneRun) client() *identityClient {
	return (&RallyPlayer{Password: k.o.Password}).client(k.address)
}

// workload plays a workload with and without logins, and returns the result of the
// first.
func (k *keystoneRun) workload(ctx context.Context, admin *identityClient, w RallyWorkload) (RallyResult, error) {
	p := RallyPlayer{Password: k.o.Password, admin: admin}
	for range k.o.Instances {
		p.Servers = append(p.Servers, k.address)
	}
	first, err := k.play(ctx, &p, w, w.Scenario)
	if err == nil {
		p.LoggedIn = true
		_, err = k.play(ctx, &p, w, w.Scenario+", logged in")
	}
	return first, err
}

// play runs the iterations of a workload and emits their records.
func (k *keystoneRun) play(ctx context.Context, p *RallyPlayer, w RallyWorkload, name string) (RallyResult, error) {
	title := k.r.nextCell(k.side.Peer + ": " + name)
	var used []time.Duration
	result, err := p.Play(ctx, w, func() {
		if len(used) == 0 { // the cell begins with the iterations, after what they need is made
			p.Progress = k.r.progress(title, w.Times*k.o.Instances)
		}
		used = append(used, k.side.used())
	})
	if err != nil {
		return result, err
	}
	return result, k.emit(name, w.Concurrency*k.o.Instances, &result, used[1]-used[0])
}

// emit emits a record for each action, for their sum and for the whole iteration.
func (k *keystoneRun) emit(name string, clients int, r *RallyResult, cpu time.Duration) error {
	var cells []string
	results := map[string]*Result{}
	at := func(cell string) *Result {
		if results[cell] == nil {
			cells, results[cell] = append(cells, cell), newResult()
			results[cell].Elapsed = r.Load
		}
		return results[cell]
	}
	for i := range r.Iterations {
		x := &r.Iterations[i]
		var err error
		if len(x.Error) > 0 {
			err = &Failure{What: x.Error[0], Err: errors.New(x.Error[1])}
		}
		sum := time.Duration(0)
		for _, a := range x.Actions {
			d := span(a.Finished - a.Started)
			sum += d
			if err == nil {
				at(a.Name[len("keystone_v3."):]).add(d, nil)
			}
		}
		at("sum of actions").add(sum, err)
		at("iteration").add(span(x.Duration), err)
	}
	for _, cell := range cells {
		record := k.side.record(Record{Workload: keystoneWorkload(k.o.Rounds), Cell: name + ": " + cell})
		record.Load = Load{Clients: clients}.String()
		results[cell].Fill(&record)
		if cell == "iteration" && record.N > 0 && k.side.PID != 0 {
			record.ServerCPU = float64(cpu) / float64(record.N)
		}
		if err := results[cell].FirstFailure; err != nil {
			record.Notes = "first failure: " + clip(err.Error())
		}
		if err := k.r.Emit(record); err != nil {
			return err
		}
	}
	return nil
}

// span returns a duration of seconds.
func span(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// loginClients is the number of clients that log in while others validate.
const loginClients = 10

// validations measures validations of one token: by one client, by ten, and by one
// while others log in by password.
func (k *keystoneRun) validations(ctx context.Context, admin *identityClient) error {
	for _, cell := range []struct {
		name    string
		clients int
		logins  bool
	}{{"validate", 1, false}, {"validate", 10, false}, {fmt.Sprintf("validate while %d clients log in", loginClients), 1, true}} {
		load := k.o.Load
		load.Clients = cell.clients
		err := k.during(ctx, cell.logins, func() error {
			list := make([]*identityClient, cell.clients)
			for i := range list {
				list[i] = k.client()
				list[i].token = admin.token
				defer list[i].conn.close()
			}
			return k.r.measure(ctx, k.side, Record{Workload: keystoneWorkload(k.o.Rounds), Cell: cell.name}, load, func(ctx context.Context, client, _ int) error {
				return list[client].validate(ctx, admin.token)
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// during calls run, with logins that go on meanwhile if busy is true.
func (k *keystoneRun) during(ctx context.Context, busy bool, run func() error) error {
	if !busy {
		return run()
	}
	logins, stop := context.WithCancel(ctx)
	var wait sync.WaitGroup
	for range loginClients {
		wait.Go(func() {
			c := k.client()
			defer c.conn.close()
			for logins.Err() == nil {
				_ = c.login(logins) // a failure of the background shows in the foreground
			}
		})
	}
	err := run()
	stop()
	wait.Wait()
	return err
}

// KeystonePublished are figures of Keystone 30.0.0 with Rally 5.1.1 itself: the
// means of 10 iterations by one client, and of 30 by ten.
func KeystonePublished() (records []Record) {
	const source = "Keystone 30.0.0, uwsgi with 2 workers, MariaDB 10.11, measured by Rally 5.1.1 on the same 2 virtual processors"
	add := func(cell string, clients int, n int, meanMillis float64) {
		records = append(records, Record{Kind: Quoted, Source: source, Workload: keystoneWorkload(password.RoundsDefault), Cell: cell, Door: "http", Peer: "keystone", PeerVersion: "30.0.0", Store: "mariadb",
			Load: Load{Clients: clients}.String(), N: n, Mean: meanMillis * 1e6})
	}
	for _, row := range keystoneRows {
		add(row.cell, 1, 10, row.one)
		add(row.cell, 10, 30, row.ten)
	}
	return records
}

// keystoneRows are the means in milliseconds with one client and with ten.
var keystoneRows = []struct {
	cell     string
	one, ten float64
}{
	{"authenticate_user_and_validate_token: fetch_token", 273, 1458}, {"authenticate_user_and_validate_token: validate_token", 293, 1824}, {"authenticate_user_and_validate_token: iteration", 1140, 6190},
	{"create_add_and_list_user_roles: create_role", 319, 1650}, {"create_add_and_list_user_roles: add_role", 16, 212}, {"create_add_and_list_user_roles: list_roles", 15, 175}, {"create_add_and_list_user_roles: iteration", 1040, 5360},
	{"create_and_list_tenants: create_project", 344, 2037}, {"create_and_list_tenants: list_projects", 41, 202}, {"create_and_list_tenants: iteration", 1030, 5180},
	{"get_entities: create_project", 340, 1890}, {"get_entities: create_user", 112, 607}, {"get_entities: create_role", 40, 75}, {"get_entities: get_project", 7, 69}, {"get_entities: get_user", 7, 55},
	{"get_entities: get_role", 11, 45}, {"get_entities: list_services", 10, 39}, {"get_entities: get_services", 8, 73}, {"get_entities: iteration", 1180, 5910},
	{"create_user_update_password: create_user", 343, 2262}, {"create_user_update_password: update_user", 562, 1067}, {"create_user_update_password: iteration", 1530, 7360},
	{"create_user_set_enabled_and_delete: create_user", 345, 1801}, {"create_user_set_enabled_and_delete: update_user", 25, 140}, {"create_user_set_enabled_and_delete: delete_user", 34, 204}, {"create_user_set_enabled_and_delete: iteration", 1070, 5290},
	{"create_and_list_users: create_user", 349, 1850}, {"create_and_list_users: list_users", 29, 139}, {"create_and_list_users: iteration", 1010, 4920},
	{"validate", 5.7, 27.4},
}
