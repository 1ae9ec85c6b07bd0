package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// parts are what a signature is over: texts as they stand, and pieces of the request.
type parts []part

type part struct {
	kind string // one of partKinds, or empty: text
	text string // or the canonical name of a header
}

// partKinds returns the pieces of a request that can be signed, and what they need.
func partKinds() map[string]Needs {
	return map[string]Needs{
		"body": NeedsRaw, "sha256": NeedsRaw, "crc32": NeedsRaw, "timestamp": 0, "method": 0,
		"url": NeedsURL, "path": NeedsURL, "query": NeedsURL, "header": 0,
	}
}

const wantParts = "{body}, {sha256}, {crc32}, {timestamp}, {method}, {url}, {path}, {query} or" +
	" {header:NAME}"

// parseParts reads a text such as "v0:{timestamp}:{body}". Two braces {{ are one.
func parseParts(s string) (parts, error) {
	var list parts
	var text strings.Builder
	flush := func() {
		if text.Len() > 0 {
			list = append(list, part{text: text.String()})
			text.Reset()
		}
	}
	for s != "" {
		i := strings.IndexByte(s, '{')
		if i < 0 {
			i = len(s)
		}
		text.WriteString(s[:i])
		if s = s[i:]; s == "" {
			break
		}
		if strings.HasPrefix(s, "{{") {
			text.WriteByte('{')
			s = s[2:]
			continue
		}
		inner, rest, ok := strings.Cut(s[1:], "}")
		if !ok {
			return nil, errors.New("what is signed has a { without its }")
		}
		p, err := parsePart(inner)
		if err != nil {
			return nil, err
		}
		flush()
		list, s = append(list, p), rest
	}
	flush()
	return list, nil
}

func parsePart(inner string) (part, error) {
	kind, name, named := strings.Cut(inner, ":")
	if _, known := partKinds()[kind]; !known || named != (kind == "header") ||
		named && name == "" {
		return part{}, fmt.Errorf("what is signed has {%s}, which is none of %s", inner, wantParts)
	}
	name = http.CanonicalHeaderKey(name)
	switch name {
	case "Host", "Transfer-Encoding", "Trailer":
		return part{}, fmt.Errorf("what is signed has the header %s, which net/http takes out of"+
			" the headers", name)
	}
	return part{kind, name}, nil
}

// has reports whether a piece of one of the kinds is signed.
func (ps parts) has(kinds ...string) bool {
	for _, p := range ps {
		for _, kind := range kinds {
			if p.kind == kind {
				return true
			}
		}
	}
	return false
}

func (ps parts) needs() Needs {
	var n Needs
	for _, p := range ps {
		if p.kind != "" {
			n |= partKinds()[p.kind]
		}
	}
	return n
}

// fill returns the pieces of a request, in the order of the parts; that of the body is nil, since
// it is written without a copy.
func (ps parts) fill(r *Request, body []byte, stamp string) ([]string, error) {
	texts := make([]string, len(ps))
	for i, p := range ps {
		switch p.kind {
		case "":
			texts[i] = p.text
		case "timestamp":
			texts[i] = stamp
		case "method":
			texts[i] = r.Method
		case "url":
			texts[i] = r.URL
		case "path", "query":
			u, err := url.Parse(r.URL)
			if err != nil {
				return nil, &Error{Malformed, "the URL can't be read"}
			}
			if texts[i] = u.EscapedPath(); p.kind == "query" {
				texts[i] = u.RawQuery
			}
		case "header":
			value, err := one(r.Header, p.text)
			if err != nil {
				return nil, err
			}
			texts[i] = value
		case "sha256":
			sum := sha256.Sum256(body)
			texts[i] = hex.EncodeToString(sum[:])
		case "crc32":
			texts[i] = strconv.FormatUint(uint64(crc32.ChecksumIEEE(body)), 10)
		}
	}
	return texts, nil
}

// write writes what is signed.
func (ps parts) write(h hash.Hash, texts []string, body []byte) {
	for i, p := range ps {
		if p.kind == "body" {
			_, _ = h.Write(body) // a hash never fails
			continue
		}
		_, _ = h.Write([]byte(texts[i]))
	}
}
