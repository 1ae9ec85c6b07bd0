package oncehttp

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/value"
)

// maxParsed bounds the content that is compared by another rule than its bytes, after decoding: it
// has to be in memory. What is longer counts by its bytes.
const maxParsed = 1 << 20

// Content of more than largeContent, and content that is compressed, is parsed by at most
// maxParsing requests at a time: a JSON value can take 25 times the memory of its text.
const (
	largeContent = 256 << 10
	maxParsing   = 2
)

// The rules as they are written into a fingerprint. They never change; so that a body that is
// compared by another rule than before is another request, and never taken for the same.
const (
	codeRaw       byte = 1
	codeJSON      byte = 2
	codeForm      byte = 3
	codeMultipart byte = 4
)

type digest = [sha256.Size]byte

// fingerprint digests what is asked: the rule's number, method, host if it counts, path, query,
// media type, and the content by its rule. Each text but the last is written with its length before
// it.
func (m *guarded) fingerprint(r *http.Request, b *body) (once.Fingerprint, error) {
	media, params := "", ""
	if lines := r.Header["Content-Type"]; len(lines) > 0 {
		media, params = mediaType(lines[0]), parameters(lines[0])
	}
	host := ""
	if m.cfg.Content.Host {
		host = strings.ToLower(r.Host)
	}
	buf := getBuffer()
	defer putBuffer(buf)
	text := *buf
	for _, s := range [...]string{
		r.Method, host, r.URL.EscapedPath(), r.URL.RawQuery, media, params,
	} {
		text = appendText(text, s)
	}
	text, err := m.appendContent(text, r, media, b)
	*buf = text
	if err != nil {
		return once.Fingerprint{}, err
	}
	return once.NewFingerprint(once.FingerprintRequestV1, sha256.Sum256(text)), nil
}

// mediaType is the type without its parameters, in lower case.
func mediaType(header string) string {
	base, _, _ := strings.Cut(header, ";")
	return strings.ToLower(strings.TrimSpace(base))
}

// parameters are those of a media type, in order: version=2 may ask for something else. How a body
// is cut into parts, and that it is UTF-8, which is so without being said, don't belong to what is
// asked.
func parameters(header string) string {
	_, rest, _ := strings.Cut(header, ";")
	if rest = strings.TrimSpace(rest); rest == "" {
		return ""
	}
	_, params, err := mime.ParseMediaType(header)
	if err != nil {
		return rest
	}
	delete(params, "boundary")
	if strings.EqualFold(params["charset"], "utf-8") {
		delete(params, "charset")
	}
	var out []byte
	for _, name := range slices.Sorted(maps.Keys(params)) {
		out = appendText(appendText(out, name), params[name])
	}
	return string(out)
}

// rule returns how content of a media type is compared.
func (c *Content) rule(media string) ContentRule {
	if rule, ok := c.Rules[media]; ok {
		return rule
	}
	if kind, _, ok := strings.Cut(media, "/"); ok && len(c.Rules) > 0 {
		if rule, ok := c.Rules[kind+"/*"]; ok {
			return rule
		}
	}
	switch {
	case media == "application/json", strings.HasSuffix(media, "+json"):
		return ContentJSON
	case media == "application/x-www-form-urlencoded":
		return ContentForm
	case media == "multipart/form-data":
		return ContentMultipart
	}
	return ContentRaw
}

var (
	errDecode = errors.New("body can't be decoded")
	errBusy   = errors.New("other bodies are being parsed")
)

// appendContent appends the number of the rule for the media type, and the body as that rule writes
// it. Content that its rule can't read, such as JSON with a name twice, counts by its bytes: it is
// the handler that refuses it.
func (m *guarded) appendContent(
	dst []byte, r *http.Request, media string, b *body,
) ([]byte, error) {
	encoding := ""
	if lines := r.Header["Content-Encoding"]; len(lines) > 0 && b.size > 0 {
		encoding = strings.ToLower(strings.TrimSpace(strings.Join(lines, ",")))
	}
	gzipped := encoding == "gzip" || encoding == "x-gzip"
	if !gzipped && encoding != "" && encoding != "identity" {
		sum, err := rawDigest(b.again()) // its decoder is not ours: bytes in that encoding
		return appendDigest(dst, codeRaw,
			sha256.Sum256(append([]byte(encoding+"\x00"), sum[:]...))), err
	}
	if rule := m.cfg.Content.rule(media); rule != ContentRaw {
		out, ok, err := m.appendParsed(dst, rule, r, b, gzipped)
		if ok || err != nil {
			return out, err
		}
	}
	if !gzipped && b.file == nil {
		return appendDigest(dst, codeRaw, sha256.Sum256(b.data)), nil
	}
	src, err := m.decoded(b, gzipped)
	if err != nil {
		return dst, err
	}
	sum, err := rawDigest(src)
	return appendDigest(dst, codeRaw, sum), err
}

func appendDigest(dst []byte, code byte, sum digest) []byte {
	return append(append(dst, code), sum[:]...)
}

// decoded reads the body without its gzip, up to MaxDecoded.
func (m *guarded) decoded(b *body, gzipped bool) (io.Reader, error) {
	if !gzipped {
		return b.again(), nil
	}
	z, err := gzip.NewReader(b.again())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDecode, err)
	}
	return &gzipReader{z, m.cfg.Content.MaxDecoded}, nil
}

// gzipReader tells faults of the compression from others, and ends what grows too large.
type gzipReader struct {
	z    *gzip.Reader
	left int64 // bytes
}

// Read implements io.Reader.
func (g *gzipReader) Read(p []byte) (int, error) {
	n, err := g.z.Read(p)
	if g.left -= int64(n); g.left < 0 {
		return 0, errBodyTooLarge
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: %w", errDecode, err)
	}
	return n, err
}

func rawDigest(src io.Reader) (digest, error) {
	h := sha256.New()
	if _, err := io.Copy(h, src); err != nil {
		return digest{}, err
	}
	return digest(h.Sum(nil)), nil
}

// appendParsed appends content that is compared by another rule than its bytes. ok is false if it
// can't be read by the rule.
func (m *guarded) appendParsed(
	dst []byte, rule ContentRule, r *http.Request, b *body, gzipped bool,
) (out []byte, ok bool, err error) {
	if rule == ContentMultipart {
		sum, ok, err := m.multipart(r, b, gzipped)
		return appendDigest(dst, codeMultipart, sum), ok, err
	}
	if gzipped || b.size > largeContent {
		select {
		case m.parsing <- struct{}{}:
			defer func() { <-m.parsing }()
		case <-r.Context().Done():
			return dst, false, fmt.Errorf("%w: %w", errBusy, context.Cause(r.Context()))
		}
	}
	text, ok, err := m.text(b, gzipped)
	if err != nil || !ok {
		return dst, false, err
	}
	if rule == ContentForm {
		out, ok = appendForm(append(dst, codeForm), text)
	} else {
		out, ok = m.appendJSON(append(dst, codeJSON), text)
	}
	return out, ok, nil
}

// text returns the decoded body if it may be kept in memory.
func (m *guarded) text(b *body, gzipped bool) ([]byte, bool, error) {
	if !gzipped {
		return b.whole(maxParsed)
	}
	src, err := m.decoded(b, gzipped)
	if err != nil {
		return nil, false, err
	}
	text, err := io.ReadAll(io.LimitReader(src, maxParsed+1))
	return text, len(text) <= maxParsed, err
}

func (m *guarded) appendJSON(dst, text []byte) ([]byte, bool) {
	if len(m.ignore) == 0 {
		out, err := value.AppendCanonical(dst, text)
		return out, err == nil
	}
	v, err := value.Decode(text, value.Limits{Depth: value.MaxDepth})
	if err != nil {
		return dst, false
	}
	out, err := value.AppendCanonicalValue(dst, v, m.ignore)
	return out, err == nil
}

// appendForm writes the fields by name; the values of one name in their order.
func appendForm(dst, text []byte) ([]byte, bool) {
	fields, err := url.ParseQuery(string(text))
	if err != nil {
		return dst, false
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		for _, v := range fields[name] {
			dst = appendText(appendText(dst, name), v)
		}
	}
	return dst, true
}

func appendText(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

// multipart digests the parts in order, streamed: the headers, which have name, file name and type
// as they were sent, and the digest of the bytes. ok is false if it is none.
func (m *guarded) multipart(r *http.Request, b *body, gzipped bool) (_ digest, ok bool, _ error) {
	_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || params["boundary"] == "" {
		return digest{}, false, nil
	}
	src, err := m.decoded(b, gzipped)
	if err != nil {
		return digest{}, false, err
	}
	const maxParts = 1000 // of a form; what has more counts by its bytes
	parts := multipart.NewReader(src, params["boundary"])
	h := sha256.New()
	for n := 0; ; n++ {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) { // all before the first part is skipped: without one, everything
			return digest(h.Sum(nil)), n > 0, nil
		}
		if err != nil {
			return digest{}, false, unreadable(err)
		}
		if n == maxParts {
			return digest{}, false, nil
		}
		sum, err := rawDigest(part)
		if err != nil {
			return digest{}, false, unreadable(err)
		}
		h.Write(append(appendHeader(nil, part.Header), sum[:]...))
	}
}

// appendHeader writes a header by name; the lines of one name in their order.
func appendHeader(dst []byte, h map[string][]string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(h)))
	for _, name := range slices.Sorted(maps.Keys(h)) {
		dst = appendText(dst, name)
		dst = binary.AppendUvarint(dst, uint64(len(h[name])))
		for _, line := range h[name] {
			dst = appendText(dst, line)
		}
	}
	return dst
}

// unreadable tells a multipart body that isn't one, which counts by its bytes and is no error, from
// what is wrong with the body as a whole.
func unreadable(err error) error {
	if errors.Is(err, errDecode) || errors.Is(err, errBodyTooLarge) || errors.Is(err, errSpool) {
		return err
	}
	return nil
}
