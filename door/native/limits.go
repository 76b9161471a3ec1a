package native

import (
	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/internal/tool/turns"
)

// limitedJSON is a key or a store with its limits.
type limitedJSON struct {
	Key    string       `json:"key,omitempty"`
	Store  string       `json:"store,omitempty"`
	Limits turns.Limits `json:"limits"`
}

// limitsOf returns the limits of a response; nil if nothing is limited.
func limitsOf(l turns.Limits) *turns.Limits {
	if l.None() {
		return nil
	}
	return &l
}

// readLimits reads limits.
func readLimits(r *jsonread.Reader) (l turns.Limits) {
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "requests":
			l.Requests = readRate(r)
		case "processor_ms":
			l.ProcessorMillis = readRate(r)
		default:
			r.Unknown()
		}
	}
	return l
}

// readRate reads one limit.
func readRate(r *jsonread.Reader) *turns.Rate {
	rate, has := &turns.Rate{}, false
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "per_second":
			rate.PerSecond, has = r.Int(0, turns.PerSecondMax), true
		case "burst":
			rate.Burst = r.Int(1, turns.BurstMax)
		default:
			r.Unknown()
		}
	}
	if !has {
		r.Fail("expected per_second")
	}
	return rate
}

// bodyLimits reads the limits of a body.
func (c *call) bodyLimits() (turns.Limits, error) {
	r := jsonread.New(c.body)
	l := readLimits(r)
	return l, r.End()
}

// listLimits serves ListLimits.
func (c *call) listLimits() error {
	all, err := c.options.Callers.Limited(c.Context())
	if err != nil {
		return err
	}
	out := struct {
		Limits []limitedJSON `json:"limits"`
	}{[]limitedJSON{}}
	for _, l := range all {
		out.Limits = append(out.Limits, limitedJSON{Key: l.Caller, Store: l.Store, Limits: l.Limits})
	}
	return c.setJSON(out)
}

// setKeyLimits serves SetKeyLimits.
func (c *call) setKeyLimits() error {
	l, err := c.bodyLimits()
	if err != nil {
		return err
	}
	name, err := c.keyName()
	if err != nil {
		return err
	}
	if err := c.options.Callers.SetLimits(c.Context(), name, l); err != nil {
		return keyError(err)
	}
	return c.setJSON(limitedJSON{Key: name, Limits: l})
}

// setStoreLimits serves SetStoreLimits.
func (c *call) setStoreLimits() error {
	l, err := c.bodyLimits()
	if err != nil {
		return err
	}
	if err := c.options.Callers.SetStoreLimits(c.Context(), c.store.Info(), l); err != nil {
		return err
	}
	return c.setJSON(limitedJSON{Store: c.store.ID().String(), Limits: l})
}
