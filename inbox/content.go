package inbox

import (
	"fmt"
	"mime"
	"net/http"
	"strings"
)

const (
	// wantContent is what a message may say of its content.
	wantContent = "application/json, another +json, text/json, text/plain, or none"

	// maxShownType bounds the content type in a reason, in bytes.
	maxShownType = 100
)

// contentProblem returns why a message's content can't be JSON as it stands; empty: it can. Absent
// and text/plain are taken for JSON, since robots send all sorts. JSON between systems is UTF-8
// (RFC 8259, section 8.1), so another charset is refused: its letters would be taken for others.
func contentProblem(h http.Header) string {
	for _, coding := range h["Content-Encoding"] {
		if coding != "" && !strings.EqualFold(strings.TrimSpace(coding), "identity") {
			return fmt.Sprintf("content encoding %q is not supported, send the body as it is",
				cutText(coding, maxShownType))
		}
	}
	types := h["Content-Type"]
	switch {
	case len(types) == 0, len(types) == 1 && types[0] == "application/json":
		return ""
	case len(types) > 1:
		return "wrong content type: it is given more than once"
	case !isJSONType(types[0]):
		return fmt.Sprintf("wrong content type: got %q, want %s", cutText(types[0], maxShownType),
			wantContent)
	case !isUTF8(types[0]):
		return fmt.Sprintf("wrong charset: got %q, want utf-8", cutText(types[0], maxShownType))
	}
	return ""
}

func isJSONType(t string) bool {
	t, _, _ = strings.Cut(t, ";")
	t = strings.ToLower(strings.TrimSpace(t))
	switch t {
	case "", "application/json", "text/json", "text/plain":
		return true
	}
	return strings.Contains(t, "/") && strings.HasSuffix(t, "+json")
}

// isUTF8 reports whether a content type names no charset, UTF-8, or the part of it that is ASCII.
// Parameters that can't be read name none.
func isUTF8(t string) bool {
	if !strings.Contains(t, ";") {
		return true
	}
	_, params, err := mime.ParseMediaType(t)
	if err != nil {
		return !strings.Contains(strings.ToLower(t), "charset")
	}
	switch strings.ToLower(params["charset"]) {
	case "", "utf-8", "utf8", "us-ascii", "ascii":
		return true
	}
	return false
}
