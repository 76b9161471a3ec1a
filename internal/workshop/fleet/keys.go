//go:build linux

package fleet

import (
	"context"
	"fmt"
	"net/http"

	"github.com/ostiary/ostiary/door/native/client"
)

// keyed notes what was done with a key, and returns whether it was. An error that no fault
// excuses breaks a promise.
func (r *record) keyed(t *target, what string, err error) bool {
	_, code := outcomeOf(err)
	if code != "" && !isFaults(code) {
		r.fail("node %d, %s: %w", t.node.Number, what, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if code == "" {
		r.keys[what]++
	} else {
		r.errors[code]++
	}
	return code == ""
}

// secret makes a key, which every node accepts once it is made, and revokes it. Both change the
// system store.
func (p *player) secret(ctx context.Context, t *target) {
	r, name := &p.play.record, fmt.Sprintf("key%d", p.play.marks.Add(1))
	call := func(f func(ctx context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, callTime)
		defer cancel()
		return f(ctx)
	}
	var key client.Key
	made := r.keyed(t, "create key", call(func(ctx context.Context) (err error) {
		key, err = t.client.CreateKey(ctx, client.NewKey{Name: name, Stores: []string{"*"}, Rights: []string{"read"}})
		return err
	}))
	if !made {
		return
	}
	_ = call(func(ctx context.Context) error { return p.use(ctx, key.Secret, true) })
	if r.keyed(t, "revoke key", call(func(ctx context.Context) error { return t.client.RevokeKey(ctx, name) })) {
		_ = call(func(ctx context.Context) error { return p.use(ctx, key.Secret, false) })
	}
}

// use shows the secret of a key to any node, which must accept it if it was made. Other errors than
// a refusal are of a fault.
func (p *player) use(ctx context.Context, secret string, made bool) error {
	r := &p.play.record
	t := p.play.machines[p.random.IntN(len(p.play.machines))].target.Load()
	if t == nil {
		return nil
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+t.node.HTTP+"/ostiary/v1/stores/"+r.stores[0].id, nil)
	if err != nil {
		return err
	}
	answer, err := transport{t.web, secret}.RoundTrip(q)
	if err != nil {
		return err
	}
	answer.Body.Close()
	what := ""
	switch answer.StatusCode {
	case http.StatusOK:
		if what = "use of key"; !made {
			what = "use of revoked key"
		}
	case http.StatusUnauthorized:
		if what = "refusal of revoked key"; made {
			r.fail("node %d refused the secret of a key that was made: %s", t.node.Number, answer.Status)
		}
	default:
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys[what]++
	return nil
}
