package acp_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/ostiary/ostiary/acp"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/pebble"
)

// benchPolicy is the shape of the policy that the report used.
const benchPolicy = `
name: test
resources:
  users:
    permissions:
      read:
        expr: owner + reader
      write:
        expr: owner
    relations:
      owner:
        types:
          - actor
      reader:
        types:
          - actor
      admin:
        manages:
          - reader
        types:
          - actor
actor:
  name: actor
`

var benchScales = []int{256, 512, 1024, 2048, 4096, 8192}

// benchSetup is an engine with the policy. Persistent is on Pebble, without
// waiting for the disk, as the original does not.
func benchSetup(b *testing.B, inMem, sync bool) (*acp.Engine, string) {
	b.Helper()
	var driver storage.Driver
	if !inMem {
		d, err := pebble.Open(b.TempDir()+"/data", pebble.Options{NoSync: !sync})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { d.Close() })
		driver = d
	}
	e := open(b, acp.Options{Driver: driver})
	return e, must(e.AddPolicy(context.Background(), alice, benchPolicy))(b)
}

// benchReset leaves the policy alone.
func benchReset(b *testing.B, e *acp.Engine, policy string) {
	b.Helper()
	ctx := context.Background()
	if err := e.ResetState(ctx); err != nil {
		b.Fatal(err)
	}
	if again := must(e.AddPolicy(ctx, alice, benchPolicy))(b); again != policy {
		b.Fatal("another id")
	}
}

func registerDocs(b *testing.B, e *acp.Engine, policy string, n int) {
	for i := 1; i <= n; i++ {
		if err := e.Register(context.Background(), alice, acp.Object{Policy: policy, Resource: "users", ID: strconv.Itoa(i)}); err != nil {
			b.Fatal(err)
		}
	}
}

func eachScale(b *testing.B, run func(b *testing.B, inMem bool, scale int)) {
	for _, inMem := range []bool{true, false} {
		for _, scale := range benchScales {
			b.Run(fmt.Sprintf("scale=%d,inMem=%t", scale, inMem), func(b *testing.B) {
				b.ReportAllocs()
				run(b, inMem, scale)
			})
		}
	}
}

// BenchmarkACPRegister is the report's: so many documents, registered one by
// one, unsynced.
func BenchmarkACPRegister(b *testing.B) {
	eachScale(b, func(b *testing.B, inMem bool, scale int) {
		e, policy := benchSetup(b, inMem, false)
		b.ResetTimer()
		for range b.N {
			b.StopTimer()
			benchReset(b, e, policy)
			b.StartTimer()
			registerDocs(b, e, policy, scale)
		}
	})
}

// BenchmarkACPRegisterBatch registers them in one batch.
func BenchmarkACPRegisterBatch(b *testing.B) {
	eachScale(b, func(b *testing.B, inMem bool, scale int) {
		e, policy := benchSetup(b, inMem, false)
		b.ResetTimer()
		for range b.N {
			b.StopTimer()
			benchReset(b, e, policy)
			b.StartTimer()
			batch := e.Batch()
			for i := 1; i <= scale; i++ {
				batch.Register(alice, acp.Object{Policy: policy, Resource: "users", ID: strconv.Itoa(i)})
			}
			if err := batch.Commit(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkACPCheckDocAccess is the report's, warm: it asks b.N times after the
// documents were registered once. The first document's owner asks, and with
// "denied" a stranger.
func BenchmarkACPCheckDocAccess(b *testing.B) {
	for _, who := range []struct {
		name, did string
		allowed   bool
	}{{"", alice, true}, {"denied,", bob, false}} {
		for _, inMem := range []bool{true, false} {
			for _, scale := range benchScales {
				b.Run(fmt.Sprintf("%sscale=%d,inMem=%t", who.name, scale, inMem), func(b *testing.B) {
					e, policy := benchSetup(b, inMem, false)
					registerDocs(b, e, policy, scale)
					ctx, doc := context.Background(), acp.Object{Policy: policy, Resource: "users", ID: "1"}
					b.ReportAllocs()
					for b.Loop() {
						if ok, err := e.Check(ctx, who.did, "read", doc); err != nil || ok != who.allowed {
							b.Fatal(ok, err)
						}
					}
				})
			}
		}
	}
}

// BenchmarkACPIsDocRegistered is the report's, warm.
func BenchmarkACPIsDocRegistered(b *testing.B) {
	eachScale(b, func(b *testing.B, inMem bool, scale int) {
		e, policy := benchSetup(b, inMem, false)
		registerDocs(b, e, policy, scale)
		ctx, doc := context.Background(), acp.Object{Policy: policy, Resource: "users", ID: "1"}
		b.ReportAllocs()
		for b.Loop() {
			if ok, err := e.IsRegistered(ctx, doc); err != nil || !ok {
				b.Fatal(ok, err)
			}
		}
	})
}
