package clustertest

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
)

// Pipeline is a connection to a log that is far away and keeps the order of appends.
type Pipeline struct {
	sharedlog.Log
	// Distance is how long an append takes.
	Distance time.Duration
	// Fate, if it is set, is called with each append when it arrives at the log. It returns
	// whether the append reaches the log, and the error of its answer.
	Fate func(record sharedlog.Record) (reaches bool, err error)

	mu   sync.Mutex
	last chan struct{} // closed when the last append that was begun has arrived
}

// Append implements [sharedlog.Log].
func (l *Pipeline) Append(ctx context.Context, after sharedlog.Position, record sharedlog.Record, secrets []sharedlog.SecretChange) error {
	outcome, _ := l.BeginAppend(ctx, after, record, secrets)
	return outcome()
}

// BeginAppend implements [sharedlog.Pipeline].
func (l *Pipeline) BeginAppend(ctx context.Context, after sharedlog.Position, record sharedlog.Record, secrets []sharedlog.SecretChange) (outcome func() error, ordered bool) {
	record.Bytes, secrets = bytes.Clone(record.Bytes), slices.Clone(secrets)
	answer, arrived := make(chan error, 1), make(chan struct{})
	l.mu.Lock()
	before := l.last
	l.last = arrived
	l.mu.Unlock()
	go func() {
		defer close(arrived)
		time.Sleep(l.Distance / 2)
		if before != nil {
			<-before
		}
		err := l.arrive(ctx, after, record, secrets)
		time.AfterFunc(l.Distance/2, func() { answer <- err })
	}()
	return func() error {
		select {
		case err := <-answer:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}, true
}

func (l *Pipeline) arrive(ctx context.Context, after sharedlog.Position, record sharedlog.Record, secrets []sharedlog.SecretChange) error {
	if l.Fate == nil {
		return l.Log.Append(context.WithoutCancel(ctx), after, record, secrets)
	}
	reaches, err := l.Fate(record)
	if reaches {
		if made := l.Log.Append(context.WithoutCancel(ctx), after, record, secrets); err == nil {
			return made
		}
	}
	return err
}
