package wire

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// BenchmarkRead reads bodies here, with encoding/json into structs, and as the
// original's gateway does, with encoding/json and protojson. The two others run
// in turns with ours, and are reported as multiples of it ("x-json",
// "x-gateway").
func BenchmarkRead(b *testing.B) {
	check := []byte(checkBody)
	var item, tuple []string
	for i := range 50 {
		item = append(item, fmt.Sprintf(`{"tuple_key":{"user":"user:anne-%04d","relation":"viewer","object":"document:%04d"},"correlation_id":"id-%d"}`, i, i, i))
	}
	for i := range 100 {
		tuple = append(tuple, fmt.Sprintf(`{"user":"user:anne-%04d","relation":"viewer","object":"document:%04d"}`, i, i))
	}
	batch := []byte(`{"checks":[` + strings.Join(item, ",") + `],"authorization_model_id":"01HVMMBCMGZNT3SED4Z17ECXCA"}`)
	write := []byte(`{"writes":{"tuple_keys":[` + strings.Join(tuple, ",") + `]},"authorization_model_id":"01HVMMBCMGZNT3SED4Z17ECXCA"}`)
	context := []byte(strings.TrimSuffix(checkBody, "}") + `,"context":{"ip":"10.0.0.1","hour":9,"groups":["a","b"]}}`)
	var c CheckRequest
	var bc BatchCheckRequest
	var w WriteRequest
	for _, at := range []struct {
		name string
		body []byte
		ours func([]byte) error
		json func() any
		like proto.Message
	}{
		{"check", check, c.Parse, func() any { return new(jsonCheck) }, &openfgav1.CheckRequest{}},
		{"check with context", context, c.Parse, func() any { return new(jsonCheck) }, &openfgav1.CheckRequest{}},
		{"batch of 50", batch, bc.Parse, func() any { return new(jsonBatch) }, &openfgav1.BatchCheckRequest{}},
		{"write of 100", write, w.Parse, func() any { return new(jsonWrite) }, &openfgav1.WriteRequest{}},
	} {
		b.Run(at.name, func(b *testing.B) {
			compare(b, len(at.body), map[string]func() error{
				"":     func() error { return at.ours(at.body) },
				"json": func() error { return json.Unmarshal(at.body, at.json()) },
				"gateway": func() error {
					var raw json.RawMessage
					if err := json.NewDecoder(strings.NewReader(string(at.body))).Decode(&raw); err != nil {
						return err
					}
					return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(raw, at.like.ProtoReflect().New().Interface())
				},
			})
		})
	}
}

// BenchmarkAppend is like BenchmarkRead, for responses.
func BenchmarkAppend(b *testing.B) {
	buf := make([]byte, 0, 64<<10)
	ids := make([]string, 1000)
	list := &openfgav1.ListObjectsResponse{}
	for i := range ids {
		ids[i] = fmt.Sprintf("%06d", i)
		list.Objects = append(list.Objects, "document:"+ids[i])
	}
	gateway := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}
	b.Run("check", func(b *testing.B) {
		m := &openfgav1.CheckResponse{Allowed: true}
		compare(b, 0, map[string]func() error{
			"":        func() error { buf = AppendCheck(buf[:0], true); return nil },
			"json":    func() error { _, err := json.Marshal(m); return err },
			"gateway": func() error { _, err := gateway.Marshal(m); return err },
		})
	})
	b.Run("list of 1000", func(b *testing.B) {
		compare(b, 0, map[string]func() error{
			"":        func() error { buf = AppendObjects(buf[:0], "document", ids); return nil },
			"json":    func() error { _, err := json.Marshal(list); return err },
			"gateway": func() error { _, err := gateway.Marshal(list); return err },
		})
	})
}

// compare times ours ("") by the benchmark's clock, and each other way in
// turns with it.
func compare(b *testing.B, size int, ways map[string]func() error) {
	b.ReportAllocs()
	b.SetBytes(int64(size))
	run := func(f func() error, n int) {
		for range n {
			if err := f(); err != nil {
				b.Fatal(err)
			}
		}
	}
	spent := map[string]float64{}
	for name, f := range ways {
		if name == "" {
			continue
		}
		r := min(b.N, 2000)
		const turns = 5
		for range turns {
			spent[name] += seconds(func() { run(f, r/turns+1) })
			spent[name+" ours"] += seconds(func() { run(ways[""], r/turns+1) })
		}
	}
	b.ResetTimer()
	run(ways[""], b.N)
	b.StopTimer()
	for name := range ways {
		if name != "" {
			b.ReportMetric(spent[name]/spent[name+" ours"], "x-"+name)
		}
	}
}

type jsonTuple struct {
	User, Relation, Object string
	Condition              *struct {
		Name    string
		Context map[string]any
	}
}

type jsonCheck struct {
	TupleKey         jsonTuple `json:"tuple_key"`
	ContextualTuples struct {
		TupleKeys []jsonTuple `json:"tuple_keys"`
	} `json:"contextual_tuples"`
	ModelID     string `json:"authorization_model_id"`
	Context     map[string]any
	Consistency string
}

type jsonBatch struct {
	Checks []struct {
		jsonCheck
		CorrelationID string `json:"correlation_id"`
	}
	ModelID string `json:"authorization_model_id"`
}

type jsonWrite struct {
	Writes struct {
		TupleKeys []jsonTuple `json:"tuple_keys"`
	}
	ModelID string `json:"authorization_model_id"`
}

func seconds(f func()) float64 {
	start := time.Now()
	f()
	return time.Since(start).Seconds()
}
