package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// TestFairShare lets one tenant flood the program that OSTIARY_ATTACK names, without limits
// and with limits of its store, and prints what another tenant's checks take: in quiet, during
// the flood, and, in turns with these, on a server that is not attacked. "make attack" runs it.
func TestFairShare(t *testing.T) {
	program := os.Getenv("OSTIARY_ATTACK")
	if program == "" {
		t.Skip("OSTIARY_ATTACK=PROGRAM runs it")
	}
	control := launchVictim(t, t, program, 0, false)
	v := launchVictim(t, t, program, 0, false)
	// The other tenant has a store of its own: the flood is in that of the attacks.
	flooded := v.store
	v.fill(t)
	check := workOrder{Flood: -1, Clients: 64, Media: "application/json", Path: "/stores/" + flooded + "/check",
		Body: `{"tuple_key":{"user":"user:anne","relation":"viewer","object":"doc:a-document-with-a-long-name-7"}}`}
	list := workOrder{Flood: -1, Clients: 64, Media: "application/json", Path: "/stores/" + flooded + "/list-objects",
		Body: `{"type":"doc","relation":"viewer","user":"user:anne"}`}
	fmt.Println("| flood of a tenant | limits of its store | p99 of another in quiet | in the flood | ratio | p99 of the control | server's processor time | answer |\n|---|---|---|---|---|---|---|---|")
	for _, c := range []struct {
		name, limits string
		order        *workOrder
	}{{"none", "{}", nil}, {"64 clients, checks", "{}", &check}, {"64 clients, checks", `{"requests":{"per_second":100},"processor_ms":{"per_second":100}}`, &check},
		{"64 clients, lists of 20,000", "{}", &list}, {"64 clients, lists of 20,000", `{"requests":{"per_second":100},"processor_ms":{"per_second":100}}`, &list}} {
		req, _ := http.NewRequest("PUT", v.url+v.http+"/ostiary/v1/stores/"+flooded+"/limits", strings.NewReader(c.limits))
		req.Header.Set("Authorization", "Bearer "+attackKey)
		req.Header.Set("Content-Type", "application/json")
		if code, text := v.do(req); code != http.StatusOK || !json.Valid([]byte(text)) {
			t.Fatal(code, text)
		}
		quiet, _ := v.neighbors(t, control, attackTime)
		stop := func() string { return "" }
		if c.order != nil {
			stop = v.longWorker(t, *c.order)
		}
		time.Sleep(2 * time.Second) // until it works, and its burst is used up
		cpu := v.processorTime()
		attacked, beside := v.neighbors(t, control, attackTime)
		cpu = v.processorTime() - cpu
		before, during := percentile(quiet, 99), percentile(attacked, 99)
		fmt.Printf("| %s | %s | %v | %v | %.1f | %v | %v | %s |\n", c.name, c.limits, before, during, float64(during)/float64(before), percentile(beside, 99), cpu, stop())
	}
}
