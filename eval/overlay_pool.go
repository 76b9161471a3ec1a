package eval

import "sync"

// overlays are kept for later questions, which use their memory again.
var overlays = sync.Pool{New: func() any { return &overlay{} }}

// over lays what env brings over r, for one question of one goroutine: lists
// are merged when they are read. Its owner releases it when the question is
// answered.
func (b *Binding) over(r Reader, env *Env) (*overlay, error) {
	o := overlays.Get().(*overlay)
	o.env = env
	if err := o.fill(b.s, b, r, env.Tuples, env.Attributes); err != nil {
		o.release()
		return nil, err
	}
	return o, nil
}

// overlaid says whether r is the overlay that was made for env.
func overlaidBy(r Reader, env *Env) bool {
	o, ok := r.(*overlay)
	return ok && o.env == env
}

// release hands the overlay back, without the question's names. One that was
// large is left to the collector.
func (o *overlay) release() {
	if o.index != nil || o.nodes != nil || o.detailed != nil || len(o.attributes) > 0 || o.heavy() {
		return
	}
	clear(o.kinds)
	clear(o.own)
	clear(o.details)
	*o = overlay{kinds: o.kinds[:0], own: o.own[:0], lists: o.lists[:0], details: o.details[:0]}
	overlays.Put(o)
}

// overlayEdgesMax is the length of a list beyond which an overlay is not kept.
const overlayEdgesMax = 1 << 12

func (o *overlay) heavy() bool {
	for i := range o.lists {
		if cap(o.lists[i].own)+cap(o.lists[i].all) > overlayEdgesMax {
			return true
		}
	}
	return false
}
