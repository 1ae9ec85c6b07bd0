package peer

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
)

// maxBody bounds a request, as in the configuration of once.
const maxBody = 256 << 10

// Callback is what a robot sends.
type Callback struct {
	ReqCode, TaskCode, Method string
	Body                      []byte
}

// Accept makes a callback durable; it returns once it is.
type Accept func(context.Context, Callback) error

// Handler decodes the JSON of each request, has it accepted, and answers. A nil accept stores
// nothing.
func Handler(accept Accept) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			answer(w, http.StatusBadRequest, "1", "body", "")
			return
		}
		var fields map[string]any
		if err := json.Unmarshal(body, &fields); err != nil {
			answer(w, http.StatusBadRequest, "1", "no JSON", "")
			return
		}
		c := Callback{text(fields, "reqCode"), text(fields, "taskCode"),
			text(fields, "callbackMethod"), body}
		if c.ReqCode == "" || c.TaskCode == "" || c.Method == "" {
			answer(w, http.StatusBadRequest, "1", "a part of the key is missing", c.ReqCode)
			return
		}
		if accept != nil {
			if err := accept(r.Context(), c); err != nil {
				answer(w, http.StatusServiceUnavailable, "99", err.Error(), c.ReqCode)
				return
			}
		}
		answer(w, http.StatusOK, "0", "Success", c.ReqCode)
	})
}

func text(fields map[string]any, name string) string {
	s, _ := fields[name].(string)
	return s
}

// answer writes a reply. Its texts come from this package or from a callback of the load generator,
// which holds nothing that JSON escapes otherwise than Go does.
func answer(w http.ResponseWriter, status int, code, message, req string) {
	b := make([]byte, 0, 128)
	b = strconv.AppendQuote(append(b, `{"code":`...), code)
	b = strconv.AppendQuote(append(b, `,"message":`...), message)
	b = strconv.AppendQuote(append(b, `,"reqCode":`...), req)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '}')) // a sender that went away is its own affair
}
