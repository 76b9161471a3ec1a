package identity_test

import (
	"cmp"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/internal/identity/token"
	"github.com/ostiary/ostiary/internal/workshop/bench"
	"github.com/ostiary/ostiary/storage/memory"
)

// BenchmarkScale asks: do validations and effective roles take longer with more
// users? The deployment has OSTIARY_BENCH_USERS users (default 10,000), a tenth as
// many projects and five grants for each user. It also reports the memory, the time
// to open the deployment, and the times of a page of 1,000 users and of the list of
// the users with a name.
func BenchmarkScale(b *testing.B) {
	users, err := strconv.Atoi(cmp.Or(os.Getenv("OSTIARY_BENCH_USERS"), "10000"))
	if err != nil {
		b.Fatal(err)
	}
	driver := memory.New()
	defer driver.Close()
	e, err := ostiary.Open(b.Context(), ostiary.Options{Driver: driver, SecretKey: &[32]byte{1}})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	store, err := e.CreateStore(b.Context(), ostiary.CreateStoreRequest{Name: "scale"})
	if err != nil {
		b.Fatal(err)
	}
	s, err := identity.Open(b.Context(), store, settings.Deployment{Rounds: 4})
	if err != nil {
		b.Fatal(err)
	}
	size := bench.KeystoneSize{Users: users}
	if refused, err := s.LoadRecords(b.Context(), []identity.Loaded{{Record: identity.Record{Kind: identity.Project, ID: identity.DefaultDomain, Name: "Default", IsDomain: true}}}); err != nil || len(refused) > 0 {
		b.Fatal(refused, err)
	}
	if err := size.Load(b.Context(), s, func(int) {}); err != nil {
		b.Fatal(err)
	}
	before := heap()
	start := time.Now()
	s, err = identity.Open(b.Context(), store, settings.Deployment{})
	if err != nil {
		b.Fatal(err)
	}
	opened := time.Since(start)
	directory := heap() - before
	b.Run("validate", func(b *testing.B) {
		now := time.Now().Truncate(time.Second)
		for b.Loop() {
			i := rand.IntN(users)
			project, _ := size.Granted(i, 0)
			p := &token.Payload{UserID: size.UserID(i), ProjectID: size.ProjectID(project), Methods: []string{"password"}, Expires: now.Add(time.Hour), AuditIDs: []string{"a"}}
			if _, err := s.Validate(b.Context(), p, now, 0); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(opened.Seconds(), "open-s")
		b.ReportMetric(float64(directory)/float64(1<<20), "directory-MiB")
		b.ReportMetric(float64(before+directory)/float64(1<<20), "heap-MiB")
	})
	b.Run("roles", func(b *testing.B) {
		for b.Loop() {
			i := rand.IntN(users)
			project, _ := size.Granted(i, rand.IntN(5))
			if ids, err := s.EffectiveRoles(b.Context(), size.UserID(i), size.ProjectID(project)); err != nil || len(ids) == 0 {
				b.Fatal(ids, err)
			}
		}
	})
	b.Run("page", func(b *testing.B) {
		for b.Loop() {
			if page, _, err := s.List(b.Context(), identity.ListRequest{Kind: identity.User, Limit: 1000}); err != nil || len(page) != 1000 {
				b.Fatal(len(page), err)
			}
		}
	})
	b.Run("name", func(b *testing.B) {
		for b.Loop() {
			r := identity.ListRequest{Kind: identity.User, Name: "user-" + strconv.Itoa(rand.IntN(users))}
			if found, _, err := s.List(b.Context(), r); err != nil || len(found) != 1 {
				b.Fatal(len(found), err)
			}
		}
	})
}

// heap returns the bytes of the heap that are in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
