package door

import (
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// MediaRanges are the elements of an Accept header (RFC 9110, section 12.5.1).
type MediaRanges []mediaRange

type mediaRange struct {
	name    string // "type/subtype", "type/*" or "*/*"
	quality float64
}

// Accepted returns what the client of r accepts: everything, if it does not name
// anything. It ignores elements that are malformed, and those for whose parameters ignore
// returns true; nil ignores none.
func Accepted(r *http.Request, ignore func(params map[string]string) bool) (out MediaRanges) {
	headers := r.Header["Accept"]
	if len(headers) == 0 {
		return MediaRanges{{"*/*", 1}}
	}
	for element := range strings.SplitSeq(strings.Join(headers, ","), ",") {
		name, params, err := mime.ParseMediaType(element)
		if err != nil || ignore != nil && ignore(params) {
			continue
		}
		q := 1.0
		if text, ok := params["q"]; ok {
			if q, err = strconv.ParseFloat(text, 64); err != nil || !(q >= 0 && q <= 1) {
				continue
			}
		}
		out = append(out, mediaRange{name, q})
	}
	return out
}

// Quality returns how much the client wants a media type, from 0 (not at all) to 1. The
// most specific element decides.
func (m MediaRanges) Quality(name string) float64 {
	name, _, _ = strings.Cut(name, ";")
	major, _, _ := strings.Cut(name, "/")
	for _, pattern := range [...]string{name, major + "/*", "*/*"} {
		for _, r := range m {
			if r.name == pattern {
				return r.quality
			}
		}
	}
	return 0
}
