//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/ostiary/ostiary/internal/workshop/bench"
	"github.com/ostiary/ostiary/internal/workshop/fleet"
	"github.com/ostiary/ostiary/policy/language"
	"github.com/ostiary/ostiary/policy/message"
	"github.com/ostiary/ostiary/rel"
)

// The data of the paths of OpenFGA: a user reaches a document over three relations.
const (
	model = `model
  schema 1.1
type user
type group
  relations
    define member: [user, group#member]
type doc
  relations
    define viewer: [user, group#member]
`
	users, docs = 1_000, 20 // docs are those that one user can view
	password    = "secret"
)

func tuple(object, relation, subject string) rel.Tuple {
	o, err1 := rel.ParseObject(object)
	s, err2 := rel.ParseSubject(subject)
	if err := errors.Join(err1, err2); err != nil {
		panic(err) // the names are those below
	}
	return rel.Tuple{Object: o, Relation: relation, Subject: s}
}

// tuples yields the tuples: a group of each user is in another group, which views docs.
func tuples(yield func(rel.Tuple) bool) {
	for i := range users {
		user, inner, outer := fmt.Sprint("user:", i), fmt.Sprint("group:inner-", i), fmt.Sprint("group:outer-", i)
		if !yield(tuple(inner, "member", user)) || !yield(tuple(outer, "member", inner+"#member")) {
			return
		}
		for n := range docs {
			if !yield(tuple(fmt.Sprintf("doc:%d-%d", i, n), "viewer", outer+"#member")) {
				return
			}
		}
	}
}

// check returns the i-th question. Each second one is denied.
func check(i int) bench.Check {
	user := i % users
	other := (user + i%2) % users
	t := tuple(fmt.Sprintf("doc:%d-%d", user, i%docs), "viewer", fmt.Sprint("user:", other))
	return bench.Check{Object: t.Object, Relation: t.Relation, Subject: t.Subject, Allowed: other == user}
}

// path is a hot path.
type path struct {
	name string
	// prepare returns what plays a turn. end, if it is not nil, is called at the end, also
	// after an error.
	prepare func(ctx context.Context, s *side) (p play, end func() error, err error)
}

// paths are the hot paths.
var paths = []path{
	{"Check, HTTP", func(_ context.Context, s *side) (play, func() error, error) {
		return s.prepared(s.http, checks(1))
	}},
	{"Check, gRPC", func(_ context.Context, s *side) (play, func() error, error) {
		return s.prepared(s.grpc, checks(1))
	}},
	{"batch of 20 checks, HTTP", func(_ context.Context, s *side) (play, func() error, error) {
		return s.prepared(s.http, checks(20))
	}},
	{"list of 20 objects, HTTP", func(_ context.Context, s *side) (play, func() error, error) {
		var all []bench.Request
		for i := range users {
			subject := tuple("doc:0", "viewer", fmt.Sprint("user:", i)).Subject
			all = append(all, bench.Request{List: &bench.List{Type: "doc", Relation: "viewer", Subject: subject, Count: docs}})
		}
		return s.prepared(s.http, all)
	}},
	{"write, one node", func(_ context.Context, s *side) (play, func() error, error) {
		return s.load(s.writes(s.http), s.server.command.Process.Pid), nil, nil
	}},
	{"write, passed on", passedOn},
	{"token validation", validation},
	{"XACML decision, 100 policies", decision},
	{"register a document", register},
	{"start of the server", begin},
}

// checks returns requests of n questions each.
func checks(n int) (all []bench.Request) {
	for i := range users {
		if n == 1 {
			c := check(i)
			all = append(all, bench.Request{Check: &c})
			continue
		}
		var batch []bench.Check
		for k := range n {
			batch = append(batch, check(i*n+k))
		}
		all = append(all, bench.Request{Batch: batch})
	}
	return all
}

// prepared plays requests, which are encoded before.
func (s *side) prepared(target bench.Target, requests []bench.Request) (play, func() error, error) {
	var all []bench.Prepared
	for _, r := range requests {
		p, err := target.Prepare(r)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, p)
	}
	return s.load(func(ctx context.Context, client, i int) error { return all[i%len(all)].Send(ctx, client) }, s.server.command.Process.Pid), nil, nil
}

// writes returns what writes a new tuple in each request.
func (s *side) writes(target bench.Target) bench.Send {
	return func(ctx context.Context, client, _ int) error {
		p, err := target.Prepare(bench.Request{Write: []rel.Tuple{tuple(fmt.Sprint("doc:written-", s.written.Add(1)), "viewer", "user:0")}})
		if err != nil {
			return err
		}
		return p.Send(ctx, client)
	}
}

// passedOn writes at a node that does not write itself, of three that keep the log. The
// processor time is that of all nodes.
func passedOn(ctx context.Context, s *side) (play, func() error, error) {
	folder := filepath.Join(s.folder, "nodes")
	if err := os.Mkdir(folder, 0o755); err != nil {
		return nil, nil, err
	}
	f, err := fleet.Start(ctx, fleet.Options{Program: s.program, Folder: folder, Nodes: 3})
	end := func() error { return errors.Join(f.Close(), os.RemoveAll(folder)) }
	if err != nil {
		return nil, end, err
	}
	var pids []int
	targets := map[*fleet.Node]*bench.HTTP{}
	var setup *bench.HTTP
	for _, n := range f.Nodes {
		pids = append(pids, n.Process())
		if targets[n], err = bench.NewHTTP("http://"+n.HTTP, ""); err != nil {
			return nil, end, err
		}
		setup = targets[n]
	}
	if err := setup.Setup(ctx, model, func(yield func(rel.Tuple) bool) { yield(tuple("doc:0", "viewer", "user:0")) }, func(int) {}); err != nil {
		return nil, end, err
	}
	for _, n := range f.Nodes {
		if err := targets[n].Attach(ctx); err != nil {
			return nil, end, err
		}
	}
	return func(ctx context.Context) (figure, error) {
		holder := f.Holder(ctx)
		for _, n := range f.Nodes {
			if holder != nil && n != holder {
				return s.load(s.writes(targets[n]), pids...)(ctx)
			}
		}
		return figure{}, errors.New("no node writes")
	}, end, nil
}

// validation validates a token of Identity, with itself as the token of the caller.
func validation(ctx context.Context, s *side) (play, func() error, error) {
	at := "http://" + s.server.http + "/v3/auth/tokens"
	login := `{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"admin","domain":{"id":"default"},"password":"` + password + `"}}},"scope":{"system":{"all":true}}}}`
	header, _, err := send(ctx, http.MethodPost, at, "application/json", []byte(login), nil)
	if err != nil {
		return nil, nil, err
	}
	token := http.Header{"X-Auth-Token": header["X-Subject-Token"], "X-Subject-Token": header["X-Subject-Token"]}
	return s.load(func(ctx context.Context, _, _ int) error {
		_, _, err := send(ctx, http.MethodGet, at, "application/json", nil, token)
		return err
	}, s.server.command.Process.Pid), nil, nil
}

// decision asks for a decision of the policy in the middle of 100.
func decision(ctx context.Context, s *side) (play, func() error, error) {
	at := "http://" + s.server.http + "/xacml/v3/"
	root, request := bench.XACMLShape(100)
	text, err := language.PrintXML(root)
	if err != nil {
		return nil, nil, err
	}
	if _, _, err := send(ctx, http.MethodPost, at+"domains", "application/json", []byte(`{"name":"beside","alias":"default"}`), nil); err != nil {
		return nil, nil, err
	}
	if _, _, err := send(ctx, http.MethodPut, at+"root", "application/xml", text, nil); err != nil {
		return nil, nil, err
	}
	body := message.PrintJSONRequest(request)
	return s.load(func(ctx context.Context, _, _ int) error {
		_, answer, err := send(ctx, http.MethodPost, at+"pdp", "application/xacml+json", body, nil)
		if err == nil && !strings.Contains(answer, "Permit") {
			err = fmt.Errorf("the decision is %s, expected Permit", answer)
		}
		return err
	}, s.server.command.Process.Pid), nil, nil
}

// register registers documents with access control, in a program that embeds the engine:
// a benchmark of ostiary-bench, which is next to the program. In earlier commits it was a
// command of the program.
func register(_ context.Context, s *side) (play, func() error, error) {
	const documents, runs = 256, 5
	file := filepath.Join(s.folder, "acp")
	benchmark := []string{s.program + "-bench", "acp"}
	if _, err := os.Stat(benchmark[0]); errors.Is(err, os.ErrNotExist) {
		benchmark = []string{s.program, "bench", "acp"}
	}
	benchmark = append(benchmark, "--scales", fmt.Sprint(documents), "--runs", fmt.Sprint(runs), "--duration", "1ms", "--out", file)
	return func(ctx context.Context) (figure, error) {
		if err := os.RemoveAll(file); err != nil {
			return figure{}, err
		}
		c := exec.CommandContext(ctx, benchmark[0], benchmark[1:]...)
		if out, err := c.CombinedOutput(); err != nil {
			return figure{}, fmt.Errorf("ostiary-bench acp: %w\n%s", err, out)
		}
		in, err := os.Open(file)
		if err != nil {
			return figure{}, err
		}
		defer in.Close()
		records, err := bench.Read(file, in)
		if err != nil {
			return figure{}, err
		}
		for _, r := range records {
			if r.Kind == bench.Measured && r.Cell == "register all, in memory" {
				return figure{clock: time.Duration(r.Median / documents)}, nil
			}
		}
		return figure{}, errors.New("ostiary-bench acp has no record of documents in memory")
	}, nil, nil
}

// begin starts a server on a folder with data, until it is ready.
func begin(ctx context.Context, s *side) (play, func() error, error) {
	data := filepath.Join(s.folder, "started")
	first, err := s.serve(ctx, data)
	if err != nil {
		return nil, nil, err
	}
	target, err := bench.NewHTTP("http://"+first.http, "")
	if err == nil {
		err = errors.Join(target.Setup(ctx, model, tuples, func(int) {}), target.Close())
	}
	if err := errors.Join(err, first.kill()); err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context) (figure, error) {
		began := time.Now()
		p, err := s.serve(ctx, data)
		if err != nil {
			return figure{}, err
		}
		took := time.Since(began)
		if err := p.kill(); err != nil {
			return figure{}, err
		}
		return figure{took, p.command.ProcessState.UserTime() + p.command.ProcessState.SystemTime()}, nil
	}, nil, nil
}
