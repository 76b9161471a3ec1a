package server_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/ostiary/ostiary/server"
)

// TestLongUpload checks that the body of a stream may take longer than
// TransferTime, which bounds only each part of it.
func TestLongUpload(t *testing.T) {
	t.Parallel()
	r := start(t, server.Options{HeaderTimeout: 100 * time.Millisecond, TransferTime: time.Second})
	body, feed := io.Pipe()
	go func() {
		tick := time.NewTicker(250 * time.Millisecond)
		defer tick.Stop()
		for range 10 {
			if _, err := feed.Write([]byte("part")); err != nil {
				return
			}
			<-tick.C
		}
		feed.Close()
	}()
	resp, err := http.Post("http://"+r.at["http"]+"/echo/upload", "text/plain", body)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, err := io.ReadAll(resp.Body); string(got) != "40 bytes, <nil>" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
