package scenario

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// accountHeader says whose request it is.
const accountHeader = "X-Account"

// maxPayload bounds the body of a request, before it is compressed.
const maxPayload = 16 << 20

// built is a request as it goes over the wire.
type built struct {
	head, body []byte
	// payload is the body without its framing.
	payload  []byte
	method   string
	await100 bool
	switched string
}

// where is what a request is addressed to.
type where struct {
	host, base string
	// on is the scenario's group of routes; token is that of its run.
	on, token string
}

// build writes a request. Nothing stands in the way of one that breaks the rules.
func (r *Request) build(to where, v vars) (*built, error) {
	payload, err := r.payload(v)
	if err != nil {
		return nil, err
	}
	b := &built{
		payload: payload, method: or(r.Method, "POST"), await100: r.Continue, switched: r.Switched,
	}
	var head bytes.Buffer
	path, err := expand(or(r.Path, "/orders"), v)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(&head, "%s %s/%s/%s%s HTTP/1.1\r\n", b.method, to.base, or(r.On, to.on), to.token,
		path)
	line := func(name, value string) { fmt.Fprintf(&head, "%s: %s\r\n", name, value) }
	line("Host", or(r.Host, to.host))
	if account := or(r.Account, "A"); account != "none" {
		line(accountHeader, to.token+"-"+account)
	}
	headers := r.Headers
	if r.Key != nil {
		headers = append([]Header{{"Idempotency-Key": *r.Key}}, headers...)
	}
	for _, h := range headers {
		for name, value := range h {
			if value, err = expand(value, v); err != nil {
				return nil, err
			}
			line(name, value)
		}
	}
	if err := r.frame(b, line, v); err != nil {
		return nil, err
	}
	head.WriteString("\r\n")
	b.head = head.Bytes()
	return b, nil
}

// frame writes the headers that tell of the body, and the body itself.
func (r *Request) frame(b *built, line func(name, value string), v vars) error {
	kind := r.Type
	if kind == "" && b.payload != nil {
		kind = "application/json"
	}
	if kind != "" && kind != "none" {
		line("Content-Type", kind)
	}
	if r.Gzip != nil {
		line("Content-Encoding", "gzip")
	}
	if r.Continue {
		line("Expect", "100-continue")
	}
	b.body = b.payload
	switch {
	case r.Chunks > 0:
		line("Transfer-Encoding", "chunked")
		for _, t := range r.Trailers {
			for name := range t {
				line("Trailer", name)
			}
		}
		return r.chunk(b, v)
	case r.Length != nil:
		line("Content-Length", strconv.Itoa(*r.Length))
	case b.payload != nil || b.method == "POST" || b.method == "PATCH" || b.method == "PUT":
		line("Content-Length", strconv.Itoa(len(b.payload)))
	}
	return nil
}

func (r *Request) chunk(b *built, v vars) error {
	var body bytes.Buffer
	for rest := b.payload; len(rest) > 0; {
		n := min(r.Chunks, len(rest))
		fmt.Fprintf(&body, "%x\r\n%s\r\n", n, rest[:n])
		rest = rest[n:]
	}
	body.WriteString("0\r\n")
	for _, t := range r.Trailers {
		for name, value := range t {
			value, err := expand(value, v)
			if err != nil {
				return err
			}
			fmt.Fprintf(&body, "%s: %s\r\n", name, value)
		}
	}
	body.WriteString("\r\n")
	b.body = body.Bytes()
	return nil
}

// payload is the body without its framing; nil if there is none.
func (r *Request) payload(v vars) ([]byte, error) {
	data, err := r.text(v)
	if data == nil || err != nil {
		return nil, err
	}
	data = bytes.Repeat(data, max(1, r.Times))
	if r.Gzip == nil {
		return data, nil
	}
	return r.Gzip.compress(data)
}

// text is the body, once; nil if there is none.
func (r *Request) text(v vars) ([]byte, error) {
	data := []byte{}
	switch {
	case r.Body != nil:
		text, err := expand(*r.Body, v)
		if err != nil {
			return nil, err
		}
		data = append(data, text...)
	case r.Base64 != nil:
		var err error
		if data, err = base64.StdEncoding.DecodeString(*r.Base64); err != nil {
			return nil, fmt.Errorf("base64: %w", err)
		}
	default:
		return nil, nil
	}
	if len(data)*max(1, r.Times) > maxPayload {
		return nil, fmt.Errorf("the body is larger than %d bytes", maxPayload)
	}
	return data, nil
}

func (g *Gzip) compress(data []byte) ([]byte, error) {
	level := g.Level
	if level == 0 {
		level = gzip.DefaultCompression
	}
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, level)
	if err != nil {
		return nil, err
	}
	w.ModTime = time.Unix(int64(g.Time), 0)
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return bytes.Repeat(out.Bytes(), max(1, g.Members)), nil
}

func or(text, otherwise string) string {
	if strings.TrimSpace(text) == "" {
		return otherwise
	}
	return text
}
