package route

import (
	"errors"
	"net/url"
	"strings"
)

// ErrAmbiguous refuses a path that origins read in different ways, where the routes of the readings
// differ: an encoded slash or backslash, or parameters of a segment (/payments;a=1).
var ErrAmbiguous = errors.New("the path can be read in more than one way")

// Clean returns an escaped path in the normal form of RFC 3986, section 6.2.2: without dot
// segments, encoded letters, digits and -._~ decoded, other escapes in capitals; and without
// doubled slashes. An encoded slash stays encoded.
func Clean(escaped string) string {
	if isClean(escaped) {
		return escaped
	}
	var kept []string
	parts := strings.Split(strings.TrimPrefix(unreserved(escaped), "/"), "/")
	for i, part := range parts {
		last := i == len(parts)-1
		switch part {
		case "":
		case ".":
		case "..":
			kept = kept[:max(len(kept)-1, 0)]
		default:
			kept = append(kept, part)
			continue
		}
		if last && len(kept) > 0 { // a directory stays one
			kept = append(kept, "")
		}
	}
	return "/" + strings.Join(kept, "/")
}

// isClean tells most paths, which are clean already.
func isClean(p string) bool {
	return strings.HasPrefix(p, "/") && !strings.Contains(p, "//") &&
		!strings.Contains(p, "/.") && !strings.Contains(p, "%")
}

// unreserved decodes what is encoded without need, and writes other escapes in capitals.
func unreserved(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		c, err := url.PathUnescape(s[i:min(i+3, len(s))])
		switch {
		case err != nil: // net/http refuses it before
			b.WriteString("%25")
			continue
		case isUnreserved(c[0]):
			b.WriteByte(c[0])
		default:
			b.WriteString(strings.ToUpper(s[i : i+3]))
		}
		i += 2
	}
	return b.String()
}

func isUnreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		strings.IndexByte("-._~", c) >= 0
}

// otherReading is a clean path as an origin reads it that decodes a path before it splits it, takes
// a backslash for a slash, and cuts off parameters of segments.
func otherReading(clean string) (string, bool) {
	if !strings.ContainsAny(clean, "%;\\") {
		return "", false
	}
	parts := strings.Split(strings.NewReplacer("%2F", "/", "%5C", "/", `\`, "/", "%3B", ";").
		Replace(clean), "/")
	for i, part := range parts {
		parts[i], _, _ = strings.Cut(part, ";")
	}
	other := Clean(strings.Join(parts, "/"))
	return other, other != clean
}

// split returns the segments of an escaped path, percent-decoded.
func split(escaped string) []string {
	parts := strings.Split(strings.TrimPrefix(escaped, "/"), "/")
	if !strings.Contains(escaped, "%") {
		return parts
	}
	for i, part := range parts {
		if text, err := url.PathUnescape(part); err == nil {
			parts[i] = text
		}
	}
	return parts
}
