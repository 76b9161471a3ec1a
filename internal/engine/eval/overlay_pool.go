package eval

import "sync"

// overlays is a pool of overlays for single questions.
var overlays = sync.Pool{New: func() any { return &overlay{} }}

// contextualOverlay puts the contextual data of env in front of r, for one
// question in one goroutine: lists are merged when they are first read. The
// caller releases it after the question.
func (b *Binding) contextualOverlay(r Reader, env *Env) (*overlay, error) {
	o := overlays.Get().(*overlay)
	o.env = env
	if err := o.fill(b.s, b, r, env.Tuples, env.Attributes); err != nil {
		o.release()
		return nil, err
	}
	return o, nil
}

// isOverlayOf reports whether r is the overlay that was made for env.
func isOverlayOf(r Reader, env *Env) bool {
	o, ok := r.(*overlay)
	return ok && o.env == env
}

// release returns the overlay to the pool, without the question's names. A
// large one is left to the garbage collector.
func (o *overlay) release() {
	if o.lists.index != nil || o.own.index != nil || o.details.index != nil || len(o.attributes) > 0 || o.isLarge() {
		return
	}
	clear(o.kinds)
	clear(o.own.entries)
	clear(o.details.entries)
	*o = overlay{kinds: o.kinds[:0], own: o.own, lists: o.lists, details: o.details}
	o.own.entries, o.lists.entries, o.details.entries = o.own.entries[:0], o.lists.entries[:0], o.details.entries[:0]
	overlays.Put(o)
}

// overlayEdgesMax is the list length beyond which an overlay is not reused.
const overlayEdgesMax = 1 << 12

// isLarge reports whether a list has grown beyond overlayEdgesMax.
func (o *overlay) isLarge() bool {
	for i := range o.lists.entries {
		if l := &o.lists.entries[i].value; cap(l.own)+cap(l.all) > overlayEdgesMax {
			return true
		}
	}
	return false
}
