package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// questionModel has what expensive questions need: rings of groups below an
// exclusion, an object with many users, and a condition on a list.
const questionModel = `model
  schema 1.1
type user
type group
  relations
    define added: [user, group#member]
    define blocked: [user, group#blocked]
    define member: added but not blocked
type doc
  relations
    define viewer: [user]
    define maybe: [user with listed]
condition listed(x: int, l: list<int>) {
  x in l
}
`

// questions creates a store of expensive questions, which the native door names
// "questions". tuple returns tuple number i.
func (v *victim) questions(t *testing.T, n int, tuple func(i int) string) {
	t.Helper()
	v.must(t, "/ostiary/v1/stores", `{"name":"questions","aliases":{"native":"questions"}}`)
	v.must(t, "/ostiary/v1/stores/questions/schemas", `{"dialect":"openfga-dsl","source":"`+strings.ReplaceAll(questionModel, "\n", `\n`)+`"}`)
	const part = 2500
	for i := 0; i < n; i += part {
		var tuples []string
		for j := i; j < min(i+part, n); j++ {
			tuples = append(tuples, tuple(j))
		}
		v.must(t, "/ostiary/v1/stores/questions/write", `{"add":[`+strings.Join(tuples, ",")+`]}`)
	}
}

// rings makes two rings of 10,000 groups: each group's members are the next one's,
// without those that are blocked, and each group blocks whom the next blocks.
func (v *victim) rings(t *testing.T) {
	const n = 10_000
	v.questions(t, 2*n, func(i int) string {
		relation, below := "added", "member"
		if i >= n {
			relation, below = "blocked", "blocked"
		}
		return fmt.Sprintf(`{"object":"group:%d","relation":"%s","subject":"group:%d#%s"}`, i%n, relation, (i+1)%n, below)
	})
	v.must(t, "/ostiary/v1/stores/questions/write", `{"add":[{"object":"group:7","relation":"added","subject":"user:anne"}]}`)
}

// conditional makes 4,000 tuples with a condition on a list.
func (v *victim) conditional(t *testing.T) {
	v.questions(t, 4000, func(i int) string {
		return fmt.Sprintf(`{"object":"doc:%d","relation":"maybe","subject":"user:anne","condition":"listed","context":{"x":-1}}`, i)
	})
}

// wide makes an object with 20,000 users with long names.
func (v *victim) wide(t *testing.T) {
	name := strings.Repeat("x", 60)
	v.questions(t, 20_000, func(i int) string {
		return fmt.Sprintf(`{"object":"doc:wide","relation":"viewer","subject":"user:%s-%d"}`, name, i)
	})
}

// listed is a list of objects whose condition reads a list of 9,000 numbers.
var listed = `{"type":"doc","relation":"maybe","subject":"user:anne","context":{"l":[` + strings.Repeat("1,", 8999) + `1]}}`

// ringChecks asks 128 checks over the rings at the same time, again and again.
func (v *victim) ringChecks(t *testing.T) string {
	one := time.Now()
	v.post(t, "/ostiary/v1/stores/questions/check", `{"object":"group:0","relation":"member","subject":"user:anne"}`)
	took := time.Since(one)
	return fmt.Sprintf("%s; the first, alone, took %v", v.ask(t, 128, "/ostiary/v1/stores/questions/check",
		`{"object":"group:8","relation":"member","subject":"user:anne"}`), took.Round(time.Millisecond))
}

// conditionLists asks 52 lists with expensive conditions at the same time.
func (v *victim) conditionLists(t *testing.T) string {
	return v.ask(t, 52, "/ostiary/v1/stores/questions/list-objects", listed)
}

// expands asks 40 expands at the same time.
func (v *victim) expands(t *testing.T) string {
	return v.ask(t, 40, "/ostiary/v1/stores/questions/expand", `{"object":"doc:wide","relation":"viewer"}`)
}

// deepBodies sends 40 bodies of 1 MiB that are deep at the same time.
func (v *victim) deepBodies(t *testing.T) string {
	return v.ask(t, 40, "/stores/"+v.store+"/check", `{"context":`+strings.Repeat("[", 1<<20))
}

// ask sends a request n times at the same time, again and again. It returns the
// answers and the longest time of one.
func (v *victim) ask(t *testing.T, n int, path, body string) string {
	results, longest := make([]map[string]int, n), make([]time.Duration, n)
	var all sync.WaitGroup
	for i := range results {
		results[i] = map[string]int{}
		all.Go(func() {
			for time.Now().Before(v.until) {
				start := time.Now()
				status, text := v.post(t, path, body)
				longest[i] = max(longest[i], time.Since(start))
				if status == http.StatusOK {
					text = ""
				}
				results[i][fmt.Sprintf("%d %.160s", status, text)]++
			}
		})
	}
	all.Wait()
	most := time.Duration(0)
	for _, d := range longest {
		most = max(most, d)
	}
	return fmt.Sprintf("%s; the longest took %v", mostFrequent(results), most.Round(10*time.Millisecond))
}

// abandoned asks 52 lists with expensive conditions, whose clients depart after
// 300 ms. Then it measures the server's processor time from half a second after
// that on, for a second, in which only the neighbor asks.
func (v *victim) abandoned(t *testing.T) string {
	before, since := v.processorTime(), time.Now()
	time.Sleep(time.Second)
	quiet := float64(v.processorTime()-before) / float64(time.Since(since))
	var all sync.WaitGroup
	for range 52 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			req, _ := http.NewRequestWithContext(ctx, "POST", v.url+v.http+"/ostiary/v1/stores/questions/list-objects", strings.NewReader(listed))
			req.Header.Set("Authorization", "Bearer "+attackKey)
			req.Header.Set("Content-Type", "application/json")
			if resp, err := v.client.Do(req); err == nil {
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	all.Wait()
	time.Sleep(500 * time.Millisecond)
	before, since = v.processorTime(), time.Now()
	time.Sleep(time.Second)
	after := float64(v.processorTime()-before) / float64(time.Since(since))
	return fmt.Sprintf("half a second after the clients have departed, the server uses %.2f processors; before, %.2f", after, quiet)
}

// slowRoutes holds back 80 bodies on a route of each door, those of the Identity
// API without a key.
func (v *victim) slowRoutes(t *testing.T) string {
	paths := []string{"/stores/" + v.store + "/check", "/v1/tenants/t1/permissions/check", "/access/v1/evaluation", "/ostiary/v1/stores/" + v.store + "/check",
		"/xacml/v3/pdp", "/policy/pdpx/v1/decision", "/policy/api/v1/policies", "/policy/pap/v1/pdps/policies", "/v3/auth/tokens"}
	results := make([]map[string]int, 80*len(paths))
	var all sync.WaitGroup
	for i := range results {
		path := paths[i%len(paths)]
		all.Go(func() { results[i] = map[string]int{v.slowBody(path): 1} })
		time.Sleep(time.Millisecond)
	}
	all.Wait()
	return mostFrequent(results)
}

// manyHeldLogins holds back 1,400 logins without a key, each on a connection of its
// own, and then opens 20 connections with a key.
func (v *victim) manyHeldLogins(t *testing.T) string {
	v.hold(t, 1400)
	counts := map[string]int{}
	for range 20 {
		v.client = attackClient()
		status, _ := v.post(t, "/stores/"+v.store+"/check", `{"tuple_key":{"user":"user:anne","relation":"viewer","object":"doc:1"}}`)
		counts[fmt.Sprintf("%d on a new connection with a key", status)]++
		v.client.CloseIdleConnections()
	}
	return mostFrequent([]map[string]int{v.heldAnswers(), counts})
}
