package sim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/workshop/history"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// The things that the clients write. Few of them, so that they meet.
const (
	docsTotal    = 5
	secretsTotal = 2
	aliasesTotal = 2
)

const (
	aliasDoor  = "sim"
	secretKind = "password"
)

// client makes one call after the other.
type client struct {
	world  *world
	number int
	token  authz.Token // the newest that it has seen
	stores []owned     // the stores that it has created
}

// owned is a store of a client.
type owned struct {
	id    storage.StoreID
	alias int
}

// process returns the newest process of a random node, or nil if that was killed.
func (w *world) process() *process {
	p := w.machines[w.random(nodesTotal)].process.Load()
	if p.killed.Load() {
		return nil
	}
	return p
}

// deadline returns the context of a call. Some callers leave early.
func (w *world) deadline() (context.Context, context.CancelFunc) {
	limit := 3 * time.Second
	if w.random(6) == 0 {
		limit = time.Duration(w.random(60)) * time.Millisecond
	}
	return context.WithTimeout(w.ctx, limit)
}

func (c *client) run() {
	w, pause := c.world, 200
	if w.far > 0 {
		pause = 50
	}
	for range callsEach {
		if p := w.process(); p != nil {
			c.call(p)
		}
		time.Sleep(time.Duration(w.random(pause)) * time.Millisecond)
	}
}

// call makes a random call.
func (c *client) call(p *process) {
	ctx, cancel := c.world.deadline()
	defer cancel()
	switch n := c.world.random(100); {
	case n < 35:
		c.write(ctx, p, "", history.Call{})
	case n < 42:
		c.writeAfter(ctx, p)
	case n < 49:
		need := c.world.random(docsTotal)
		c.write(ctx, p, "", history.Call{Needs: true, Need: need, NeedThere: c.world.random(2) == 0})
	case n < 65:
		k := history.Full
		if c.world.network != nil && c.world.random(2) == 0 {
			k = history.Newest
		}
		c.read(ctx, p, k)
	case n < 76:
		c.read(ctx, p, history.Least)
	case n < 83:
		c.read(ctx, p, history.Newest)
	case n < 86:
		c.read(ctx, p, history.Local)
	case n < 92:
		c.catalog(ctx, p)
	case n < 95:
		c.putSecret(ctx, p)
	default:
		c.readSecret(ctx, p)
	}
}

// write adds or removes the tuple of a document. If the outcome is open, it sometimes
// sends the same request again. It often looks at once whether the node shows the write, or
// whether another one does.
func (c *client) write(ctx context.Context, p *process, after authz.Token, made history.Call) {
	w := c.world
	made.Kind, made.Thing = history.Add, w.random(docsTotal)
	request := authz.WriteRequest{After: after}
	if w.random(2) == 0 {
		made.Kind = history.Remove
	}
	t := history.DocumentTuple(made.Thing)
	if made.Kind == history.Add {
		request.Add = []rel.Tuple{t}
	} else {
		request.Remove = []rel.Key{t.Key()}
	}
	if made.Needs {
		t := history.DocumentTuple(made.Need)
		f := rel.Filter{ObjectType: "doc", ObjectID: t.Object.ID, Relation: t.Relation}
		request.Preconditions = []authz.Precondition{{Filter: f, Absent: !made.NeedThere}}
	}
	if made.Ignores = w.random(4) == 0; made.Ignores {
		request.OnDuplicate, request.OnMissing = authz.Ignore, authz.Ignore
	}
	made.Mark = w.record.newMark()
	request.Origin.Reason = made.Mark
	result := c.send(ctx, p, made, request)
	if result == history.Open && w.random(2) == 0 {
		made.Again = true
		again, cancel := w.deadline()
		defer cancel()
		result = c.send(again, p, made, request)
	}
	switch {
	case result == history.Open:
	case w.random(2) == 0:
		c.read(ctx, p, history.Local)
	case w.network != nil:
		if other := w.process(); other != nil {
			c.read(ctx, other, history.Newest)
		}
	}
}

// send makes a write and returns its outcome.
func (c *client) send(ctx context.Context, p *process, made history.Call, r authz.WriteRequest) history.Outcome {
	token, done, maker := authz.Token(""), c.world.begin(made, p), p
	err := c.world.forward(ctx, p, func(p *process) (err error) {
		maker = p
		token, err = p.write(ctx, r)
		return err
	})
	return done(err, func(made *call) {
		made.Revision, made.maker = revision(token), maker
		c.token = token
	})
}

func (p *process) write(ctx context.Context, r authz.WriteRequest) (authz.Token, error) {
	s, err := p.engine.Store(ctx, p.world.id)
	if err != nil {
		return "", err
	}
	return s.Write(ctx, r)
}

func revision(t authz.Token) storage.Revision {
	r, err := t.Revision()
	if err != nil {
		panic(err) // a token of the engine
	}
	return r
}

// writeAfter reads the state and writes if nothing has changed since.
func (c *client) writeAfter(ctx context.Context, p *process) {
	s, err := p.engine.Store(ctx, c.world.id)
	if err != nil {
		return
	}
	if token, err := s.Head(ctx); err == nil {
		c.write(ctx, p, token, history.Call{Follows: true, After: revision(token)})
	}
}

// read asks for the tuple of a document.
func (c *client) read(ctx context.Context, p *process, k history.Kind) {
	made, consistency := history.Call{Kind: k, Thing: c.world.random(docsTotal)}, authz.Consistency{}
	switch {
	case k == history.Local:
		consistency = authz.MinimizeLatency()
	case k == history.Full:
		consistency = authz.FullyConsistent()
	case k == history.Least && c.token == "":
		return
	case k == history.Least:
		consistency, made.After = authz.AtLeast(c.token), revision(c.token)
	}
	t := history.DocumentTuple(made.Thing)
	done := c.world.begin(made, p)
	s, r, err := c.world.check(ctx, p, t.Object, t.Relation, t.Subject.ID, consistency)
	done(err, func(made *call) {
		made.Revision, made.There = r.Revision, r.Decision.String() == "true"
		if token, err := s.TokenAt(ctx, r.Revision); err == nil {
			c.token = token
		}
	})
}

func (w *world) check(ctx context.Context, p *process, object rel.Object, relation, user string, c authz.Consistency) (s *ostiary.Store, r authz.CheckResult, err error) {
	s, err = p.engine.StoreAt(ctx, w.id, c)
	if err == nil {
		r, err = s.Check(ctx, authz.CheckRequest{Object: object, Relation: relation, Subject: rel.Subject{Type: "user", ID: user},
			QueryOptions: authz.QueryOptions{Consistency: c}})
	}
	if err == nil && r.Decision.String() == "unknown" {
		w.fail("a check is unknown: %s", r)
	}
	return s, r, err
}

// catalog creates a store with an alias, or deletes one.
func (c *client) catalog(ctx context.Context, p *process) {
	w := c.world
	if n := len(c.stores); n > 0 && w.random(2) == 0 {
		last := c.stores[n-1]
		c.stores = c.stores[:n-1]
		done := w.begin(history.Call{Kind: history.Release, Thing: last.alias}, p)
		maker := p
		err := w.forward(ctx, p, func(p *process) error {
			maker = p
			return p.engine.DeleteStore(ctx, last.id)
		})
		done(err, func(made *call) { made.maker = maker })
		return
	}
	alias := w.random(aliasesTotal)
	done := w.begin(history.Call{Kind: history.Claim, Thing: alias}, p)
	var id storage.StoreID
	maker := p
	err := w.forward(ctx, p, func(p *process) error {
		maker = p
		s, err := p.engine.CreateStore(ctx, ostiary.CreateStoreRequest{Aliases: map[string]string{aliasDoor: fmt.Sprint(alias)}})
		if err == nil {
			id = s.ID()
		}
		return err
	})
	done(err, func(made *call) {
		made.maker = maker
		c.stores = append(c.stores, owned{id, alias})
	})
}

// putSecret stores a secret.
func (c *client) putSecret(ctx context.Context, p *process) {
	made := history.Call{Kind: history.PutSecret, Thing: c.world.random(secretsTotal), Mark: c.world.record.newMark()}
	r := authz.WriteRequest{Secrets: []authz.Document{{Kind: secretKind, Key: fmt.Sprint(made.Thing), Body: []byte(made.Mark)}}}
	r.Origin.Reason = made.Mark
	c.send(ctx, p, made, r)
}

// readSecret reads a secret from the copy, whose revision it reads before and after.
func (c *client) readSecret(ctx context.Context, p *process) {
	w := c.world
	made := history.Call{Kind: history.ReadSecret, Thing: w.random(secretsTotal)}
	done := w.begin(made, p)
	var d authz.Document
	var after storage.Head
	before, err := p.driver.Head(ctx, w.id)
	s, found := p.engine.Store(ctx, w.id)
	if err == nil {
		err = found
	}
	if err == nil {
		d, err = s.Secret(ctx, authz.DocumentKey{Kind: secretKind, Key: fmt.Sprint(made.Thing)})
	}
	if errors.Is(err, authz.ErrNoDocument) {
		err = nil
	}
	if err == nil {
		after, err = p.driver.Head(ctx, w.id)
	}
	done(err, func(made *call) {
		made.After, made.Revision, made.Body = before.Revision, after.Revision, string(d.Body)
	})
}

// enemies plays the new-enemy problem: bob leaves a folder, and only then a document is
// put into it, by another node. No reader may let bob see the document, and no reader
// that is as new as the document may find him in the folder.
func (w *world) enemies() {
	for i := 0; ; i++ {
		select {
		case <-w.over:
			return
		case <-time.After(time.Duration(w.random(400)) * time.Millisecond):
		}
		if i >= enemiesTotal {
			return
		}
		w.enemy(fmt.Sprint("e", i))
	}
}

const enemiesTotal = 6

func (w *world) enemy(id string) {
	bob := rel.Subject{Type: "user", ID: "bob"}
	folder, doc := rel.Object{Type: "folder", ID: id}, rel.Object{Type: "doc", ID: id}
	member := rel.Tuple{Object: folder, Relation: "viewer", Subject: bob}
	inside := rel.Tuple{Object: doc, Relation: "parent", Subject: rel.Subject{Type: "folder", ID: id}}
	if _, ok := w.mustWrite(authz.WriteRequest{Add: []rel.Tuple{member}}); !ok {
		return
	}
	if _, ok := w.mustWrite(authz.WriteRequest{Remove: []rel.Key{member.Key()}}); !ok {
		return
	}
	token, stored := w.mustWrite(authz.WriteRequest{Add: []rel.Tuple{inside}})
	for range 3 {
		w.look(doc, "view", authz.Consistency{})
		if stored {
			w.look(folder, "viewer", authz.AtLeast(token))
		}
		w.look(folder, "viewer", authz.FullyConsistent())
	}
}

// mustWrite writes at a random node, and reports whether the write was made.
func (w *world) mustWrite(r authz.WriteRequest) (token authz.Token, ok bool) {
	p := w.process()
	if p == nil {
		return "", false
	}
	ctx, cancel := w.deadline()
	defer cancel()
	p.gate.pass()
	err := w.forward(ctx, p, func(p *process) (err error) {
		token, err = p.write(ctx, r)
		return err
	})
	p.gate.pass()
	return token, err == nil && !p.killed.Load() && !w.restored.Load()
}

// look checks at a random node that bob has no relation.
func (w *world) look(object rel.Object, relation string, c authz.Consistency) {
	p := w.process()
	if p == nil {
		return
	}
	ctx, cancel := w.deadline()
	defer cancel()
	p.gate.pass()
	_, r, err := w.check(ctx, p, object, relation, "bob", c)
	p.gate.pass()
	if err == nil && r.Decision.String() == "true" && !p.killed.Load() && !w.restored.Load() {
		w.fail("new enemy: bob is a %s of %s at revision %d of node %d", relation, strings.Join([]string{object.Type, object.ID}, ":"), r.Revision, p.machine.number)
	}
}
