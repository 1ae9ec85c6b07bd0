package inbox

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// Request is what is kept of a callback's request beside its body.
type Request struct {
	Method string
	Path   string // percent-encoded as it came
	Query  string // as it came, without the question mark
	Host   string
	Peer   string
	// Header by canonical name, each value as it came.
	Header http.Header
	// Digests stand for the headers that are not kept: "hmac:" and 32 hex digits for each value.
	// Equal values of one header have equal digests under one key.
	Digests http.Header
	// Element says which callback of its message it is; nil: the message was one callback.
	Element *Element

	as bodyForm
}

// text is a JSON string, or {"base64":"…"} for bytes that are not valid UTF-8.
type text string

// UnmarshalJSON reads both forms.
func (t *text) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		var encoded struct {
			Base64 []byte `json:"base64"`
		}
		if err := json.Unmarshal(b, &encoded); err != nil {
			return err
		}
		*t = text(encoded.Base64)
		return nil
	}
	return json.Unmarshal(b, (*string)(t))
}

// DecodeMeta reads the request that a Receiver stored in a row's Meta, or in that of a refused
// message. Empty meta, which was swept or never kept, is an empty Request.
func DecodeMeta(meta []byte) (Request, error) {
	if len(meta) == 0 {
		return Request{}, nil
	}
	var in struct {
		Method text              `json:"method"`
		Path   text              `json:"path"`
		Query  text              `json:"query"`
		Host   text              `json:"host"`
		Peer   text              `json:"peer"`
		Header map[string][]text `json:"header"`
		Digest map[string][]text `json:"digest"`
		Stored bodyForm          `json:"stored"`
	}
	if err := json.Unmarshal(meta, &in); err != nil {
		return Request{}, fmt.Errorf("decode request: %w", err)
	}
	return Request{
		Method: string(in.Method), Path: string(in.Path), Query: string(in.Query),
		Host: string(in.Host), Peer: string(in.Peer),
		Header: headerOf(in.Header), Digests: headerOf(in.Digest),
		Element: in.Stored.Element, as: in.Stored,
	}, nil
}

func headerOf(in map[string][]text) http.Header {
	if len(in) == 0 {
		return nil
	}
	h := make(http.Header, len(in))
	for name, values := range in {
		for _, v := range values {
			h[name] = append(h[name], string(v))
		}
	}
	return h
}
