package oncehttp

import (
	"encoding/json"
	"net/http"
)

// problem answers for the service (RFC 9457).
func (p *Proxy) problem(w http.ResponseWriter, status int, name, title, detail string) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	if p.cfg.Docs != "" {
		h.Add("Link", "<"+p.cfg.Docs+`>; rel="describedby"`)
	}
	body, _ := json.Marshal(struct { // of texts and a number: it never fails
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{"urn:once:problem:" + name, title, status, detail})
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // a client that left gets nothing
}
