package onap

import (
	"net/http"
	"time"

	"github.com/ostiary/ostiary/door/onap/internal/catalog"
	"github.com/ostiary/ostiary/door/onap/internal/tosca"
)

// operationsPage is the number of operations that GET operations returns.
const operationsPage = 100

// appendOperations adds operations to the history: one, or a list. The response
// has the ids of the operations. The original has no such route: its actors write
// a table of a database.
func (c *call) appendOperations() error {
	v, err := c.body()
	if err != nil {
		return err
	}
	items := v.Items
	if v.Kind != tosca.List {
		items = []tosca.Value{v}
	}
	b := bodyReader{}
	if len(items) > catalog.OperationsWriteMax {
		b.fail(&v, "%d operations: expected at most %d", len(items), catalog.OperationsWriteMax)
	}
	list, ids := make([]*catalog.Operation, len(items)), make([]string, len(items))
	for i := range items {
		if b.err == nil {
			list[i] = b.operation(&items[i])
			ids[i] = list[i].ID
		}
	}
	if b.err != nil {
		return b.err
	}
	if err := c.catalog.History.Append(c.Context(), list); err != nil {
		return err
	}
	return c.answerAny(http.StatusCreated, map[string]any{"ids": ids})
}

// operation reads an operation. One without an id gets a new one.
func (b *bodyReader) operation(v *tosca.Value) *catalog.Operation {
	if v.Kind != tosca.Map {
		b.fail(v, "expected an operation, which is a map, got %s", v.Kind)
	}
	o := &catalog.Operation{ID: b.text(v, "id"), Loop: b.text(v, "closedLoopName"), Request: b.text(v, "requestId"),
		Subrequest: b.text(v, "subrequestId"), Actor: b.text(v, "actor"), Operation: b.text(v, "operation"), Target: b.text(v, "target"),
		Outcome: b.text(v, "outcome"), Message: b.text(v, "message"), Start: b.time(v, "starttime"), End: b.time(v, "endtime")}
	if o.ID == "" {
		o.ID = newUUID()
	}
	return o
}

// time reads a time, or returns nil if it is missing.
func (b *bodyReader) time(v *tosca.Value, name string) *time.Time {
	text := b.text(v, name)
	if text == "" {
		return nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		b.fail(v.Get(name), "invalid %s %.80q: expected RFC 3339, for example 2026-01-02T15:04:05Z", name, text)
	}
	return &t
}

// operations answers with the latest operations of the history.
func (c *call) operations() error {
	list, err := c.catalog.History.Latest(c.Context(), operationsPage)
	if err != nil {
		return err
	}
	return c.answerAny(http.StatusOK, list)
}
