package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/language"
	"github.com/ostiary/ostiary/policy/message"
	"github.com/ostiary/ostiary/policy/value"
)

// XACMLOptions are the settings of the workload "xacml".
type XACMLOptions struct {
	// Policies are the numbers of policies. Default 1, 100, 10,000 and 100,000.
	Policies []int
	// Threads are the numbers of threads that decide. Default 1 and 2.
	Threads []int
	// Duration is the time of each cell. Default 3 s.
	Duration time.Duration
}

// xacmlWindows is the number of windows of a cell.
const xacmlWindows = 5

// XACML measures decisions on XACML policies in this process: policies with a
// target that compares the resource with a string, each with a rule for a subject
// and an action, under a root with deny-unless-permit. The request is for the
// policy in the middle. Every answer is checked. It also measures the same with
// requests and responses as XML and as JSON, loading the policies from an XML text
// each, and the change of one policy.
//
// A cell has five windows. The mean of a record is the median of the windows'
// means, and its minimum and maximum are the least and the greatest of them. If
// several threads decide, these are times of one thread, and the throughput is
// that of all.
func (r *Runner) XACML(ctx context.Context, o XACMLOptions) error {
	if len(o.Policies) == 0 {
		o.Policies = []int{1, 100, 10_000, 100_000}
	}
	if len(o.Threads) == 0 {
		o.Threads = []int{1, 2}
	}
	if o.Duration <= 0 {
		o.Duration = 3 * time.Second
	}
	r.expect(len(o.Policies) * (len(o.Threads)*xacmlThreadCells + xacmlOtherCells))
	for _, n := range o.Policies {
		if n < 1 {
			return fmt.Errorf("bench: invalid number of policies %d: expected at least 1", n)
		}
		w, err := newXACMLWorld(n)
		if err != nil {
			return err
		}
		if err := r.xacmlCells(ctx, w, &o); err != nil {
			return err
		}
	}
	return nil
}

// xacmlWorld is a plan of a number of policies with a request.
type xacmlWorld struct {
	root      *policy.PolicySet
	plan      *policy.Plan
	texts     [][]byte // each policy as XML
	request   *policy.Request
	xml, json []byte // the request
}

// newXACMLWorld makes a world of n policies.
func newXACMLWorld(n int) (*xacmlWorld, error) {
	root, request := XACMLShape(n)
	w := &xacmlWorld{root: root, request: request}
	for _, child := range root.Children {
		text, err := language.PrintXML(child)
		if err != nil {
			return nil, err
		}
		w.texts = append(w.texts, text)
	}
	var err error
	w.plan, err = policy.Compile(context.Background(), root, nil, policy.CompileOptions{})
	w.xml, w.json = message.PrintXMLRequest(w.request), message.PrintJSONRequest(w.request)
	return w, err
}

// XACMLShape returns the n policies that [XACML] measures as one policy set, and the
// request for the policy in the middle, which permits it.
func XACMLShape(n int) (*policy.PolicySet, *policy.Request) {
	root := &policy.PolicySet{Header: policy.Header{ID: "root", Version: "1.0", Algorithm: policy.AlgorithmDenyUnlessPermit}}
	for i := range n {
		root.Children = append(root.Children, xacmlPolicy(i))
	}
	attribute := func(category, id, text string) policy.Category {
		return policy.Category{Name: category, Attributes: []policy.Attribute{{ID: id, Values: []value.Value{value.NewString(text)}}}}
	}
	return root, &policy.Request{Categories: []policy.Category{
		attribute(policy.CategorySubject, policy.AttributeSubjectID, "anne"),
		attribute(policy.CategoryResource, policy.AttributeResourceID, fmt.Sprintf("resource-%d", n/2)),
		attribute(policy.CategoryAction, policy.AttributeActionID, "read"),
	}}
}

// xacmlPolicy returns the policy of the i-th resource.
func xacmlPolicy(i int) *policy.Policy {
	equals := func(category, id, text string) policy.AnyOf {
		return policy.AnyOf{policy.AllOf{{Function: "urn:oasis:names:tc:xacml:1.0:function:string-equal", Literal: value.NewString(text),
			Bag: &policy.Designator{Category: category, ID: id, Type: value.String}}}}
	}
	return &policy.Policy{
		Header: policy.Header{ID: fmt.Sprintf("policy-%d", i), Version: "1.0", Algorithm: policy.AlgorithmRulesDenyOverrides,
			Target: policy.Target{equals(policy.CategoryResource, policy.AttributeResourceID, fmt.Sprintf("resource-%d", i))}},
		Rules: []policy.Rule{{ID: "rule", Effect: policy.Permit, Target: policy.Target{
			equals(policy.CategorySubject, policy.AttributeSubjectID, "anne"),
			equals(policy.CategoryAction, policy.AttributeActionID, "read"),
		}}},
	}
}

const (
	// xacmlThreadCells is the number of cells for each number of threads, and
	// xacmlOtherCells the number of the others.
	xacmlThreadCells = 3
	xacmlOtherCells  = 2
)

// xacmlCells measures all cells of a world.
func (r *Runner) xacmlCells(ctx context.Context, w *xacmlWorld, o *XACMLOptions) error {
	type cell struct {
		name    string
		threads int
		do      func() func() error // returns what one thread repeats
	}
	var cells []cell
	for _, threads := range o.Threads {
		cells = append(cells,
			cell{"decision", threads, func() func() error { return w.decision(ctx) }},
			cell{"XML in and out", threads, func() func() error {
				return w.exchange(ctx, w.xml, message.ReadXML, message.AppendXML)
			}},
			cell{"JSON in and out", threads, func() func() error {
				return w.exchange(ctx, w.json, message.ReadJSON, message.AppendJSON)
			}})
	}
	cells = append(cells, cell{"load from XML", 1, w.load}, cell{"change of one policy", 1, w.change})
	for _, c := range cells {
		record := Record{Workload: "xacml", Cell: c.name, Size: len(w.root.Children), Load: Load{Clients: c.threads}.String()}
		r.progress(r.nextCell(fmt.Sprintf("%s, %d policies, %s", c.name, record.Size, record.Load)), 0)
		var work []func() error
		for range c.threads {
			work = append(work, c.do())
		}
		if err := repeat(ctx, &record, work, o.Duration); err != nil {
			return fmt.Errorf("%s of %d policies: %w", c.name, len(w.root.Children), err)
		}
		if err := r.Emit(record); err != nil {
			return err
		}
	}
	return nil
}

// decision decides on the request.
func (w *xacmlWorld) decision(ctx context.Context) func() error {
	var results []policy.Result
	return func() error {
		results = w.plan.AppendDecisions(ctx, results[:0], w.request, policy.Options{})
		return permitted(results)
	}
}

// permitted fails unless the only result is Permit.
func permitted(results []policy.Result) error {
	if len(results) != 1 || results[0].Decision != policy.Permitted {
		return &Failure{What: "wrong answer", Err: fmt.Errorf("results %v: expected one Permit", results)}
	}
	return nil
}

// exchange reads a request, decides on it and writes the response.
func (w *xacmlWorld) exchange(ctx context.Context, body []byte, read func([]byte) (*policy.Request, error), write func([]byte, []policy.Result) []byte) func() error {
	var results []policy.Result
	var out []byte
	return func() error {
		request, err := read(body)
		if err != nil {
			return err
		}
		results = w.plan.AppendDecisions(ctx, results[:0], request, policy.Options{})
		out = write(out[:0], results)
		return permitted(results)
	}
}

// load reads and compiles all policies.
func (w *xacmlWorld) load() func() error {
	return func() error {
		root := *w.root
		root.Children = nil
		for _, text := range w.texts {
			e, err := language.ParseXML(context.Background(), text, "policy")
			if err != nil {
				return err
			}
			root.Children = append(root.Children, e)
		}
		_, err := policy.Compile(context.Background(), &root, nil, policy.CompileOptions{})
		return err
	}
}

// change reads one policy and compiles the set with it.
func (w *xacmlWorld) change() func() error {
	plan, root := w.plan, w.root
	return func() error {
		e, err := language.ParseXML(context.Background(), w.texts[len(w.texts)/2], "policy")
		if err != nil {
			return err
		}
		next := *root
		next.Children = slices.Clone(root.Children)
		next.Children[len(next.Children)/2] = e
		root = &next
		plan, err = policy.Compile(context.Background(), root, nil, policy.CompileOptions{Previous: plan})
		return err
	}
}

// A thread works for about batchTime, and makes at most batchMax calls, before it
// looks at the clock.
const (
	batchTime = 100 * time.Microsecond
	batchMax  = 1000
)

// repeat calls each of work in a thread of its own, in windows of a fifth of the
// duration and at least one call, and fills the record.
func repeat(ctx context.Context, record *Record, work []func() error, duration time.Duration) error {
	batch, err := batchOf(work[0])
	if err != nil {
		return err
	}
	var means, rates []float64
	before := OwnTime()
	for range xacmlWindows {
		if err := ctx.Err(); err != nil {
			return err
		}
		calls, took, err := window(work, batch, duration/xacmlWindows)
		if err != nil {
			return err
		}
		record.N += calls
		means = append(means, float64(took)*float64(len(work))/float64(calls))
		rates = append(rates, float64(calls)/took.Seconds())
	}
	record.GeneratorCPU = float64(OwnTime()-before) / float64(record.N)
	slices.Sort(means)
	slices.Sort(rates)
	record.Mean, record.Min, record.Max = means[xacmlWindows/2], means[0], means[xacmlWindows-1]
	record.Throughput = rates[xacmlWindows/2]
	record.Kind, record.Door, record.Peer = Measured, "embedded", "ostiary"
	record.Machine, record.Commit, record.When = Machine(), Commit(), time.Now().UTC().Truncate(time.Second)
	record.Notes = "mean, min and max of windows"
	return nil
}

// batchOf returns the number of calls between two looks at the clock, after one
// call.
func batchOf(do func() error) (int, error) {
	start := time.Now()
	err := do()
	return int(max(1, min(batchMax, batchTime/max(1, time.Since(start))))), err
}

// window repeats work for a duration. It returns the number of calls and the time
// they took.
func window(work []func() error, batch int, duration time.Duration) (calls int, took time.Duration, err error) {
	counts, errs := make([]int, len(work)), make([]error, len(work))
	var wait sync.WaitGroup
	start := time.Now()
	for i, do := range work {
		wait.Go(func() {
			for errs[i] == nil && (counts[i] == 0 || time.Since(start) < duration) {
				for n := 0; n < batch && errs[i] == nil; n++ {
					errs[i] = do()
					counts[i]++
				}
			}
		})
	}
	wait.Wait()
	took = time.Since(start)
	for _, n := range counts {
		calls += n
	}
	return calls, took, errors.Join(errs...)
}

// XACMLQuoted returns figures of other engines on the same shape of policies. They
// are rough: one run, windows of 2.5 s after 2.5 s of warm-up.
func XACMLQuoted() []Record {
	var out []Record
	add := func(peer, cell string, size, threads int, rate float64) {
		out = append(out, Record{Kind: Quoted, Source: "one run in process, 2 cores, Java 17, windows of 2.5 s; rough", Workload: "xacml",
			Cell: cell, Door: "embedded", Peer: peer, Size: size, Load: Load{Clients: threads}.String(), Throughput: rate})
	}
	for _, row := range []struct {
		peer, cell string
		size       int
		one, two   float64
	}{
		{"authzforce", "decision", 1, 213_761, 568_000},
		{"authzforce", "XML in and out", 1, 1_729, 1_651},
		{"authzforce", "decision", 100, 70_872, 96_048},
		{"authzforce", "decision", 10_000, 151, 276},
		{"at&t", "decision", 1, 341_684, 439_813},
		{"at&t", "JSON in and out", 1, 32_558, 69_947},
		{"at&t", "decision", 100, 27_810, 27_862},
		{"at&t", "decision", 10_000, 155, 148},
	} {
		add(row.peer, row.cell, row.size, 1, row.one)
		add(row.peer, row.cell, row.size, 2, row.two)
	}
	for _, row := range []struct {
		peer    string
		size    int
		seconds float64
	}{{"authzforce", 100, 0.46}, {"authzforce", 10_000, 14.6}, {"at&t", 100, 0.24}, {"at&t", 10_000, 2.9}} {
		add(row.peer, "load from XML", row.size, 1, 0)
		out[len(out)-1].Mean = row.seconds * 1e9
	}
	return out
}
