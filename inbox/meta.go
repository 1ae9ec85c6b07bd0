package inbox

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"net/http"
	"strings"
	"sync"
	"unicode/utf8"
)

// appendMeta appends what is kept of a request beside its body, as JSON; [DecodeMeta] reads it. It
// is written by hand because every message pays for it.
func (rc *Receiver) appendMeta(
	b []byte, r *http.Request, peer string, denied map[string]bool,
) []byte {
	b = rc.appendRequestLine(b, r, peer)
	b = append(b, `,"header":{`...)
	hidden, first := 0, true
	for name, values := range r.Header {
		if denied[name] {
			hidden++
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(appendName(b, name), ":["...)
		for i, value := range values {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendText(b, value)
		}
		b = append(b, ']')
	}
	b = append(b, '}')
	if hidden > 0 {
		b = rc.appendDigests(b, r.Header, denied)
	}
	return append(b, '}')
}

// appendRequestLine leaves the object open.
func (rc *Receiver) appendRequestLine(b []byte, r *http.Request, peer string) []byte {
	b = appendText(append(b, `{"method":`...), r.Method)
	b = appendText(append(b, `,"path":`...), r.URL.EscapedPath())
	if r.URL.RawQuery != "" {
		b = appendText(append(b, `,"query":`...), r.URL.RawQuery)
	}
	b = appendText(append(b, `,"host":`...), r.Host)
	return appendText(append(b, `,"peer":`...), peer)
}

// appendDigests appends the denied headers, each value as its keyed digest.
func (rc *Receiver) appendDigests(b []byte, h http.Header, denied map[string]bool) []byte {
	b = append(b, `,"digest":{`...)
	first := true
	for name, values := range h {
		if !denied[name] {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(appendName(b, name), ":["...)
		for i, value := range values {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(rc.digests.append(append(b, '"'), name, value), '"')
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

// ringMeta is the encoded request of a refused message. Without the headers if they are long.
func (rc *Receiver) ringMeta(r *http.Request, peer string, denied map[string]bool) []byte {
	if rc.ring.store == nil {
		return nil
	}
	b := rc.appendMeta(nil, r, peer, denied)
	if len(b) <= maxRingMeta {
		return b
	}
	b = append(rc.appendRequestLine(b[:0], r, peer), '}')
	if len(b) > maxRingMeta {
		return nil
	}
	return b
}

// appendName appends the name of a header. Servers of net/http let only ASCII through; others may
// not, and the name of a member must be a text.
func appendName(b []byte, name string) []byte {
	return appendText(b, strings.ToValidUTF8(name, "\uFFFD"))
}

// appendText appends a JSON string. A text that isn't valid UTF-8 becomes {"base64":"…"}, so that
// no byte of it is lost.
func appendText(b []byte, s string) []byte {
	plain := true
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			plain = false
			break
		}
	}
	if plain {
		return append(append(append(b, '"'), s...), '"')
	}
	if !utf8.ValidString(s) {
		b = append(b, `{"base64":"`...)
		b = base64.StdEncoding.AppendEncode(b, []byte(s))
		return append(b, `"}`...)
	}
	const digits = "0123456789abcdef"
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < 0x20:
			b = append(b, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// digester makes keyed digests of headers that must not be kept. Safe for concurrent use.
type digester struct{ macs sync.Pool }

func newDigester(key []byte) *digester {
	key = append([]byte(nil), key...)
	d := &digester{}
	d.macs.New = func() any { return hmac.New(sha256.New, key) }
	return d
}

// digestBytes is how much of the HMAC is kept: enough to tell values apart.
const digestBytes = 16

// append appends "hmac:" and the digest of the header's lower-case name, a NUL and the value.
func (d *digester) append(b []byte, name, value string) []byte {
	mac := d.macs.Get().(hash.Hash)
	mac.Reset()
	buf := make([]byte, 0, 256)
	buf = append(append(append(buf, strings.ToLower(name)...), 0), value...)
	mac.Write(buf)
	sum := mac.Sum(buf[:0])
	b = append(b, "hmac:"...)
	b = hex.AppendEncode(b, sum[:digestBytes])
	d.macs.Put(mac)
	return b
}
