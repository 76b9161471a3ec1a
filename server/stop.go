package server

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// probeEvery is the interval between two calls of Options.Probe.
	probeEvery = 500 * time.Millisecond
	// drainTick is the interval in which a draining server looks for open
	// connections.
	drainTick = 10 * time.Millisecond
)

// Run starts the server and serves until ctx ends; then it stops the server. It
// returns earlier, with the reason, if a port or Options.Probe fails. It is
// called once.
func (s *Server) Run(ctx context.Context) error {
	if err := s.Start(); err != nil {
		return err
	}
	return s.Wait(ctx)
}

// Wait is like [Server.Run] for a server that was started with [Server.Start].
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
				s.shared.failure.Store(&err)
				s.health.set(false)
				s.opts.Log.Error("the server can no longer work and stops", "why", err)
				return errors.Join(err, s.Stop())
			}
		}
	}
}

// Stop ends the server without losing a request. For Options.DrainTime, health
// reports NOT_SERVING and responses ask clients to close their connections. Then
// the ports are closed and requests in flight are finished. Requests still in
// flight after Options.StopTimeout are cut off, and Stop returns [ErrStopped].
//
// Stop does not close the engine. Its owner may close it when Stop has returned.
func (s *Server) Stop() error {
	s.stopOnce.Do(func() { s.stopErr = s.stop() })
	return s.stopErr
}

func (s *Server) stop() error {
	s.shared.draining.Store(true)
	s.shared.beginStop()
	s.health.end()
	s.stopPreload()
	s.drain()
	timeout := max(s.opts.StopTimeout, 0)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	endStreams := time.AfterFunc(timeout/2, s.shared.endStreams)
	defer endStreams.Stop()
	s.closeQuiet(ctx)
	errs := make([]error, len(s.listeners))
	var shutdowns sync.WaitGroup
	for i, l := range s.listeners {
		shutdowns.Go(func() { errs[i] = l.shutdown(ctx) })
	}
	shutdowns.Wait()
	s.shared.endStreams()
	s.serving.Wait()
	s.shared.logins.Close()
	if s.shared.keys != nil {
		s.shared.keys.tokens.close()
	}
	return cmp.Or(errs...)
}

// closeQuiet closes the HTTP ports, and each connection on them when no request
// is on its way, until ctx ends. [http.Server.Shutdown] would close connections
// whose request has arrived but was not read.
func (s *Server) closeQuiet(ctx context.Context) {
	for _, l := range s.listeners {
		if l.http != nil {
			_ = l.net.Close() // the port is closed even if this fails
		}
	}
	tick := time.NewTicker(drainTick)
	defer tick.Stop()
	quiet, left := s.connections.CloseQuiet(nil)
	quietMetrics, leftMetrics := s.metricsConnections.CloseQuiet(nil)
	for left+leftMetrics > 0 {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			quiet, left = s.connections.CloseQuiet(quiet)
			quietMetrics, leftMetrics = s.metricsConnections.CloseQuiet(quietMetrics)
		}
	}
}

// drain waits until all HTTP connections are closed, at most for
// Options.DrainTime. It does not wait for gRPC connections, because the protocol
// informs their clients about the stop and about calls that were not started.
func (s *Server) drain() {
	if s.opts.DrainTime < 0 {
		return
	}
	end := time.NewTimer(s.opts.DrainTime)
	defer end.Stop()
	tick := time.NewTicker(drainTick)
	defer tick.Stop()
	for s.connections.OpenHTTP()+s.metricsConnections.OpenHTTP() > 0 {
		select {
		case <-end.C:
			return
		case <-tick.C:
		}
	}
}
