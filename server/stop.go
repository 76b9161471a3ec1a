package server

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrStopped: the stop's time was up before all requests were answered.
var ErrStopped = errors.New("stopped before all requests were answered")

// drainTick is how often a draining server looks whether anybody is left.
const drainTick = 10 * time.Millisecond

// Run starts the server and serves until ctx ends, then stops gracefully. It
// returns earlier, with the reason, where a port or Options.Probe fails. It is
// called once.
func (s *Server) Run(ctx context.Context) error {
	if err := s.Start(); err != nil {
		return err
	}
	return s.Wait(ctx)
}

// Wait is Run after Start.
func (s *Server) Wait(ctx context.Context) error {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return s.Stop()
		case err := <-s.failed:
			return errors.Join(err, s.Stop())
		case <-tick.C:
			if s.opts.Probe == nil {
				continue
			}
			if err := s.opts.Probe(); err != nil {
				s.gate.failure.Store(&err)
				s.setServing(false)
				s.opts.Log.Error("the server can no longer do its work", "why", err)
				return errors.Join(err, s.Stop())
			}
		}
	}
}

// Stop ends the server without losing a request: health says NOT_SERVING and
// answers ask clients to go elsewhere for Options.DrainTime, then no connection
// is accepted and what is under way is finished. What is left after
// Options.StopTimeout is cut off, which is ErrStopped. The engine is not closed:
// it is its owner's, and may be closed when Stop returns.
func (s *Server) Stop() error {
	s.stopOnce.Do(func() { s.stopErr = s.stop() })
	return s.stopErr
}

func (s *Server) stop() error {
	s.gate.draining.Store(true)
	s.health.Shutdown()
	s.drain()
	ctx, cancel := context.WithTimeout(context.Background(), max(s.opts.StopTimeout, 0))
	defer cancel()
	streams := time.AfterFunc(max(s.opts.StopTimeout, 0)/2, s.gate.endStream)
	defer streams.Stop()
	var wait sync.WaitGroup
	late := make(chan struct{}, len(s.https)+len(s.rpcs))
	for _, h := range s.https {
		wait.Go(func() {
			if h.Shutdown(ctx) != nil {
				late <- struct{}{}
				h.Close()
			}
		})
	}
	for _, g := range s.rpcs {
		wait.Go(func() {
			forget := context.AfterFunc(ctx, func() {
				late <- struct{}{}
				g.Stop()
			})
			g.GracefulStop()
			forget()
		})
	}
	wait.Wait()
	s.gate.endStream()
	s.serving.Wait()
	close(s.served)
	s.watching.Wait()
	if len(late) > 0 {
		return ErrStopped
	}
	return nil
}

// drain serves on while clients leave. gRPC needs none of it: its own graceful
// stop tells clients which calls were not taken.
func (s *Server) drain() {
	if s.opts.DrainTime < 0 {
		return
	}
	end := time.NewTimer(s.opts.DrainTime)
	defer end.Stop()
	tick := time.NewTicker(drainTick)
	defer tick.Stop()
	for s.patience.open() > 0 {
		select {
		case <-end.C:
			return
		case <-tick.C:
		}
	}
}
