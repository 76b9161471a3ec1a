package server

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/pprof"
	"strconv"
	"sync"
	"time"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/callers"
	"github.com/ostiary/ostiary/server/internal/conn"
)

const (
	// profileSeconds is how long a profile of the processor is without another time, and
	// profileSecondsMax how long it can be.
	profileSeconds, profileSecondsMax = 10, 60
	// boundProfiles is the name of the bound of profiles that are made at the same time.
	boundProfiles = "Profiles"
	pathProfiles  = "/debug/pprof/{name}"
)

// errProfilesExposed is the error of options that would send keys in plain text, or profiles to
// everyone.
var errProfilesExposed = errors.New("profiles on a port of metrics that other machines can reach need TLS there, and keys from the start on")

// profiles serves profiles of the process to callers who administer all stores, one at a time.
type profiles struct {
	server *Server
	making sync.Mutex
}

// ServeHTTP implements [http.Handler].
func (p *profiles) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	of := pprof.Lookup(name)
	switch name {
	case "profile", "heap", "allocs", "goroutine":
	default:
		http.Error(w, fmt.Sprintf("no profile %.100q: expected profile, heap, allocs or goroutine", name), http.StatusNotFound)
		return
	}
	seconds := profileSeconds
	if text := r.FormValue("seconds"); text != "" {
		var err error
		if seconds, err = strconv.Atoi(text); err != nil || seconds < 1 || seconds > profileSecondsMax {
			http.Error(w, fmt.Sprintf("invalid seconds %.100q: expected a number from 1 to %d", text, profileSecondsMax), http.StatusBadRequest)
			return
		}
	}
	if !p.making.TryLock() {
		p.server.refuseMetric(w, r, &door.Refusal{Reason: door.TooMany, Bound: boundProfiles, Limit: 1})
		return
	}
	defer p.making.Unlock()
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(profileSecondsMax*time.Second + p.server.opts.TransferTime)) // only tests have a writer without one
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`.pb.gz"`)
	p.server.opts.Log.Info("makes a profile", "profile", name, "remote", r.RemoteAddr)
	if of != nil {
		_ = of.WriteTo(w, 0) // the client is gone otherwise
		return
	}
	if err := p.processor(w, r, time.Duration(seconds)*time.Second); err != nil {
		w.Header().Del("Content-Disposition")
		http.Error(w, err.Error(), http.StatusConflict)
	}
}

// processor writes a profile of the processor. It ends early when the client leaves or the server
// stops, and fails if the program makes one otherwise.
func (p *profiles) processor(w http.ResponseWriter, r *http.Request, length time.Duration) error {
	if err := pprof.StartCPUProfile(w); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	_ = http.NewResponseController(w).Flush() // the client sees that the profile has begun
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	case <-p.server.shared.stopping.Done():
	}
	return nil
}

// refuseProfiles returns why a caller may not make profiles, or nil: it needs a preshared key, or a
// key of the system store that may read metrics and administers all stores.
func (s *Server) refuseProfiles(r *http.Request) *door.Refusal {
	if !s.shared.keys.required() {
		return nil
	}
	key, why := s.shared.keys.identify(r.Context(), r.Header["Authorization"], false, conn.Of(r, nil))
	if why != 0 {
		return &door.Refusal{Reason: why}
	}
	if why := key.opens(r.Context(), callers.MetricsDoor); why != nil {
		return why
	}
	if key.grant != nil && !key.grant.AdministersAll() {
		return &door.Refusal{Reason: door.Forbidden, Detail: "a profile needs a key with the right admin on all stores"}
	}
	return nil
}
