package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// wrongLogins sends 120 wrong logins at a time, with and without the name of a user
// who exists. After three seconds the administrator logs in with the right password 20
// times at once, from the same address.
func (v *victim) wrongLogins(t *testing.T) string { return v.rightAmongWrong(t, 120) }

// quietLogins are the right logins of wrongLogins alone.
func (v *victim) quietLogins(t *testing.T) string { return v.rightAmongWrong(t, 0) }

func (v *victim) rightAmongWrong(t *testing.T, wrong int) string {
	login := func(name, password string) (int, error) {
		body := strings.Replace(strings.Replace(rightLogin, "NAME", name, 1), "PASSWORD", password, 1)
		resp, err := v.client.Post(v.url+v.http+"/v3/auth/tokens", "application/json", strings.NewReader(body))
		if err != nil {
			return 0, err
		}
		resp.Body.Close()
		return resp.StatusCode, nil
	}
	var all sync.WaitGroup
	defer all.Wait()
	for i := range wrong {
		name := "admin"
		if i%2 == 0 {
			name = fmt.Sprint("nobody", i)
		}
		all.Go(func() {
			for time.Now().Before(v.until) {
				if status, err := login(name, "wrong"); err != nil || status != http.StatusUnauthorized {
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
	}
	if wrong > 0 {
		time.Sleep(3 * time.Second)
	}
	var right atomic.Int64
	var users sync.WaitGroup
	begin := time.Now()
	for range 20 {
		users.Go(func() {
			if status, err := login("admin", attackKey); err == nil && status == http.StatusCreated {
				right.Add(1)
			}
		})
	}
	users.Wait()
	return fmt.Sprintf("%d of 20 right logins in %s", right.Load(), time.Since(begin).Round(100*time.Millisecond))
}

// rightLogin is a login with a name and a password to be filled in.
const rightLogin = `{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"NAME","domain":{"id":"default"},"password":"PASSWORD"}}}}}`
