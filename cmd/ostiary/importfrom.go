package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

const (
	// moveTuples is how many tuples are copied in one log entry. The entry also has
	// the position, so that an import continues after it.
	moveTuples = 2000
	// refusalsMax is how many refused tuples an import names.
	refusalsMax = 10
	// moveKey is the key of the document of a store that holds its moveState, among
	// the documents of the native API.
	moveKey = "ostiary.import"
)

// errSkipped means that an import is complete except for tuples that no model
// admits.
var errSkipped = errors.New("tuples were not imported")

// moveState is how far the import of a store is.
type moveState struct {
	// Source is the URL of the server that the store comes from.
	Source string `json:"source"`
	// Next is the continuation token of the next page of tuples.
	Next string `json:"next,omitempty"`
	// Tuples and Skipped count the tuples that were read, and those of them that no
	// model admits.
	Tuples  int `json:"tuples"`
	Skipped int `json:"skipped,omitempty"`
	// Done is true after the last page.
	Done bool `json:"done"`
}

// movedJSON is the JSON form of an imported store.
type movedJSON struct {
	Store      string `json:"store"`
	Name       string `json:"name"`
	Models     int    `json:"models"`
	Assertions int    `json:"assertions"`
	Tuples     int    `json:"tuples"`
	Skipped    int    `json:"skipped,omitempty"`
	// Before is true for a store that an earlier run imported completely.
	Before bool `json:"before,omitempty"`
}

func (a *app) importCommand() *cobra.Command {
	var from, key string
	cmd := &cobra.Command{Use: "import --from URL [STORE…]", Short: "Copy stores from a running OpenFGA to the data folder or a running server",
		Long: "Copy stores from a running OpenFGA, or another server with its API, to the data folder, or with --server to a running ostiary serve:\n" +
			"models in their order, tuples with their conditions, assertions. Ids of stores and models stay the same. STORE is a name or id of\n" +
			"the source; the default is all stores.\n\n" +
			"An interrupted import continues where it stopped when the same command runs again. A store that is complete is not copied again.\n" +
			"Tuples that are written to the source during the import may be missing: stop its writers first.\n" +
			"For files, see \"ostiary tuple import\" and \"ostiary schema write\".",
		RunE: func(cmd *cobra.Command, args []string) error {
			if from == "" {
				return fmt.Errorf("%w: expected --from URL; a file is imported with \"ostiary tuple import FILE\"", errUsage)
			}
			if a.server == "" && a.data == inMemory {
				return fmt.Errorf("%w: import copies to a data folder (--data DIR) or to a server (--server)", errUsage)
			}
			u, err := url.Parse(from)
			if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
				return fmt.Errorf("%w: invalid --from %q: expected http://HOST:PORT or https://HOST:PORT", errUsage, from)
			}
			source := (&app{server: from, token: key, caCert: a.caCert, err: a.err, json: a.json}).remote()
			source.flag, source.http.Timeout = "--from", sourceTimeout
			stores, err := source.chosen(cmd.Context(), args) // before the folder is created
			if err != nil {
				return fmt.Errorf("read the stores of %s: %w", source.base, err)
			}
			if r := a.remote(); r != nil {
				return a.move(cmd.Context(), source, stores, func() moveTarget { return &serverTarget{remote: r} })
			}
			return a.withEngine(cmd.Context(), true, func(e *ostiary.Engine) error {
				return a.move(cmd.Context(), source, stores, func() moveTarget { return &folderTarget{engine: e} })
			})
		}}
	cmd.Flags().StringVar(&from, "from", "", "URL of the server to copy from, for example http://127.0.0.1:8080")
	cmd.Flags().StringVar(&key, "from-token", "", "preshared key of that server; prefer the variable OSTIARY_FROM_TOKEN, because other users can read command lines")
	return cmd
}

// sourceTimeout bounds each request to the source.
const sourceTimeout = time.Minute

// move copies stores, each to a new target.
func (a *app) move(ctx context.Context, source *remote, stores []remoteStore, target func() moveTarget) error {
	out, refusals, skipped := []movedJSON{}, []string(nil), 0
	for _, s := range stores {
		m := &mover{a: a, source: source, from: s, to: target()}
		err := m.run(ctx)
		refusals, skipped = append(refusals, m.refusals...), skipped+m.state.Skipped
		if err != nil {
			return fmt.Errorf("import store %s (%s): %w\nrun the same command again to continue", s.ID, s.Name, err)
		}
		out = append(out, m.result)
		a.note("%s", m.result.line())
	}
	if a.json {
		if err := writeJSON(a.out, out); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(a.out, "imported %s from %s\n", plural(len(out), "store"), source.base)
	}
	if skipped > 0 {
		return fmt.Errorf("%w: no model of their store admits them: %s\n%s", errSkipped, plural(skipped, "tuple"), strings.Join(refusals[:min(len(refusals), refusalsMax)], "\n"))
	}
	return nil
}

func (m movedJSON) line() string {
	s := fmt.Sprintf("store %s (%s): %s, %s, %s", m.Store, m.Name, plural(m.Models, "model"), plural(m.Tuples, "tuple"), plural(m.Assertions, "assertion"))
	if m.Before {
		s += ", imported before"
	}
	return s
}

// mover copies one store.
type mover struct {
	a      *app
	source *remote
	from   remoteStore
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
	m.result = movedJSON{Store: m.from.ID, Name: m.from.Name, Before: m.state.Done}
	if err := m.copyModels(ctx); err != nil {
		return err
	}
	if err := m.copyAssertions(ctx); err != nil {
		return err
	}
	if err := m.copyTuples(ctx); err != nil {
		return err
	}
	m.result.Tuples, m.result.Skipped = m.state.Tuples-m.state.Skipped, m.state.Skipped
	return nil
}

// open opens the store with the source's id, or creates it, and reads how far an
// earlier import got.
func (m *mover) open(ctx context.Context) error {
	id, err := storage.ParseStoreID(m.from.ID)
	if err != nil {
		return err
	}
	m.state.Source = m.source.base
	body, empty, err := m.to.open(ctx, id, m.from.Name)
	switch {
	case err != nil:
		return err
	case body == nil && !empty:
		return errors.New("the target already has a store with this id that was not imported: delete it first, or use another --data or --server")
	case body == nil:
		return m.write(ctx, nil)
	}
	if err := json.Unmarshal(body, &m.state); err != nil {
		return err
	}
	if m.state.Source != m.source.base {
		return fmt.Errorf("the target has this store from %s; expected --from %s", m.state.Source, m.state.Source)
	}
	return nil
}

// write writes tuples together with the state.
func (m *mover) write(ctx context.Context, tuples []rel.Tuple) error {
	body, err := json.Marshal(m.state)
	if err != nil {
		return err
	}
	return m.to.write(ctx, tuples, "", body)
}

// copyModels writes the models that the store does not have yet, oldest first.
func (m *mover) copyModels(ctx context.Context) error {
	bodies, err := m.source.models(ctx, m.from.ID)
	if err != nil {
		return fmt.Errorf("read the models: %w", err)
	}
	have, err := m.to.schemas(ctx)
	if err != nil {
		return err
	}
	for _, body := range bodies {
		var head struct{ ID string }
		if err := json.Unmarshal(body, &head); err != nil {
			return err
		}
		m.models = append(m.models, head.ID)
		if slices.Contains(have, head.ID) {
			continue
		}
		if err := m.to.writeSchema(ctx, head.ID, body); err != nil {
			return fmt.Errorf("model %s: %w", head.ID, err)
		}
	}
	m.result.Models = len(m.models)
	return nil
}

// copyAssertions writes the assertions of every model.
func (m *mover) copyAssertions(ctx context.Context) error {
	for _, model := range m.models {
		var got struct {
			Model      string            `json:"authorization_model_id"`
			Assertions []json.RawMessage `json:"assertions"`
		}
		if _, err := m.source.call(ctx, http.MethodGet, "/stores/"+m.from.ID+"/assertions/"+model, nil, &got); err != nil {
			return fmt.Errorf("read the assertions of model %s: %w", model, err)
		}
		if m.result.Assertions += len(got.Assertions); len(got.Assertions) == 0 || m.result.Before {
			continue
		}
		body, err := json.Marshal(got)
		if err != nil {
			return err
		}
		if err := m.to.writeAssertions(ctx, model, body); err != nil {
			return fmt.Errorf("write the assertions of model %s: %w", model, err)
		}
	}
	return nil
}

// copyTuples copies the pages of tuples after the one where an earlier run
// stopped.
func (m *mover) copyTuples(ctx context.Context) error {
	line := m.a.progress()
	defer line.end()
	for !m.state.Done {
		tuples, err := m.pages(ctx)
		if err != nil {
			return fmt.Errorf("read the tuples: %w", err)
		}
		if err := m.add(ctx, tuples); err != nil {
			return err
		}
		line.show("importing "+m.from.Name, m.state.Tuples, 0)
	}
	return nil
}

// pages reads pages with about moveTuples tuples, and moves the state behind them.
// Of two tuples with the same key it keeps the later one: the source may have
// changed between two pages.
func (m *mover) pages(ctx context.Context) ([]rel.Tuple, error) {
	var out []rel.Tuple
	at := map[rel.Key]int{}
	for n := 0; n < moveTuples && !m.state.Done; {
		page, err := m.source.tuples(ctx, m.from.ID, m.state.Next)
		var failed *remoteError
		if errors.As(err, &failed) && failed.Code == "invalid_continuation_token" && n == 0 && m.state.Next != "" {
			m.a.note("the source no longer accepts the position of the earlier run: reading all tuples again")
			m.state.Next, m.state.Tuples, m.state.Skipped = "", 0, 0
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, row := range page.Tuples {
			n++
			t, err := row.Key.Tuple()
			if err != nil {
				m.refuse(fmt.Sprintf("%s#%s@%s", row.Key.Object, row.Key.Relation, row.Key.User), err)
				continue
			}
			if i, twice := at[t.Key()]; twice {
				out[i] = t
				continue
			}
			at[t.Key()] = len(out)
			out = append(out, t)
		}
		m.state.Tuples += len(page.Tuples)
		m.state.Next, m.state.Done = page.Next, page.Next == ""
	}
	return out, nil
}

// refuse counts a tuple that is not imported.
func (m *mover) refuse(tuple string, err error) {
	m.state.Skipped++
	if len(m.refusals) < refusalsMax {
		m.refusals = append(m.refusals, fmt.Sprintf("store %s: %s: %v", m.from.ID, tuple, err))
	}
}

// add writes tuples and the state. A tuple that the current model does not admit is
// written under the newest model that admits it: OpenFGA keeps the tuples of
// earlier models.
func (m *mover) add(ctx context.Context, tuples []rel.Tuple) error {
	err := m.write(ctx, tuples)
	if err == nil || !isRefused(err) {
		return err
	}
	if err := m.addEach(ctx, tuples, err); err != nil {
		return err
	}
	return m.write(ctx, nil)
}

// addEach writes tuples of which one is refused because of why.
func (m *mover) addEach(ctx context.Context, tuples []rel.Tuple, why error) error {
	if len(tuples) == 1 {
		for _, model := range slices.Backward(m.models) {
			err := m.to.write(ctx, tuples, model, nil)
			if err == nil || !isRefused(err) {
				return err
			}
		}
		m.refuse(tuples[0].String(), why)
		return nil
	}
	for _, half := range [][]rel.Tuple{tuples[:len(tuples)/2], tuples[len(tuples)/2:]} {
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
	for _, kind := range []error{ostiary.ErrInvalidTuple, ostiary.ErrInvalidName, ostiary.ErrNoType, ostiary.ErrNoRelation, ostiary.ErrNoSchema} {
		if errors.Is(err, kind) {
			return true
		}
	}
	at, ok := errors.AsType[*remoteError](err)
	return ok && slices.Contains([]string{"not_admitted", "invalid_name", "no_type", "no_relation", "no_schema"}, at.Code)
}
