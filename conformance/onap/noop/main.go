// Noop is the server that JMeter's figures are compared with: it reads requests
// of ONAP's plans, and answers each with a fixed text that the plan accepts.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
)

// The responses. Requests with a query ask for abbreviated policies.
const (
	full   = `{"status":"Permit","policies":{"p":{"type":"t","type_version":"1.0.0","properties":{},"name":"p","version":"1.0.0","metadata":{}}}}`
	brief  = `{"policies":{"p":{"type":"t","metadata":{}}}}`
	health = `{"name":"noop","url":"self","healthy":true,"code":200,"message":"alive"}`
)

func serve(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case strings.HasPrefix(r.URL.Path, "/policy/pap/"):
		w.WriteHeader(http.StatusAccepted)
	case r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/policy/api/"):
		w.WriteHeader(http.StatusCreated)
	case r.Method == http.MethodGet:
		io.WriteString(w, health)
		return
	case r.URL.RawQuery != "":
		io.WriteString(w, brief)
		return
	}
	io.WriteString(w, full)
}

func main() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("serving http", l.Addr())
	fmt.Fprintln(os.Stderr, http.Serve(l, http.HandlerFunc(serve)))
	os.Exit(1)
}
