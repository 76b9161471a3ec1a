package relations

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/rel"
)

const (
	// moveTuples is how many tuples are copied in one log entry. The entry also has
	// the position, so that an import continues after it.
	moveTuples = 2000
	// moveEntryBytes is about the size of the data in one log entry, in bytes. Its bound
	// is storage.EntryBytesMax.
	moveEntryBytes = 4 << 20
	// refusalsMax is how many refused tuples an import names.
	refusalsMax = 10
	// moveKey is the key of the document of a store that holds its moveState, among
	// the documents of the native API.
	moveKey = "ostiary.import"
)

// moveState is how far the import of a store is.
type moveState struct {
	// Source is the URL of the server that the store comes from.
	Source string `json:"source"`
	// Next is the position of the next page of tuples, for a source with pages.
	Next string `json:"next,omitempty"`
	// Token names the revision that is copied, and Read counts the lines of its export
	// that were read, for a source with exports.
	Token string `json:"token,omitempty"`
	Read  int    `json:"read,omitempty"`
	// Attributes counts the attributes that were read.
	Attributes int `json:"attributes,omitempty"`
	// Tuples counts the tuples that were read. Skipped counts the tuples and
	// attributes that no model admits.
	Tuples  int `json:"tuples"`
	Skipped int `json:"skipped,omitempty"`
	// Done is true after the last page or line.
	Done bool `json:"done"`
}

// movedJSON is the JSON form of an imported store.
type movedJSON struct {
	Store      string `json:"store"`
	Name       string `json:"name"`
	Models     int    `json:"models"`
	Assertions int    `json:"assertions"`
	Tuples     int    `json:"tuples"`
	Attributes int    `json:"attributes,omitempty"`
	Skipped    int    `json:"skipped,omitempty"`
	// NotCopied is the reason why the store was not copied; "" if it was.
	NotCopied string `json:"not_copied,omitempty"`
	// Before is true for a store that an earlier run imported completely, and this
	// run did not change. Models and Tuples are then those of the copy, and
	// Assertions is 0.
	Before bool `json:"before,omitempty"`
}

func (a *app) importCommand() *cobra.Command {
	var o importOptions
	cmd := &cobra.Command{Use: "import --from URL|BACKUP [STORE…]", Short: "Copy stores from a running OpenFGA or Ostiary, or from a backup, to the data folder or a running server",
		Long: "Copy stores from a running OpenFGA, another server with its API, or a running Ostiary, to the data folder, or with --server to a\n" +
			"running ostiary serve: models in their order, tuples with their conditions, assertions. Ids of stores and models stay the same.\n" +
			"STORE is an id of the source, or a name, which selects every store that has it; the default is all stores.\n\n" +
			"From an Ostiary, expiries of tuples, attributes and aliases of stores arrive as well. Stores with the records of a door (Identity,\n" +
			"XACML, ONAP, document access control) and the system store, which has the keys of callers, are not copied: to move them, stop the\n" +
			"server and copy its data folder, or run ostiary migrate. Without STORE, the command names them and ends with exit code 2.\n\n" +
			"If the source requires authentication, so does the copy: serve does not start on it without a key or --auth none, and --server\n" +
			"must require keys. --open accepts a copy that everyone who reaches it can read.\n\n" +
			"An interrupted import continues where it stopped when the same command runs again. Until it is complete, the copy answers no\n" +
			"question. A store that is complete is not copied again, so a backup needs a new folder each time.\n" +
			"From an Ostiary, the copy of a store has one revision: the newest one when its import began. From another server, tuples that are\n" +
			"written during the import may be missing: stop its writers first.\n" +
			"BACKUP is a folder of \"ostiary backup\", or \"-\" for its tar on the standard input. A store of it arrives without secrets, documents, log and\n" +
			"past. With --as it becomes another store, and the live one stays; --revision takes it as it was then, if its log still begins with its first entry.\n" +
			"For files, see \"ostiary tuple import\" and \"ostiary schema write\".",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case o.from == "":
				return fmt.Errorf("%w: expected --from URL or the folder of a backup; a file is imported with \"ostiary tuple import FILE\"", cli.ErrUsage)
			case a.Server == "" && a.Data == cli.InMemory:
				return fmt.Errorf("%w: import copies to a data folder (--data DIR) or to a server (--server)", cli.ErrUsage)
			case (o.as != "" || o.revision > 0) && len(args) != 1:
				return fmt.Errorf("%w: --as and --revision are about one store: expected its name or id, and not %d arguments", cli.ErrUsage, len(args))
			case isBackup(o.from):
				return a.importBackup(cmd.Context(), args, o)
			case o.revision > 0:
				return fmt.Errorf("%w: --revision is for a store of a backup: expected the folder of a backup in --from, not %q", cli.ErrUsage, o.from)
			}
			return a.importServer(cmd.Context(), args, o)
		}}
	f := cmd.Flags()
	f.StringVar(&o.from, "from", "", "URL of the server to copy from, for example http://127.0.0.1:8080, or the folder of a backup")
	f.BoolVar(&o.open, "open", false, "accept that the copy of a server with keys can be read without one")
	f.StringVar(&o.key, "from-token", "", "preshared key of that server; prefer the variable OSTIARY_FROM_TOKEN, because other users can read command lines")
	f.StringVar(&o.as, "as", "", "copy one STORE to a new store with this name, with another id and no aliases; the one that it was may be there, too")
	f.Uint64Var(&o.revision, "revision", 0, "copy STORE of a backup as it was at this revision, by its log; 0 is the newest one")
	return cmd
}

// importOptions are the flags of the command import.
type importOptions struct {
	from, key string
	open      bool
	as        string
	revision  uint64
}

// importServer copies stores of a running server.
func (a *app) importServer(ctx context.Context, names []string, o importOptions) error {
	u, err := url.Parse(o.from)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("%w: invalid --from %q: expected http://HOST:PORT or https://HOST:PORT, or the folder of a backup", cli.ErrUsage, o.from)
	}
	if strings.TrimRight(o.from, "/") == strings.TrimRight(a.Server, "/") {
		return fmt.Errorf("%w: the source and the target are the same server, %s", cli.ErrUsage, a.Server)
	}
	at := &cli.Server{App: a.App, URL: strings.TrimRight(o.from, "/"), Flag: "--from", Token: o.key}
	source, err := newSource(ctx, at, a.Patience.WithDefaults().Silence)
	if err != nil {
		return fmt.Errorf("read the stores of %s: %w", at.URL, err)
	}
	stores, err := choose(ctx, source, names) // before the folder is created
	if err != nil {
		return err
	}
	closed, err := a.requiresCaller(ctx, source, at)
	if err != nil {
		return fmt.Errorf("find out whether %s requires authentication: %w", at.URL, err)
	}
	return a.copyStores(ctx, source, stores, closed, len(names) == 0, o)
}

// choose returns the stores of a source with these names or ids, or all stores.
func choose(ctx context.Context, source moveSource, names []string) ([]client.StoreInfo, error) {
	stores, err := source.chosen(ctx, names)
	if err != nil {
		return nil, fmt.Errorf("read the stores of %s: %w", source.url(), err)
	}
	for _, s := range stores {
		if owner := cli.DoorOf(s.Aliases); owner != "" && len(names) > 0 {
			return nil, fmt.Errorf("store %s (%s): %s", s.ID, s.Name, ownedBy(owner))
		}
	}
	return stores, nil
}

// copyStores copies stores of a source, which are all of them or not. closed is true if the
// source requires authentication.
func (a *app) copyStores(ctx context.Context, source moveSource, stores []client.StoreInfo, closed, all bool, o importOptions) error {
	return a.withServer(ctx, true, nil, func(s *server) error {
		if closed && !o.open {
			if err := a.closeTarget(ctx, s, source.url()); err != nil {
				return err
			}
		}
		hides := all && closed && source.hides(ctx, stores)
		return a.move(ctx, source, stores, hides, func() moveTarget { return moveTarget{server: s, name: o.as} })
	})
}

// move copies stores, each to a new target. hides is true if the source has stores that are
// not among them. It fails with cli.ErrLeft or cli.ErrSkipped if something was not copied.
func (a *app) move(ctx context.Context, source moveSource, stores []client.StoreInfo, hides bool, target func() moveTarget) error {
	out, refusals, skipped, before := []movedJSON{}, []string(nil), 0, 0
	var left []string
	for _, s := range stores {
		if owner := cli.DoorOf(s.Aliases); owner != "" {
			out = append(out, movedJSON{Store: s.ID, Name: s.Name, NotCopied: ownedBy(owner)})
			left = append(left, s.Name)
			a.Note("%s", out[len(out)-1].line())
			continue
		}
		m := &mover{a: a, source: source, from: s, to: target()}
		err := m.run(ctx)
		refusals, skipped = append(refusals, m.refusals...), skipped+m.state.Skipped
		if err != nil {
			err = fmt.Errorf("import store %s (%s): %w", s.ID, s.Name, err)
			if errors.Is(err, cli.ErrTarget) {
				return err
			}
			return &cli.StoppedError{Err: err, Done: "\nrun the same command again to continue; until then, the copy of the store answers no question"}
		}
		if m.result.Before {
			before++
		}
		out = append(out, m.result)
		a.Note("%s", m.result.line())
	}
	if a.JSON {
		if err := cli.WriteJSON(a.Out, out); err != nil {
			return err
		}
	} else {
		cli.Printf(a.Out, "imported %s from %s", cli.Plural(len(out)-len(left)-before, "store"), source.url())
		if before > 0 {
			cli.Printf(a.Out, ", imported before and not copied again: %s; for a new copy, import to a new folder", cli.Plural(before, "store"))
		}
		if len(left) > 0 {
			cli.Printf(a.Out, ", not copied: %s", cli.Plural(len(left), "store"))
		}
		cli.Println(a.Out)
	}
	var errs []error
	if len(left) > 0 {
		errs = append(errs, fmt.Errorf("%w: %s; to move them, copy the data folder of the stopped server, or run ostiary migrate; to copy the others only, name them", cli.ErrLeft, strings.Join(left, ", ")))
	}
	if hides {
		errs = append(errs, fmt.Errorf("%w: the key of %s may not see every store: expected one with the right admin on *, or the names of the stores to copy", cli.ErrLeft, cli.EnvName("from-token")))
	}
	if skipped > 0 {
		errs = append(errs, fmt.Errorf("%w: no model of their store admits them: %s\n%s", cli.ErrSkipped, cli.PluralOf(skipped, "tuple or attribute", "tuples or attributes"), strings.Join(refusals[:min(len(refusals), refusalsMax)], "\n")))
	}
	return errors.Join(errs...)
}

func (m movedJSON) line() string {
	if m.NotCopied != "" {
		return fmt.Sprintf("store %s (%s): not copied: %s", m.Store, m.Name, m.NotCopied)
	}
	if m.Before {
		return fmt.Sprintf("store %s (%s): imported before, not copied again; the copy has %s and got %s", m.Store, m.Name, cli.Plural(m.Models, "model"), cli.Plural(m.Tuples, "tuple"))
	}
	s := fmt.Sprintf("store %s (%s): %s, %s, %s", m.Store, m.Name, cli.Plural(m.Models, "model"), cli.Plural(m.Tuples, "tuple"), cli.Plural(m.Assertions, "assertion"))
	if m.Attributes > 0 {
		s += ", " + cli.Plural(m.Attributes, "attribute")
	}
	return s
}

// mover copies one store.
type mover struct {
	a      *app
	source moveSource
	from   client.StoreInfo
	to     moveTarget

	state    moveState
	models   []string // ids of the models, oldest first
	refusals []string // why tuples were refused; at most refusalsMax
	result   movedJSON
}

func (m *mover) run(ctx context.Context) error {
	if err := m.open(ctx); err != nil {
		return err
	}
	m.result = movedJSON{Store: m.to.id, Name: cmp.Or(m.to.name, m.from.Name), Before: m.state.Done}
	copies := []func(context.Context) error{m.copyModels, m.copyAssertions, m.copyData}
	if m.state.Done {
		copies = []func(context.Context) error{m.countModels}
	}
	for _, part := range copies {
		if err := part(ctx); err != nil {
			return err
		}
	}
	m.result.Tuples, m.result.Attributes, m.result.Skipped = m.state.Tuples, m.state.Attributes, m.state.Skipped
	return nil
}

// open opens the store with the source's id, or creates it, and reads how far an
// earlier import got.
func (m *mover) open(ctx context.Context) error {
	m.state.Source = m.source.url()
	body, empty, err := m.to.open(ctx, m.from)
	switch {
	case err != nil:
		return err
	case body == nil && !empty:
		return cli.WithText("the target already has a store with this id that was not imported; nothing was changed: use another --data or --server, copy it to a store with another name (--as NAME), or, if the store is not needed there, delete it from the target", cli.ErrTarget)
	case body == nil:
		return m.begin(ctx)
	}
	if err := json.Unmarshal(body, &m.state); err != nil {
		return err
	}
	if m.state.Source != m.source.url() {
		return cli.WithText(fmt.Sprintf("the target has this store from %s; expected --from %s", m.state.Source, m.state.Source), cli.ErrTarget)
	}
	if _, ok := m.source.(*backupSource); ok && !m.state.Done { // each run exports in another order
		m.state = moveState{Source: m.state.Source}
		return m.begin(ctx)
	}
	if _, ok := m.source.(pinnedSource); !ok || m.state.Token != "" || m.state.Done {
		return nil
	}
	if m.state.Tuples == 0 {
		return m.begin(ctx)
	}
	return cli.WithText("an earlier version imported this store page by page: delete the store from the target, and import it again", cli.ErrTarget)
}

// begin chooses the revision to copy, and marks the store as incomplete.
func (m *mover) begin(ctx context.Context) error {
	if source, ok := m.source.(pinnedSource); ok {
		err := m.fromSource(ctx, func() (err error) {
			m.state.Token, err = source.pin(ctx, m.from.ID)
			return err
		})
		if err != nil {
			return err
		}
	}
	return m.write(ctx, moveData{})
}

// write writes data together with the state.
func (m *mover) write(ctx context.Context, data moveData) error {
	body, err := json.Marshal(m.state)
	if err != nil {
		return err
	}
	return m.to.write(ctx, data, "", &moveRecord{body, m.state.Done})
}

// countModels counts the models of the target.
func (m *mover) countModels(ctx context.Context) error {
	have, err := m.to.schemas(ctx)
	m.result.Models = len(have)
	return err
}

// copyModels writes the models that the store does not have yet, oldest first.
func (m *mover) copyModels(ctx context.Context) error {
	var models []authz.SchemaSource
	err := m.fromSource(ctx, func() (err error) {
		models, err = m.source.models(ctx, m.from.ID, m.state.Token)
		return err
	})
	if err != nil {
		return fmt.Errorf("read the models: %w", err)
	}
	have, err := m.to.schemas(ctx)
	if err != nil {
		return err
	}
	for _, model := range models {
		m.models = append(m.models, model.WithID)
		if slices.Contains(have, model.WithID) {
			continue
		}
		if err := m.to.writeSchema(ctx, model); err != nil {
			return fmt.Errorf("model %s: %w", model.WithID, err)
		}
	}
	m.result.Models = len(m.models)
	return nil
}

// copyAssertions writes the assertions of every model.
func (m *mover) copyAssertions(ctx context.Context) error {
	for _, model := range m.models {
		n, body := 0, []byte(nil)
		err := m.fromSource(ctx, func() (err error) {
			n, body, err = m.source.assertions(ctx, m.from.ID, model)
			return err
		})
		if err != nil {
			return fmt.Errorf("read the assertions of model %s: %w", model, err)
		}
		if m.result.Assertions += n; n == 0 {
			continue
		}
		if err := m.to.writeAssertions(ctx, model, body); err != nil {
			return fmt.Errorf("write the assertions of model %s: %w", model, err)
		}
	}
	return nil
}

// copyData copies the tuples and attributes after those that an earlier run copied.
func (m *mover) copyData(ctx context.Context) error {
	if source, ok := m.source.(pinnedSource); ok {
		return m.copyExport(ctx, source)
	}
	line := m.a.Progress()
	defer line.End()
	for !m.state.Done {
		tuples, err := m.pages(ctx)
		if err != nil {
			return fmt.Errorf("read the tuples: %w", err)
		}
		if err := m.add(ctx, moveData{tuples: tuples}); err != nil {
			return err
		}
		line.Show("importing "+m.from.Name, m.state.Tuples, 0)
	}
	return nil
}

// pages reads pages with about moveTuples tuples, and moves the state behind them.
// Of two tuples with the same key it keeps the later one: the source may have
// changed between two pages.
func (m *mover) pages(ctx context.Context) ([]rel.Tuple, error) {
	var out []rel.Tuple
	at := map[rel.Key]int{}
	for n, size := 0, 0; n < moveTuples && size < moveEntryBytes && !m.state.Done; {
		var page movedPage
		err := m.fromSource(ctx, func() (err error) {
			page, err = m.source.tuples(ctx, m.from.ID, m.state.Next)
			return err
		})
		if n == 0 && m.state.Next != "" && isPositionRefused(err) {
			m.a.Note("the source no longer accepts the position of the earlier run: reading all tuples again")
			m.state.Next, m.state.Tuples, m.state.Skipped = "", 0, 0
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, row := range page.rows {
			n++
			if row.err != nil {
				m.refuseTuple(row.name, row.err)
				continue
			}
			size += tupleBytes(&row.tuple)
			if i, twice := at[row.tuple.Key()]; twice {
				out[i] = row.tuple
				continue
			}
			at[row.tuple.Key()] = len(out)
			out = append(out, row.tuple)
		}
		m.state.Tuples += len(page.rows)
		m.state.Next, m.state.Done = page.next, page.next == ""
	}
	return out, nil
}

// isPositionRefused reports whether a source no longer accepts a position in its
// pages.
func isPositionRefused(err error) bool {
	at, ok := errors.AsType[*client.Error](err)
	return ok && slices.Contains([]string{"invalid_continuation_token", "cursor", "token", "too_old"}, at.Code)
}

// refuseTuple counts a tuple that is not imported.
func (m *mover) refuseTuple(name string, err error) {
	m.state.Tuples--
	m.refuse(name, err)
}

// refuse counts a tuple or an attribute that is not imported.
func (m *mover) refuse(name string, err error) {
	m.state.Skipped++
	if len(m.refusals) < refusalsMax {
		m.refusals = append(m.refusals, fmt.Sprintf("store %s: %s: %v", m.from.ID, name, err))
	}
}

// add writes data and the state. What the current model does not admit is written
// under the newest model that admits it: OpenFGA keeps the tuples of earlier
// models.
func (m *mover) add(ctx context.Context, data moveData) error {
	err := m.write(ctx, data)
	if err == nil || !isRefused(err) {
		return err
	}
	if err := m.addEach(ctx, data, err); err != nil {
		return err
	}
	return m.write(ctx, moveData{})
}

// addEach writes data of which a part is refused because of why.
func (m *mover) addEach(ctx context.Context, data moveData, why error) error {
	if data.len() == 1 {
		for _, model := range slices.Backward(m.models) {
			err := m.to.write(ctx, data, model, nil)
			if err == nil || !isRefused(err) {
				return err
			}
		}
		if len(data.tuples) > 0 {
			m.refuseTuple(data.tuples[0].String(), why)
			return nil
		}
		m.state.Attributes--
		m.refuse(data.attributes[0].Object.String()+"."+data.attributes[0].Name, why)
		return nil
	}
	for _, half := range data.halves() {
		err := m.to.write(ctx, half, "", nil)
		if err != nil && isRefused(err) {
			err = m.addEach(ctx, half, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isRefused reports whether err is about a tuple that a schema does not admit.
func isRefused(err error) bool {
	for _, kind := range []error{authz.ErrInvalidTuple, authz.ErrInvalidName, authz.ErrNoType, authz.ErrNoRelation, authz.ErrNoSchema} {
		if errors.Is(err, kind) {
			return true
		}
	}
	at, ok := errors.AsType[*client.Error](err)
	return ok && slices.Contains([]string{"not_admitted", "invalid_name", "no_type", "no_relation", "no_schema"}, at.Code)
}
