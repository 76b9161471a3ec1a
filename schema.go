package ostiary

import (
	"context"
	"fmt"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/internal/engine/snapshot"
	"github.com/ostiary/ostiary/schema"
)

// Schema is a schema as it was written, and its compiled form.
type Schema struct {
	authz.SchemaInfo
	authz.SchemaSource
	// Compiled is the compiled form. It must not be changed.
	Compiled *schema.Schema
}

// WriteSchema compiles a model, stores it and makes it the current schema of its
// namespace. Stored tuples that it does not admit stay, but do not count. Earlier
// schemas stay, and questions may name them by their ids.
func (s *Store) WriteSchema(ctx context.Context, src authz.SchemaSource) (authz.SchemaInfo, authz.Token, error) {
	if err := s.mayChange(ctx, "write schema", authz.RightSchema); err != nil {
		return authz.SchemaInfo{}, "", err
	}
	return s.queue.WriteSchema(ctx, &src)
}

// Compilation runs task, which reads a model from text, when fewer schemas than
// Bounds.Compilations are read or compiled, and counts that much memory in bytes
// towards Bounds.QuestionsMemory. It fails with ErrBound if the memory is not free in
// time, with the error of ctx if ctx ends before task starts, and otherwise with the
// error of task. task must not write a schema, because a write makes a compilation of
// its own.
func (s *Store) Compilation(ctx context.Context, memory int, task func() error) error {
	var failed error
	err := s.timeline.Runtime.Compilation(ctx, memory, func() error {
		failed = task()
		return nil
	})
	if err != nil {
		return errs.Wrap("read schema text", s.ID(), err)
	}
	return failed
}

// RemoveSchema removes a schema by its id. If it was the current one of its
// namespace, the schema before it becomes the current one again.
func (s *Store) RemoveSchema(ctx context.Context, id string) (authz.Token, error) {
	if err := s.mayChange(ctx, "remove schema", authz.RightSchema); err != nil {
		return "", err
	}
	return s.queue.RemoveSchema(ctx, id)
}

// Schema returns a schema by its id; "" means the current one without namespace.
func (s *Store) Schema(ctx context.Context, id string) (*Schema, error) {
	const op = "read schema"
	b, err := s.boundSchema(ctx, id, authz.Acknowledged())
	if err != nil {
		return nil, errs.Wrap(op, s.ID(), err)
	}
	source, err := s.timeline.SchemaSource(ctx, b.Info)
	if err != nil {
		return nil, errs.Wrap(op, s.ID(), err)
	}
	return &Schema{b.Info, source, b.Schema}, nil
}

// Compiled returns the compiled form of a schema by its id, without reading its
// source; "" means the current one without namespace. It is fast enough to be
// called with every request.
func (s *Store) Compiled(ctx context.Context, id string) (authz.SchemaInfo, *schema.Schema, error) {
	return s.CompiledAt(ctx, id, authz.Acknowledged())
}

// CompiledAt is [Store.Compiled] for a read with a consistency: with [authz.MinimizeLatency] it
// does not wait for what another node has changed.
func (s *Store) CompiledAt(ctx context.Context, id string, at authz.Consistency) (authz.SchemaInfo, *schema.Schema, error) {
	b, err := s.boundSchema(ctx, id, at)
	if err != nil {
		return authz.SchemaInfo{}, nil, errs.Wrap("find schema", s.ID(), err)
	}
	return b.Info, b.Schema, nil
}

func (s *Store) boundSchema(ctx context.Context, id string, at authz.Consistency) (*snapshot.BoundSchema, error) {
	newest := s.timeline.Newest
	if at == authz.MinimizeLatency() {
		newest = s.timeline.Current
	}
	v, err := newest(ctx)
	if err != nil {
		return nil, err
	}
	return s.timeline.Schema(ctx, v, "", id)
}

// CurrentSchema returns the description of a namespace's current schema, or
// [authz.ErrNoSchema].
func (s *Store) CurrentSchema(ctx context.Context, namespace string) (authz.SchemaInfo, error) {
	const op = "read schema"
	v, err := s.timeline.Newest(ctx)
	if err != nil {
		return authz.SchemaInfo{}, errs.Wrap(op, s.ID(), err)
	}
	info, ok := v.CurrentSchema(namespace)
	if !ok {
		return authz.SchemaInfo{}, errs.Wrap(op, s.ID(), fmt.Errorf("%w: none in namespace %q", authz.ErrNoSchema, namespace))
	}
	return info, nil
}

// Schemas returns the descriptions of all schemas, newest first.
func (s *Store) Schemas(ctx context.Context) ([]authz.SchemaInfo, error) {
	v, err := s.timeline.Newest(ctx)
	if err != nil {
		return nil, errs.Wrap("list schemas", s.ID(), err)
	}
	all := v.Schemas()
	infos := make([]authz.SchemaInfo, 0, len(all))
	for i := len(all) - 1; i >= 0; i-- {
		infos = append(infos, all[i])
	}
	return infos, nil
}
