package server_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// longWork are attacks with a key by work that takes long: each is one kind of
// request, asked by several clients again and again.
var longWork = []struct {
	name    string
	clients int
	// prepare makes what the request needs, and returns it.
	prepare func(v *victim, t *testing.T) (path, contentType, body string)
}{
	{"decisions with set functions over 5,000 values", 20, func(v *victim, t *testing.T) (string, string, string) {
		return v.policy(t, "condition stringBagSize(stringUnion(stringIntersection(role, resourceId), resourceId)) > 0", bag("role", 5000), bag("urn:oasis:names:tc:xacml:1.0:resource:resource-id", 5000), "")
	}},
	{"decisions with regular expressions", 20, func(v *victim, t *testing.T) (string, string, string) {
		return v.policy(t, `condition anyOf(function [stringRegexpMatch], "(a|b|ab)*c(d|e){1,50}z", role)`, long("role", 200, 2000), "", "")
	}},
	{"decisions with XPath over 20,000 elements", 20, func(v *victim, t *testing.T) (string, string, string) {
		return v.policy(t, "", "", "", "<r>"+strings.Repeat("<a><b>1</b></a>", 10_000)+"</r>")
	}},
	{"validations of a policy of 4 MB on one line", 20, func(*victim, *testing.T) (string, string, string) {
		return "/xacml/v3/validate", "application/xml", onOneLine(4_000_000)
	}},
	{"batches of 10,000 checks", 20, func(v *victim, t *testing.T) (string, string, string) { return v.batch(10_000) }},
	{"batches of 40,000 checks, which are refused", 20, func(v *victim, t *testing.T) (string, string, string) { return v.batch(40_000) }},
	{"pages of a read that walks 20,000 tuples", 20, func(v *victim, t *testing.T) (string, string, string) {
		return "/ostiary/v1/stores/" + v.store + "/read", "application/json", `{"filter":{"object_type":"doc","relation":"viewer"}}`
	}},
	{"differences of 20,000 changes", 20, func(v *victim, t *testing.T) (string, string, string) {
		return "/ostiary/v1/stores/" + v.store + "/difference", "application/json",
			`{"from":{"revision":2},"to":{"revision":201},"object_type":"doc","relation":"viewer","subject_type":"user"}`
	}},
	{"checks at past revisions", 20, func(v *victim, t *testing.T) (string, string, string) {
		return "/ostiary/v1/stores/" + v.store + "/check", "application/json", `{"object":"doc:1","relation":"viewer","subject":"user:anne","at":{"revision":REVISION}}`
	}},
	{"pages of a list of 5,000 tenants", 20, func(v *victim, t *testing.T) (string, string, string) {
		for i := range 5000 {
			v.must(t, "/v1/tenants/create", fmt.Sprintf(`{"id":"tenant%d","name":"tenant%d"}`, i, i))
		}
		return "/v1/tenants/list", "application/json", `{"page_size":10}`
	}},
}

// onOneLine returns a policy of rules without a line break, which has about so many
// bytes.
func onOneLine(bytes int) string {
	var b strings.Builder
	b.WriteString(`<Policy xmlns="urn:oasis:names:tc:xacml:3.0:core:schema:wd-17" PolicyId="p" Version="1" RuleCombiningAlgId="urn:oasis:names:tc:xacml:3.0:rule-combining-algorithm:deny-unless-permit"><Target/>`)
	for i := 0; b.Len() < bytes-50; i++ {
		fmt.Fprintf(&b, `<Rule RuleId="r%d" Effect="Permit"/>`, i)
	}
	return b.String() + "</Policy>"
}

// bag returns an attribute with n values as JSON.
func bag(id string, n int) string {
	values := make([]string, n)
	for i := range values {
		values[i] = fmt.Sprintf("%s-%d", id, i)
	}
	return attribute(id, values)
}

// long returns an attribute with n values of so many bytes.
func long(id string, n, bytes int) string {
	values := make([]string, n)
	for i := range values {
		values[i] = strings.Repeat("ab", bytes/2) + fmt.Sprint(i)
	}
	return attribute(id, values)
}

func attribute(id string, values []string) string {
	text, _ := json.Marshal(map[string]any{"AttributeId": id, "Value": values, "DataType": "http://www.w3.org/2001/XMLSchema#string"})
	return string(text)
}

// policy makes a policy with a condition on attributes of the subject and the
// resource, or one with a path over the content of the resource. It returns the
// request for a decision.
func (v *victim) policy(t *testing.T, condition, subject, resource, content string) (path, contentType, body string) {
	t.Helper()
	policy := "attribute role { category = subjectCat id = \"role\" type = string }\npolicy p { apply denyUnlessPermit rule r { permit " + condition + " } }"
	media := "text/plain"
	if content != "" {
		media, policy = "application/xml", `<Policy xmlns="urn:oasis:names:tc:xacml:3.0:core:schema:wd-17" PolicyId="p" Version="1" RuleCombiningAlgId="urn:oasis:names:tc:xacml:3.0:rule-combining-algorithm:deny-unless-permit"><Target/>
<Rule RuleId="r" Effect="Permit"><Condition><Apply FunctionId="urn:oasis:names:tc:xacml:1.0:function:integer-equal">
<Apply FunctionId="urn:oasis:names:tc:xacml:1.0:function:integer-bag-size"><AttributeSelector MustBePresent="false" Category="urn:oasis:names:tc:xacml:3.0:attribute-category:resource" Path="//a[b = 1]/b" DataType="http://www.w3.org/2001/XMLSchema#integer"/></Apply>
<AttributeValue DataType="http://www.w3.org/2001/XMLSchema#integer">0</AttributeValue></Apply></Condition></Rule></Policy>`
	}
	if status, text := v.send("PUT", "/xacml/v3/root", media, policy); status/100 != 2 {
		t.Fatal(status, text)
	}
	if content != "" {
		return "/xacml/v3/pdp", "application/xacml+xml", `<Request xmlns="urn:oasis:names:tc:xacml:3.0:core:schema:wd-17" CombinedDecision="false" ReturnPolicyIdList="false"><Attributes Category="urn:oasis:names:tc:xacml:3.0:attribute-category:resource"><Content>` + content + `</Content></Attributes></Request>`
	}
	body = `{"Request":{"AccessSubject":{"Attribute":[` + subject + `]}`
	if resource != "" {
		body += `,"Resource":{"Attribute":[` + resource + `]}`
	}
	return "/xacml/v3/pdp", "application/xacml+json", body + `}}`
}

// batch returns a batch of n checks.
func (v *victim) batch(n int) (path, contentType, body string) {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf(`{"object":"doc:a-document-with-a-long-name-%d","relation":"viewer","subject":"user:anne"}`, i)
	}
	return "/ostiary/v1/stores/" + v.store + "/batch", "application/json", `{"questions":[` + strings.Join(items, ",") + `]}`
}

func (v *victim) send(method, path, contentType, body string) (int, string) {
	req, _ := http.NewRequest(method, v.url+v.http+path, strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer "+attackKey)
	req.Header.Set("Content-Type", contentType)
	return v.do(req)
}

// TestLongWork attacks the program that OSTIARY_ATTACK names, and prints for each
// attack the median and the 99th percentile of a neighbor's checks: those of the
// attacked server in quiet, those under attack, and, between them, those of another
// server that is not attacked. OSTIARY_ATTACK_ONLY selects attacks. "make attack"
// runs it.
func TestLongWork(t *testing.T) {
	program := os.Getenv("OSTIARY_ATTACK")
	if program == "" {
		t.Skip("OSTIARY_ATTACK=PROGRAM runs it")
	}
	control := launchVictim(t, t, program, 0, false)
	fmt.Println("| attack by long work" + besideHeader)
	for _, a := range longWork {
		if only := os.Getenv("OSTIARY_ATTACK_ONLY"); only != "" && !strings.Contains(a.name, only) {
			continue
		}
		v := launchVictim(t, t, program, 0, false)
		path, media, body := a.prepare(v, t)
		v.besideControl(t, control, a.name, workOrder{Flood: -1, Clients: a.clients, Path: path, Media: media, Body: body})
	}
}

// besideHeader is the rest of the head of a table of besideControl.
const besideHeader = " | median of the control | under attack | ratio | p99 of the control | under attack | ratio | server's processor time | answer |\n|---|---|---|---|---|---|---|---|---|"

// besideControl lets an attacker work, prints what checks of the server and of the
// control take meanwhile, and ends the server.
func (v *victim) besideControl(t *testing.T, control *victim, name string, o workOrder) {
	t.Helper()
	stop := v.longWorker(t, o)
	time.Sleep(time.Second) // until it works
	cpu := v.processorTime()
	attacked, beside := v.neighbors(t, control, attackTime)
	cpu = v.processorTime() - cpu
	text := stop()
	v.kill()
	ratio := func(percent int) float64 {
		return float64(percentile(attacked, percent)) / float64(percentile(beside, percent))
	}
	fmt.Printf("| %s | %v | %v | %.1f | %v | %v | %.1f | %v | %s |\n", name, percentile(beside, 50), percentile(attacked, 50), ratio(50),
		percentile(beside, 99), percentile(attacked, 99), ratio(99), cpu, text)
}

// neighbors sends checks to both servers in turns.
func (v *victim) neighbors(t *testing.T, control *victim, d time.Duration) (attacked, beside []time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		for _, to := range []struct {
			victim *victim
			took   *[]time.Duration
		}{{v, &attacked}, {control, &beside}} {
			start := time.Now()
			to.victim.post(t, "/stores/"+to.victim.store+"/check", `{"tuple_key":{"user":"user:anne","relation":"viewer","object":"doc:a-document-with-a-long-name-7"}}`)
			*to.took = append(*to.took, time.Since(start))
			time.Sleep(time.Millisecond)
		}
	}
	return attacked, beside
}

// percentile returns the value below which so many percent of the values are.
func percentile(of []time.Duration, percent int) time.Duration {
	slices.Sort(of)
	return cmp.Or(of[(len(of)-1)*percent/100].Round(time.Microsecond), time.Microsecond)
}

// workOrder is what an attacker asks.
type workOrder struct {
	HTTP, GRPC, URL   string
	Flood             int // the number of one of floods, or -1 for a request
	Path, Media, Body string
	Clients           int
}

// TestLongWorker is the attacker's process of TestLongWork. It asks the request of
// the workOrder in the file that OSTIARY_LONG_WORKER names until its input ends, and
// prints the answers.
func TestLongWorker(t *testing.T) {
	name := os.Getenv("OSTIARY_LONG_WORKER")
	if name == "" {
		t.Skip("TestLongWork runs it")
	}
	text, err := os.ReadFile(name)
	var o workOrder
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	v := &victim{http: o.HTTP, grpc: o.GRPC, url: o.URL, client: attackClient()}
	if o.Flood >= 0 {
		fmt.Printf("\nANSWER %s\n", floods[o.Flood].run(ctx, v))
		return
	}
	results := make([]map[string]int, o.Clients)
	var all sync.WaitGroup
	for i := range results {
		results[i] = map[string]int{}
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				body := strings.Replace(o.Body, "REVISION", fmt.Sprint(3+(37*n+11*i)%180), 1)
				status, text := v.send("POST", o.Path, o.Media, body)
				if status == http.StatusOK {
					text = ""
				}
				results[i][fmt.Sprintf("%d %.120s", status, text)]++
			}
		})
	}
	all.Wait()
	fmt.Printf("\nANSWER %s\n", strings.ReplaceAll(mostFrequent(results), "\n", " "))
}

// longWorker starts the attacker's process. stop ends it and returns the answers
// that it got.
func (v *victim) longWorker(t *testing.T, o workOrder) (stop func() string) {
	t.Helper()
	o.HTTP, o.GRPC, o.URL = v.http, v.grpc, v.url
	name := filepath.Join(t.TempDir(), "order")
	text, _ := json.Marshal(o)
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("nice", "-n", "19", os.Args[0], "-test.run", "^TestLongWorker$")
	cmd.Env = append(os.Environ(), "OSTIARY_LONG_WORKER="+name)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() string {
		in.Close()
		cmd.Wait()
		_, answer, _ := strings.Cut(out.String(), "ANSWER ")
		answer, _, _ = strings.Cut(answer, "\n")
		return answer
	}
}
