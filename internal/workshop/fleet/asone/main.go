//go:build linux

// Command asone is the program ostiary, except that "serve" starts three nodes over one
// shared log, and sends each request to the next of them. So a suite that starts a server
// plays on three nodes when it gets this program instead.
//
// ASONE_PROGRAM is the path of ostiary. ASONE_SERVER is the URL of a database server, in
// which each start makes a database: postgres://USER@HOST or mysql://USER@HOST; without it
// the nodes keep the log themselves. ASONE_KILL is how often the node that writes is
// killed, for example 20s; without it no node is. ASONE_FLAGS has more flags of each node,
// for example --holder-lease=5s on a busy machine. Commands that need no server are run by
// ostiary; "keystone bootstrap" is run again on the nodes when they serve.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ostiary/ostiary/internal/workshop/bench/servers"
	"github.com/ostiary/ostiary/internal/workshop/fleet"
)

const nodesTotal = 3

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "asone:", err)
		os.Exit(1)
	}
}

func run() error {
	program, args := os.Getenv("ASONE_PROGRAM"), os.Args[1:]
	if program == "" {
		return errors.New("ASONE_PROGRAM is empty, expected the path of ostiary")
	}
	if slices.Contains(args, "bootstrap") {
		if err := remember(args); err != nil {
			return err
		}
	}
	if !slices.Contains(args, "serve") {
		return syscall.Exec(program, append([]string{program}, args...), os.Environ())
	}
	c, err := parse(args)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return c.serve(ctx, program)
}

// command is "ostiary serve" with its flags.
type command struct {
	data   string
	fronts []front
	rest   []string // flags for each node
}

// front is a port of the server.
type front struct {
	flag, name string // for example --door and keystone=http://
	address    string
	rpc        bool
}

// parse reads a command line. Every flag but --json has a value.
func parse(args []string) (c command, err error) {
	for i := 0; i < len(args); i++ {
		name, value, ok := strings.Cut(args[i], "=")
		switch {
		case name == "serve":
			continue
		case name == "--json", name == "--openfga-inline-expressions":
			c.rest = append(c.rest, args[i])
			continue
		case !ok && i+1 == len(args):
			return c, fmt.Errorf("%s has no value", name)
		case !ok:
			i++
			value = args[i]
		}
		switch name {
		case "--data":
			c.data = value
		case "--metrics", "--drain-time", "--keystone-notifications": // each node has its own
		case "--http", "--grpc":
			c.fronts = append(c.fronts, front{name, "", value, name == "--grpc"})
		case "--door":
			at := strings.Index(value, "://") + len("://")
			c.fronts = append(c.fronts, front{name, value[:at], value[at:], strings.HasSuffix(value[:at], "=grpc://")})
		default:
			c.rest = append(c.rest, name+"="+value)
		}
	}
	return c, nil
}

// serve serves until ctx ends.
func (c *command) serve(ctx context.Context, program string) (err error) {
	folder, err := os.MkdirTemp("", "asone-")
	if err != nil {
		return err
	}
	defer func() {
		if err == nil {
			_ = os.RemoveAll(folder)
		}
	}()
	log := fleet.Log{Name: "asone"}
	if server := os.Getenv("ASONE_SERVER"); server != "" {
		if log.URL, err = newDatabase(ctx, server); err != nil {
			return fmt.Errorf("the database: %w", err)
		}
	}
	var kill time.Duration
	if text := os.Getenv("ASONE_KILL"); text != "" {
		if kill, err = time.ParseDuration(text); err != nil {
			return fmt.Errorf("ASONE_KILL is %q, expected a time such as 20s", text)
		}
	}
	to := make([][]string, len(c.fronts)) // the addresses of the nodes, by front
	f, err := fleet.Start(ctx, fleet.Options{Program: program, Folder: folder, Nodes: nodesTotal, Log: log,
		Flags: slices.Concat(patience(kill, log.URL != ""), c.rest, c.keys(), strings.Fields(os.Getenv("ASONE_FLAGS"))), Ports: func(n *fleet.Node, host string) (flags []string) {
			for i, front := range c.fronts {
				at := "off"
				if front.address != "off" {
					if len(to[i]) == n.Number { // its first start
						if at, err = servers.FreePort(host); err != nil {
							at = net.JoinHostPort(host, "0")
						}
						to[i] = append(to[i], at)
					}
					at = to[i][n.Number]
				}
				flags = append(flags, front.flag, front.name+at)
			}
			return flags
		}})
	defer func() { err = errors.Join(err, f.Close()) }()
	if err != nil {
		return err
	}
	if err := c.bootstrap(ctx, f, program); err != nil {
		return err
	}
	var balancers []*fleet.Balancer
	for i, front := range c.fronts {
		if front.address == "off" {
			continue
		}
		b := fleet.NewBalancer(to[i], front.rpc)
		balancers = append(balancers, b)
		at, err := b.Listen(front.address)
		if err != nil {
			return err
		}
		defer closeBalancer(b)
		fmt.Printf("serving %s %s\n", strings.Trim(cmpName(front), "-=:/"), at)
	}
	if kill > 0 {
		kills, killErr := f.KillHolders(ctx, kill, balancers...)
		fmt.Fprintf(os.Stderr, "asone: the node that writes was killed %d times\n", kills)
		err = errors.Join(err, killErr)
	}
	<-ctx.Done()
	for _, n := range f.Nodes {
		err = errors.Join(err, n.Stop())
	}
	return err
}

// patience returns flags for a machine that is busy with other programs: a node that does
// not get a processor for seconds is no fault that a suite is to find. Leases keep their
// defaults while nodes are killed, because nothing is written until they have ended, and
// without a database, because the nodes' own log has its elections by them.
func patience(kill time.Duration, database bool) []string {
	flags := []string{"--request-timeout", "60s"}
	if kill == 0 && database {
		flags = append(flags, "--holder-lease", "45s", "--read-lease", "30s")
	}
	return flags
}

func cmpName(f front) string {
	if f.name != "" {
		return f.name
	}
	return f.flag
}

// drainTime is how long requests that are under way may last at the end.
const drainTime = 5 * time.Second

func closeBalancer(b *fleet.Balancer) {
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	_ = b.Close(ctx)
}

// keys returns flags for the keys that a bootstrap has made for the folder.
func (c *command) keys() (flags []string) {
	for flag, end := range map[string]string{"--secret-key-file": ".key", "--keystone-keys": ".fernet", "--keystone-receipt-keys": ".receipts"} {
		if _, err := os.Stat(c.data + end); err == nil {
			flags = append(flags, flag, c.data+end)
		}
	}
	return flags
}

// remembered is the file with the arguments of a bootstrap of a folder.
const remembered = ".asone"

// remember stores the arguments of a bootstrap.
func remember(args []string) error {
	at := slices.Index(args, "--data")
	if at < 0 || at+1 == len(args) {
		return errors.New("keystone bootstrap without --data FOLDER")
	}
	text, err := json.Marshal(append(slices.Clone(args[:at]), args[at+2:]...))
	if err != nil {
		return err
	}
	return os.WriteFile(args[at+1]+remembered, text, 0o600)
}

// bootstrap repeats the bootstrap of the folder on the node that writes.
func (c *command) bootstrap(ctx context.Context, f *fleet.Fleet, program string) error {
	text, err := os.ReadFile(c.data + remembered)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var args []string
	if err == nil {
		err = json.Unmarshal(text, &args)
	}
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		holder := f.Holder(ctx)
		if holder == nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		run := exec.CommandContext(ctx, program, append([]string{"--data", holder.Data()}, append(args, c.keys()...)...)...)
		run.Env = append(os.Environ(), "OS_BOOTSTRAP_PASSWORD=secret")
		if out, err := run.CombinedOutput(); err != nil {
			return fmt.Errorf("bootstrap on node %d: %w\n%s", holder.Number, err, out)
		}
		return nil
	}
	return ctx.Err()
}
