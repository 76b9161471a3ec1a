package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/ostiary/ostiary/internal/cluster/sqllog"
)

// pipeline is a connection on which transactions are on their way at the same time. Each of
// them ends with a Sync, so the server commits it before it begins the next one. The
// pipelines of pgx are not used: one that waits for an answer sends nothing meanwhile.
type pipeline struct {
	conn   *pgconn.HijackedConn
	names  map[string]string // of the prepared statements, by their text; send owns it
	done   chan struct{}     // closed when the connection is broken
	wake   chan struct{}     // gets an element when unsent grows
	mu     sync.Mutex
	broken bool
	// answering are the transactions without an answer, in their order. unsent are the last
	// of them, which are not sent.
	answering, unsent []*transaction
}

// transaction is the statements of a Begin.
type transaction struct {
	statements []sqllog.Statement
	answered   func(changed int64, err error)
	received   int // answers of statements
	changed    int64
	err        error
}

// transactionsMax is how many transactions are on their way at most.
const transactionsMax = 64

// errBroken means that the outcome of a transaction is open.
var errBroken = errors.New("the connection was lost")

// Pipeline implements [sqllog.Pipeliner]. A pooler may give each transaction another server,
// so it keeps no order.
func (d *dialect) Pipeline(ctx context.Context) (sqllog.Pipeline, error) {
	if d.config.DefaultQueryExecMode != pgx.QueryExecModeCacheStatement {
		return nil, nil
	}
	c, err := pgconn.ConnectConfig(ctx, d.config.Config.Copy())
	if err != nil {
		return nil, err
	}
	if err := c.SyncConn(ctx); err != nil {
		_ = c.Close(ctx)
		return nil, err
	}
	hijacked, err := c.Hijack()
	if err != nil {
		return nil, err
	}
	p := &pipeline{conn: hijacked, names: map[string]string{}, done: make(chan struct{}), wake: make(chan struct{}, 1)}
	go p.send()
	go p.receive()
	return p, nil
}

// Begin implements [sqllog.Pipeline].
func (p *pipeline) Begin(statements []sqllog.Statement, answered func(changed int64, err error)) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken || len(p.answering) >= transactionsMax {
		return false
	}
	t := &transaction{statements: statements, answered: answered}
	p.answering, p.unsent = append(p.answering, t), append(p.unsent, t)
	select {
	case p.wake <- struct{}{}:
	default:
	}
	return true
}

// Done implements [sqllog.Pipeline].
func (p *pipeline) Done() <-chan struct{} { return p.done }

// Close implements [sqllog.Pipeline].
func (p *pipeline) Close() { p.end(errBroken) }

// end closes the connection, because of an error.
func (p *pipeline) end(why error) {
	p.mu.Lock()
	if p.broken {
		p.mu.Unlock()
		return
	}
	p.broken = true
	open := p.answering
	p.answering, p.unsent = nil, nil
	p.mu.Unlock()
	_ = p.conn.Conn.Close()
	close(p.done)
	for _, t := range open {
		t.answered(0, fmt.Errorf("%w: %w", errBroken, why))
	}
}

// send sends transactions until the connection is broken.
func (p *pipeline) send() {
	for {
		select {
		case <-p.wake:
		case <-p.done:
			return
		}
		p.mu.Lock()
		all := p.unsent
		p.unsent = nil
		p.mu.Unlock()
		for _, t := range all {
			for _, s := range t.statements {
				p.put(s)
			}
			p.conn.Frontend.SendSync(&pgproto3.Sync{})
		}
		if err := p.conn.Frontend.Flush(); err != nil {
			p.end(err)
			return
		}
	}
}

// preparedMax is how many statements are prepared: those of a segment without secrets, or with
// a few.
const preparedMax = 32

// put sends a statement, which it prepares at its first use. The number of texts is small:
// arguments are not a part of them.
func (p *pipeline) put(s sqllog.Statement) {
	oids, formats, values := make([]uint32, len(s.Arguments)), make([]int16, len(s.Arguments)), make([][]byte, len(s.Arguments))
	for i, a := range s.Arguments {
		oids[i], formats[i], values[i] = encode(a)
	}
	name, prepared := p.names[s.Query]
	if !prepared {
		if len(p.names) < preparedMax {
			name = "append" + strconv.Itoa(len(p.names))
			p.names[s.Query] = name
		}
		p.conn.Frontend.SendParse(&pgproto3.Parse{Name: name, Query: s.Query, ParameterOIDs: oids})
	}
	p.conn.Frontend.SendBind(&pgproto3.Bind{PreparedStatement: name, ParameterFormatCodes: formats, Parameters: values})
	p.conn.Frontend.SendExecute(&pgproto3.Execute{})
}

// encode returns the type of an argument, and its value in the text format (0) or in the binary
// one (1).
func encode(a any) (oid uint32, format int16, value []byte) {
	switch a := a.(type) {
	case []byte:
		return pgtype.ByteaOID, 1, a
	case string:
		return pgtype.TextOID, 0, []byte(a)
	}
	return pgtype.Int8OID, 0, fmt.Append(nil, a)
}

// receive answers transactions until the connection is broken.
func (p *pipeline) receive() {
	for {
		m, err := p.conn.Frontend.Receive()
		if err == nil {
			err = p.take(m)
		}
		if err != nil {
			p.end(err)
			return
		}
	}
}

// take takes a message of the server. An error of a transaction ends the connection: those that
// follow build on it, and a statement after the failed one is not prepared.
func (p *pipeline) take(m pgproto3.BackendMessage) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.answering) == 0 {
		if e, is := m.(*pgproto3.ErrorResponse); is {
			return pgconn.ErrorResponseToPgError(e)
		}
		return nil
	}
	t := p.answering[0]
	switch m := m.(type) {
	case *pgproto3.CommandComplete:
		if t.received++; t.received == 1 {
			t.changed = pgconn.NewCommandTag(string(m.CommandTag)).RowsAffected()
		}
	case *pgproto3.ErrorResponse:
		t.err = pgconn.ErrorResponseToPgError(m)
	case *pgproto3.ReadyForQuery:
		p.answering = p.answering[1:]
		t.answered(t.changed, t.err)
		return t.err
	}
	return nil
}
