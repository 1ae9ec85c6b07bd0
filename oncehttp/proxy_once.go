package oncehttp

import (
	"net/http"
	"slices"
	"strings"
)

// sendOnce keeps Go's transport from sending a request a second time by itself, when a connection
// that was kept ends before an answer came. It takes a request for repeatable if its method is
// safe, or if it has an idempotency key, and then also no body or a GetBody.
//
// So a body has no GetBody here. A request without a body must not get one, or it would be sent
// with another framing (chunked): there the transport doesn't find the key, because the field's
// name is not in the form that it looks for. The service reads it in any case: names of fields have
// no case (RFC 9110, section 5.1).
func sendOnce(r *http.Request) {
	r.GetBody = nil
	if r.Body != nil && r.Body != http.NoBody || slices.Contains(neverGuarded, r.Method) {
		return
	}
	for _, name := range []string{HeaderKey, HeaderXKey} {
		if values, ok := r.Header[name]; ok {
			delete(r.Header, name)
			r.Header[strings.ToLower(name)] = values
		}
	}
}
