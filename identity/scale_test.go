package identity_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/identity"
	"github.com/ostiary/ostiary/identity/token"
	"github.com/ostiary/ostiary/storage/memory"
)

// BenchmarkScale asks: do validations and effective roles take longer with more
// users? The deployment has OSTIARY_BENCH_USERS users (default 10,000), a tenth as
// many projects and five grants for each user. It also reports the memory, the time
// to open the deployment, and the time of a page of 1,000 users.
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
	s, err := identity.Open(b.Context(), store, identity.Options{Rounds: 4})
	if err != nil {
		b.Fatal(err)
	}
	fill(b, s, users)
	before := heap()
	start := time.Now()
	s, err = identity.Open(b.Context(), store, identity.Options{})
	if err != nil {
		b.Fatal(err)
	}
	opened := time.Since(start)
	directory := heap() - before
	b.Run("validate", func(b *testing.B) {
		now := time.Now().Truncate(time.Second)
		for b.Loop() {
			i := rand.IntN(users)
			p := &token.Payload{UserID: userID(i), ProjectID: projectID(i, users, 0), Methods: []string{"password"}, Expires: now.Add(time.Hour), AuditIDs: []string{"a"}}
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
			if ids, err := s.EffectiveRoles(b.Context(), userID(i), projectID(i, users, rand.IntN(5))); err != nil || len(ids) == 0 {
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
}

func userID(i int) string { return fmt.Sprintf("%032x", i) }

// projectID returns the project of the k-th grant of a user.
func projectID(user, users, k int) string {
	return fmt.Sprintf("%032x", (user*7+k*13)%(users/10))
}

func roleID(i int) string { return fmt.Sprintf("role%d", i) }

// fill loads the records and grants of a deployment.
func fill(b *testing.B, s *identity.Service, users int) {
	b.Helper()
	var records []identity.Loaded
	flush := func(most int) {
		if len(records) < most || len(records) == 0 {
			return
		}
		if refused, err := s.LoadRecords(context.Background(), records); err != nil || len(refused) > 0 {
			b.Fatal(refused, err)
		}
		records = records[:0]
	}
	add := func(r identity.Record) {
		records = append(records, identity.Loaded{Record: r})
		flush(identity.LoadRecordsMax)
	}
	add(identity.Record{Kind: identity.Project, ID: identity.DefaultDomain, Name: "Default", IsDomain: true})
	for i := range 3 {
		add(identity.Record{Kind: identity.Role, ID: roleID(i), Name: roleID(i)})
	}
	flush(1)
	for i := range users / 10 {
		add(identity.Record{Kind: identity.Project, ID: fmt.Sprintf("%032x", i), Name: fmt.Sprint("p", i), Domain: identity.DefaultDomain, Parent: identity.DefaultDomain})
	}
	for i := range users {
		add(identity.Record{Kind: identity.User, ID: userID(i), Name: fmt.Sprint("u", i), Domain: identity.DefaultDomain})
	}
	flush(1)
	var grants []identity.Grant
	for i := range users {
		for k := range 5 {
			grants = append(grants, identity.Grant{UserID: userID(i), Target: projectID(i, users, k), RoleID: roleID((i + k) % 3)})
		}
		if len(grants)+5 > identity.LoadLinksMax || i == users-1 {
			if refused, err := s.LoadGrants(context.Background(), grants); err != nil || len(refused) > 0 {
				b.Fatal(refused, err)
			}
			grants = grants[:0]
		}
	}
}

// heap returns the bytes of the heap that are in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
