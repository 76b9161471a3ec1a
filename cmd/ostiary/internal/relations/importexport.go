package relations

import (
	"context"
	"fmt"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/rel"
)

// pinnedSource is a source that returns all tuples and attributes of one revision as
// a stream, whose order never changes.
type pinnedSource interface {
	// pin returns the token of the newest revision of a store.
	pin(ctx context.Context, store string) (token string, err error)
	// export returns the lines of the store at a token, after the first skip ones.
	export(ctx context.Context, store, token string, skip int) (*client.Export, error)
}

func (s *ostiarySource) pin(ctx context.Context, store string) (string, error) {
	now, err := s.Store(store).Get(ctx)
	return now.Token, err
}

func (s *ostiarySource) export(ctx context.Context, store, token string, skip int) (*client.Export, error) {
	return s.Store(store).Export(ctx, token, skip)
}

// copyExport copies the lines of the export of the pinned revision after those that
// are in the target.
func (m *mover) copyExport(ctx context.Context, source pinnedSource) error {
	line := m.a.Progress()
	defer line.End()
	return m.patiently(ctx, func() (bool, error) {
		before := m.state.Read
		err := m.readExport(ctx, source, line)
		return m.state.Read > before, err
	})
}

// readExport opens the export and copies it until it ends or breaks. What arrived
// before a break is in the target.
func (m *mover) readExport(ctx context.Context, source pinnedSource, line *cli.ProgressLine) error {
	stream, err := source.export(ctx, m.from.ID, m.state.Token, m.state.Read)
	if isPositionRefused(err) {
		return cli.WithText(fmt.Sprintf("the source no longer has the revision that this import copies (%v): delete the store from the target, and import it again", err), cli.ErrTarget)
	}
	if err != nil {
		return &sourceError{fmt.Errorf("read the export: %w", err)}
	}
	defer stream.Close()
	for !m.state.Done {
		data, broken := m.batch(stream)
		if data.len() > 0 || m.state.Done {
			if err := m.add(ctx, data); err != nil {
				return err
			}
		}
		if broken != nil {
			return &sourceError{fmt.Errorf("read the export: %w", broken)}
		}
		line.Show("importing "+m.from.Name, m.state.Tuples, 0)
	}
	return nil
}

// batch reads the lines of one write, and moves the state behind them. If the export
// breaks, it returns what arrived, and the error.
func (m *mover) batch(stream *client.Export) (out moveData, err error) {
	for n, size := 0, 0; n < moveTuples && size < moveEntryBytes; n++ {
		line, err := stream.Next()
		if err != nil {
			return out, err
		}
		switch {
		case line.End != nil:
			if lines := line.End.Tuples + line.End.Attributes; lines != m.state.Read {
				return out, fmt.Errorf("the export of %s has %d lines, expected %d: %d tuples and %d attributes", m.from.ID, m.state.Read, lines, line.End.Tuples, line.End.Attributes)
			}
			m.state.Done = true
			return out, nil
		case line.Tuple != nil:
			m.state.Tuples++
			t, err := line.Tuple.Tuple()
			if err != nil {
				m.refuseTuple(line.Tuple.Object+"#"+line.Tuple.Relation+"@"+line.Tuple.Subject, err)
			} else {
				out.tuples = append(out.tuples, t)
				size += tupleBytes(&t)
			}
		case line.Attribute != nil:
			m.state.Attributes++
			at, err := attributeOf(line.Attribute)
			if err != nil {
				m.state.Attributes--
				m.refuse(line.Attribute.Object+"."+line.Attribute.Name, err)
			} else {
				out.attributes = append(out.attributes, at)
				size += len(at.Value)
			}
		default:
			continue // a later version may have other lines
		}
		m.state.Read++
	}
	return out, nil
}

// tupleBytes is about the size of a tuple in a log entry, in bytes.
func tupleBytes(t *rel.Tuple) int {
	return len(t.Object.ID) + len(t.Subject.ID) + len(t.Context) + 64
}

// attributeOf returns an attribute in the engine's form.
func attributeOf(a *client.Attribute) (out rel.Attribute, err error) {
	out.Object, err = rel.ParseObject(a.Object)
	out.Name, out.Value = a.Name, string(a.Value)
	return out, err
}

// upTo returns the models that a store had at a revision, of those that it has now.
func upTo(token string, list []client.SchemaInfo) ([]client.SchemaInfo, error) {
	revision, err := authz.Token(token).Revision()
	if err != nil {
		return nil, err
	}
	var out []client.SchemaInfo
	for _, s := range list {
		if s.Revision <= uint64(revision) {
			out = append(out, s)
		}
	}
	return out, nil
}
