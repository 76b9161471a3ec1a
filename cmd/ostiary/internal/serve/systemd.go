package serve

import (
	"context"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// underSystemd reports to systemd, if it has started the process, that the server is ready,
// and then, as often as the unit's WatchdogSec asks for, that it works. A server whose disk
// has failed or hangs reports nothing, so that systemd starts it again. When ctx ends, it
// reports that the server stops. end waits for the end of the reports.
func (s *prepared) underSystemd(ctx context.Context) (end func()) {
	if !s.notify(daemon.SdNotifyReady) {
		return func() {}
	}
	watched, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		s.log.Warn("no watchdog: the variables of systemd are not valid", "error", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer s.notify(daemon.SdNotifyStopping)
		if watched <= 0 {
			<-ctx.Done()
			return
		}
		beats := time.NewTicker(watched / 3)
		defer beats.Stop()
		for {
			if s.options.Probe == nil || s.options.Probe() == nil {
				s.notify(daemon.SdNotifyWatchdog)
			}
			select {
			case <-ctx.Done():
				return
			case <-beats.C:
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// notify sends a state to systemd, and reports whether it was sent.
func (s *prepared) notify(state string) bool {
	sent, err := daemon.SdNotify(false, state)
	if err != nil {
		s.log.Warn("systemd was not notified", "state", state, "error", err)
	}
	return sent
}
