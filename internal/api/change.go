package api

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"

	"github.com/oncekit/once/internal/wire"
	"github.com/oncekit/once/queue"
)

// maxChange bounds the body of a change, in bytes.
const maxChange = 64 << 10

// Bounds of who and why, in bytes. They are kept with each change and shown in lists.
const maxActor, maxReason = 200, 2000

// change reads the body of a change. A content type that no form can send is asked for, so that a
// browser asks before it sends such a request across origins; and the question is refused.
func (c *call) change(action string, into interface{ Who() *wire.Change }) error {
	if err := checkContent(c.r.Header); err != nil {
		return err
	}
	b, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, maxChange))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return problemf(http.StatusRequestEntityTooLarge, "the body is above %d bytes", maxChange)
	case err != nil:
		return problemf(http.StatusBadRequest, "the body can't be read: %v", err)
	case len(b) == 0:
		return problemf(http.StatusBadRequest, `the body is empty, want {"actor": …, "reason": …}`)
	}
	if err := json.Unmarshal(b, into, json.RejectUnknownMembers(true)); err != nil {
		return problemf(http.StatusBadRequest, "the body is wrong: %s", wrongJSON(err))
	}
	who := into.Who()
	if err := checkText("actor", who.Actor, maxActor, unicode.IsControl); err != nil {
		return err
	}
	if err := checkText("reason", who.Reason, maxReason, notInLines); err != nil {
		return err
	}
	c.by = queue.Action{Actor: who.Actor, Reason: who.Reason, Name: action}
	return nil
}

// notInLines are the control characters that have no place in a text of several lines.
func notInLines(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\n\r\t", r) }

func checkContent(h http.Header) error {
	media, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	charset := params["charset"]
	switch {
	case len(h.Values("Content-Type")) != 1, err != nil, media != "application/json",
		charset != "" && !strings.EqualFold(charset, "utf-8"):
		return problemf(http.StatusUnsupportedMediaType, "want Content-Type: application/json")
	case h.Get("Content-Encoding") != "":
		return problemf(http.StatusUnsupportedMediaType, "want the body without a Content-Encoding")
	}
	return nil
}

func checkText(name, s string, limit int, bad func(rune) bool) error {
	switch {
	case strings.TrimSpace(s) == "":
		return problemf(http.StatusBadRequest, "%s is required", name)
	case len(s) > limit:
		return problemf(http.StatusBadRequest, "%s is longer than %d bytes", name, limit)
	case strings.IndexFunc(s, bad) >= 0:
		return problemf(http.StatusBadRequest, "%s holds a control character", name)
	}
	return nil
}

// wrongJSON says what is wrong without the names of Go types.
func wrongJSON(err error) string {
	var semantic *json.SemanticError
	if !errors.As(err, &semantic) {
		return strings.TrimPrefix(err.Error(), "jsontext: ")
	}
	at := string(semantic.JSONPointer)
	if at == "" {
		at = "the body"
	}
	if errors.Is(err, json.ErrUnknownName) {
		return "unknown member " + at
	}
	return at + " has the wrong type"
}

func missing(member string) error {
	return problemf(http.StatusBadRequest, "%s is required", member)
}
