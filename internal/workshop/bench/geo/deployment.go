package geo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ostiary/ostiary/internal/workshop/bench"
	"github.com/ostiary/ostiary/internal/workshop/bench/geo/delay"
)

// deployment are the running programs of a cell.
type deployment struct {
	o        *Options
	cell     Cell
	hosts    delay.Hosts
	folder   string // of the cell
	template string // data folder of the database
	at       []int  // hosts that have a server of the database
	settings *Settings
	startMax time.Duration

	databases, servers []*process // that were started
	statements         []*sql.DB
	clients            []string // HOST:PORT of each instance
}

// startMax is how long a program may take until it is ready. Instances that start at the
// same time share the processors.
const startMax = 4 * time.Minute

// deploy starts the database and the instances of a cell, and waits until each of them
// lets the administrator log in.
func (r *Runner) deploy(ctx context.Context, c Cell, hosts delay.Hosts, s *Settings) (d *deployment, err error) {
	d = &deployment{o: &r.o, cell: c, hosts: hosts, at: c.databases(), settings: s, startMax: startMax}
	if err := d.prepare(ctx, r); err != nil {
		return d, err
	}
	if c.System == Keystone {
		err = d.startKeystone()
	} else {
		err = d.startOstiary(ctx, r.shared)
	}
	if err != nil {
		return d, err
	}
	var wait sync.WaitGroup
	errs := make([]error, c.Instances)
	for i, at := range d.clients {
		wait.Go(func() { errs[i] = d.awaitLogin(ctx, i, at) })
	}
	wait.Wait()
	return d, errors.Join(errs...)
}

// prepare makes the folder of the cell and starts the database.
func (d *deployment) prepare(ctx context.Context, r *Runner) (err error) {
	if d.template, err = r.template(ctx, d.cell); err != nil {
		return err
	}
	if d.folder, err = os.MkdirTemp(r.work, "cell-"); err != nil {
		return err
	}
	if err := os.Chmod(d.folder, 0o711); err != nil { // for the user postgres
		return err
	}
	for i := range d.cell.Instances {
		at, err := d.hosts.Client(i, serviceHTTP)
		if err != nil {
			return err
		}
		d.clients = append(d.clients, at)
	}
	return d.startDatabases(ctx)
}

// awaitLogin waits until the administrator can log in on an instance.
func (d *deployment) awaitLogin(ctx context.Context, i int, at string) error {
	p := bench.RallyPlayer{Servers: []string{at}, Password: password}
	defer p.Close()
	return d.await(ctx, fmt.Sprintf("%s of instance %d", d.cell.System, i+1), p.Login)
}

// password is that of the administrator.
const password = "secret"

// close ends all programs and removes the folder.
func (d *deployment) close() error {
	for _, db := range d.statements {
		db.Close()
	}
	for _, group := range [][]*process{d.servers, d.databases} {
		var wait sync.WaitGroup
		for _, p := range group {
			wait.Go(p.stop)
		}
		wait.Wait()
	}
	if d.folder == "" {
		return nil
	}
	return os.RemoveAll(d.folder)
}

// address returns the address of an instance for others, without a port.
func (d *deployment) address(host int) string {
	at, err := d.hosts.Reach(-1, host, serviceDatabase)
	if err != nil {
		return ""
	}
	name, _, _ := net.SplitHostPort(at)
	return name
}

// files are what all instances of this program share.
type files struct {
	key, fernet, receipts string
	certificates          string // folder
}

// shareFiles makes the keys of all instances.
func (o *Options) shareFiles(ctx context.Context, folder string) (files, error) {
	base := filepath.Join(folder, "shared")
	f := files{key: base + ".key", fernet: base + ".fernet", receipts: base + ".receipts", certificates: filepath.Join(folder, "certificates")}
	env := []string{"OS_BOOTSTRAP_PASSWORD=" + password, "OSTIARY_LOG="}
	err := run(ctx, folder, env, o.Program, "keystone", "bootstrap", "--data", base, "--bootstrap-region-id", "RegionOne")
	return f, errors.Join(err, os.RemoveAll(base))
}

// certify makes certificates of the instances that have none in a folder.
func (d *deployment) certify(ctx context.Context, folder string) error {
	var names []string
	for i := range d.cell.Instances {
		name := d.address(i)
		if !exists(filepath.Join(folder, name+".crt")) && (len(names) == 0 || names[len(names)-1] != name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return run(ctx, d.folder, nil, append([]string{d.o.Program, "node", "certificate", "--folder", folder}, names...)...)
}

// startOstiary starts an instance of this program on each host. The first one starts
// alone, so that it is the one that writes: it is next to the first database.
func (d *deployment) startOstiary(ctx context.Context, f files) error {
	if err := d.certify(ctx, f.certificates); err != nil {
		return err
	}
	keys := []string{"--secret-key-file", f.key, "--keystone-keys", f.fernet, "--keystone-receipt-keys", f.receipts}
	serves := append([]string{"--doors", "keystone", "--request-timeout", "60s", "--keystone-request-timeout", "60s", "--keystone-password-hash-rounds", strconv.Itoa(d.cell.Rounds),
		"--keystone-hash-queue", strconv.Itoa(d.settings.HashQueue)}, keys...)
	for _, i := range d.order() {
		if err := d.startInstance(ctx, i, f.certificates, serves); err != nil {
			return err
		}
		if i > 0 {
			continue
		}
		bootstrap := append([]string{d.o.Program, "keystone", "bootstrap", "--data", d.data(0), "--bootstrap-region-id", "RegionOne"}, keys...)
		err := d.await(ctx, "bootstrap of instance 1", func(ctx context.Context) error {
			if socket := filepath.Join(d.data(0), "CONTROL"); !exists(socket) {
				return fmt.Errorf("%s does not exist: the server has not started yet", socket)
			}
			return run(ctx, d.folder, []string{"OS_BOOTSTRAP_PASSWORD=" + password}, bootstrap...)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// reluctance is how much longer the other instances wait before they take over the role
// of the one that writes: it belongs to the instance next to the first database.
const reluctance = 3 * time.Second

// holder returns the number of the instance that writes, from 1, or 0 if it is unknown.
func (d *deployment) holder(ctx context.Context) int {
	if d.cell.System != Ostiary {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for i := range d.cell.Instances {
		at, err := d.hosts.Client(i, serviceMetrics)
		if err != nil {
			return 0
		}
		if writes, err := bench.Writes(ctx, at); err == nil && writes {
			return i + 1
		}
	}
	return 0
}

// order returns the instances in the order in which they start: those with copies of the
// log come first, because the first nodes of a cluster without a database are the ones
// that vote.
func (d *deployment) order() []int {
	all := d.cell.copies()
	for i := range d.cell.Instances {
		if !slices.Contains(all, i) {
			all = append(all, i)
		}
	}
	return all
}

// joinLog returns the setting that gives an instance its log: the address of a database,
// or, without one, a token of the first instance.
func (d *deployment) joinLog(ctx context.Context, i int) (flags, env []string, err error) {
	if d.cell.Store == Raft {
		vote := fmt.Sprintf("--vote=%t", slices.Contains(d.cell.copies(), i))
		if i == 0 {
			return []string{"--cluster", vote}, nil, nil
		}
		token, err := output(d.o.Program, "node", "token", "--data", d.data(0))
		return []string{vote}, []string{"OSTIARY_JOIN=" + token}, err
	}
	log, err := d.hosts.Reach(i, d.database(i), serviceDatabase)
	if d.cell.Store == PostgreSQL {
		log = "postgres://" + account + "@" + log + "/" + account + "?sslmode=disable"
	} else {
		log = "mysql://" + account + ":" + account + "@" + log + "/" + account + "?tls=false"
	}
	return nil, []string{"OSTIARY_LOG=" + log}, err
}

// database returns the host with the server of the database that is nearest to an instance.
func (d *deployment) database(instance int) int {
	if len(d.at) == 1 {
		return d.at[0]
	}
	return d.at[d.cell.database(instance)]
}

// data returns the folder of an instance.
func (d *deployment) data(i int) string { return filepath.Join(d.folder, fmt.Sprintf("node-%d", i+1)) }

// startInstance starts this program on an instance. serves are the arguments that are the
// same on each.
func (d *deployment) startInstance(ctx context.Context, i int, certificates string, serves []string) error {
	listen := map[string]string{}
	for _, service := range []string{serviceHTTP, serviceNodes, serviceMetrics, serviceGRPC} {
		port, err := d.hosts.Port(i, service)
		if err != nil {
			return err
		}
		listen[service] = net.JoinHostPort(d.hosts.Bind(i), strconv.Itoa(port))
	}
	address, err := d.hosts.Reach(-1, i, serviceNodes)
	if err != nil {
		return err
	}
	log, env, err := d.joinLog(ctx, i)
	if err != nil {
		return err
	}
	acknowledge := "leased"
	if d.cell.Local {
		acknowledge = "local"
	}
	command := append([]string{d.o.Program, "serve", "--data", d.data(i), "--http", listen[serviceHTTP], "--grpc", listen[serviceGRPC], "--metrics", listen[serviceMetrics], "--metrics-exposed",
		"--auth-anonymous", "--log-level", "warn", "--nodes-listen", listen[serviceNodes], "--nodes-address", address, "--acknowledge", acknowledge}, append(log, serves...)...)
	if d.cell.Store != Raft { // there the first instance is the authority of the others
		certificate := filepath.Join(certificates, d.address(i))
		command = append(command, "--nodes-ca", filepath.Join(certificates, "ca.crt"), "--nodes-certificate", certificate+".crt", "--nodes-key", certificate+".key")
	}
	if i == 0 {
		command = append(command, "--prefer-holder")
	} else {
		command = append(command, "--holder-reluctance", reluctance.String())
	}
	command = append(command, "--holder-lease", d.settings.HolderLease.String(), "--read-lease", d.settings.ReadLease.String())
	return d.start(&d.servers, i, Ostiary, syscall.SIGTERM, env, command...)
}

// configuration writes the configuration of the real Keystone to a folder and returns
// the folder. connection is the address of its database, HOST:PORT.
func configuration(folder, keys, connection string, rounds int) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	text := strings.Join([]string{"[DEFAULT]", "log_file = " + filepath.Join(folder, "keystone.log"),
		"[database]", "connection = mysql+pymysql://" + account + ":" + account + "@" + connection + "/keystone",
		"[cache]", "enabled = true", "backend = dogpile.cache.memory",
		"[identity]", "password_hash_rounds = " + strconv.Itoa(rounds),
		"[fernet_tokens]", "key_repository = " + filepath.Join(keys, "fernet"),
		"[fernet_receipts]", "key_repository = " + filepath.Join(keys, "receipts"),
		"[credential]", "key_repository = " + filepath.Join(keys, "credential")}, "\n")
	return os.WriteFile(filepath.Join(folder, "keystone.conf"), []byte(text+"\n"), 0o600)
}

// workers is how many processes a real Keystone has on an instance.
const workers = 2

// startKeystone starts a real Keystone on each instance.
func (d *deployment) startKeystone() error {
	for i := range d.cell.Instances {
		database, err := d.hosts.Reach(i, d.database(i), serviceDatabase)
		if err != nil {
			return err
		}
		port, err := d.hosts.Port(i, serviceHTTP)
		if err != nil {
			return err
		}
		folder := filepath.Join(d.folder, fmt.Sprintf("keystone-%d", i+1))
		if err := configuration(folder, d.template+".keys", database, d.cell.Rounds); err != nil {
			return err
		}
		err = d.start(&d.servers, i, "uwsgi", syscall.SIGTERM, []string{"OS_KEYSTONE_CONFIG_DIR=" + folder}, filepath.Join(d.o.Keystone, "bin", "uwsgi"),
			"--http-socket", net.JoinHostPort(d.hosts.Bind(i), strconv.Itoa(port)), "--module", "keystone.wsgi.api:application", "--virtualenv", d.o.Keystone, "--master", "--die-on-term", "--no-orphans",
			"--processes", strconv.Itoa(workers), "--threads", "1", "--lazy-apps", "--disable-logging", "--buffer-size", "65535", "--add-header", "Connection: close")
		if err != nil {
			return err
		}
	}
	return nil
}

// template returns a data folder of the cell's database that cells copy.
func (r *Runner) template(ctx context.Context, c Cell) (string, error) {
	kind := c.Store
	if kind == Raft {
		return "", nil
	}
	if kind == Galera {
		kind = MariaDB
	}
	name := filepath.Join(r.work, kind)
	made := func(name string, how func(string) error) (string, error) {
		if exists(name) {
			return name, nil
		}
		if err := how(name); err != nil {
			return "", errors.Join(fmt.Errorf("make a database of %s: %w", c.Column, err), os.RemoveAll(name))
		}
		return name, nil
	}
	if kind == PostgreSQL {
		folder := filepath.Join(r.work, "of-postgres")
		if err := os.MkdirAll(folder, 0o711); err != nil {
			return "", err
		}
		return made(filepath.Join(folder, kind), func(name string) error { return templatePostgreSQL(ctx, name) })
	}
	empty, err := made(name, func(name string) error { return templateMariaDB(ctx, name) })
	if err != nil || c.System != Keystone {
		return empty, err
	}
	return made(fmt.Sprintf("%s-keystone-%d", name, c.Rounds), func(name string) error { return r.templateKeystone(ctx, empty, name, c.Rounds) })
}

// templateKeystone makes a data folder of MariaDB with the tables and the administrator
// of a real Keystone. The keys are in a folder with .keys at its end.
func (r *Runner) templateKeystone(ctx context.Context, empty, name string, rounds int) (err error) {
	if err := copyFolder(empty, name); err != nil {
		return err
	}
	hosts, err := delay.OpenLoopback(2, func(int, int) time.Duration { return 0 })
	if err != nil {
		return err
	}
	cell := Cell{Column: Column{System: Keystone, Store: MariaDB}, Instances: 3, Zones: zonesSame}
	d := &deployment{o: &r.o, hosts: hosts, startMax: startMax, folder: name + ".make", template: name, cell: cell, at: cell.databases()}
	if err := os.MkdirAll(d.folder, 0o711); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close(), hosts.Close()) }()
	if err := d.startDatabases(ctx); err != nil {
		return err
	}
	at, err := hosts.Client(0, serviceDatabase)
	if err != nil {
		return err
	}
	keys, conf := name+".keys", filepath.Join(d.folder, "conf")
	if err := configuration(conf, keys, at, rounds); err != nil {
		return err
	}
	url := "http://127.0.0.1/v3"
	for _, command := range [][]string{{"db_sync"}, {"fernet_setup"}, {"receipt_setup"}, {"credential_setup"},
		{"bootstrap", "--bootstrap-password", password, "--bootstrap-region-id", "RegionOne", "--bootstrap-admin-url", url, "--bootstrap-internal-url", url, "--bootstrap-public-url", url}} {
		if strings.HasSuffix(command[0], "_setup") {
			if err := os.MkdirAll(keys, 0o700); err != nil {
				return err
			}
			command = append(command, "--keystone-user", strconv.Itoa(os.Getuid()), "--keystone-group", strconv.Itoa(os.Getgid()))
		}
		if err := run(ctx, d.folder, nil, append([]string{filepath.Join(r.o.Keystone, "bin", "keystone-manage"), "--config-dir", conf}, command...)...); err != nil {
			return err
		}
	}
	d.databases[0].stop()
	if err := os.RemoveAll(name); err != nil {
		return err
	}
	return os.Rename(filepath.Join(d.folder, "database-1"), name)
}
