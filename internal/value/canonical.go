package value

import (
	"bytes"
	"fmt"

	"github.com/oncekit/once"

	"github.com/go-json-experiment/json/jsontext"
)

// plainDigits is the length up to which digits alone are a number's canonical form; see
// once.CanonicalNumber.
const plainDigits = 21

// AppendCanonical appends the canonical writing of a JSON text, the one whose SHA-256 [Digest] is:
// members in the order of RFC 8785, texts as there, numbers by their exact decimal value, no white
// space. One byte order mark at the start is skipped. The text isn't changed or kept. The error is
// for what is no JSON, has a name twice, or a number out of range. It builds no value, and so is
// faster than Decode and Digest.
func AppendCanonical(dst, text []byte) ([]byte, error) {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	start := len(dst)
	dst, err := jsontext.AppendFormat(dst, text, jsontext.ReorderRawObjects(true))
	if err != nil {
		return dst[:start], fmt.Errorf("canonical JSON: %w", err)
	}
	if !oddNumbers(dst[start:]) {
		return dst, nil
	}
	sorted := bytes.Clone(dst[start:])
	if dst, err = appendNumbers(dst[:start], sorted); err != nil {
		return dst[:start], err
	}
	return dst, nil
}

// oddNumbers reports whether a compact JSON text holds a number that isn't written in its canonical
// form for sure.
func oddNumbers(text []byte) bool {
	for pos := 0; pos < len(text); {
		start, end := nextNumber(text, pos)
		if start < end && !isPlain(text[start:end]) {
			return true
		}
		pos = end
	}
	return false
}

// nextNumber returns where the next number stands, from pos on, which is not within a text; the end
// of the text twice if there is none.
func nextNumber(text []byte, pos int) (start, end int) {
	for pos < len(text) {
		switch c := text[pos]; {
		case c == '"':
			pos = afterText(text, pos)
		case c == '-' || '0' <= c && c <= '9':
			end = pos + 1
			for end < len(text) && bytes.IndexByte([]byte("+-.0123456789Ee"), text[end]) >= 0 {
				end++
			}
			return pos, end
		default:
			pos++
		}
	}
	return len(text), len(text)
}

// afterText returns the place after the quoted text that begins at pos.
func afterText(text []byte, pos int) int {
	for pos++; pos < len(text); pos++ {
		switch text[pos] {
		case '\\':
			pos++
		case '"':
			return pos + 1
		}
	}
	return len(text)
}

// isPlain reports whether a number is written with digits alone, and not too many of them.
func isPlain(n []byte) bool {
	digits := bytes.TrimPrefix(n, []byte("-"))
	if len(digits) > plainDigits || len(digits) < len(n) && digits[0] == '0' { // -0 is 0
		return false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// appendNumbers appends a compact JSON text with all numbers in their canonical form.
func appendNumbers(dst, text []byte) ([]byte, error) {
	for pos := 0; pos < len(text); {
		start, end := nextNumber(text, pos)
		dst = append(dst, text[pos:start]...)
		pos = end
		if start == end {
			break
		}
		n, ok := once.CanonicalNumber(string(text[start:end]))
		if !ok || end-start > maxNumberBytes {
			return dst, fmt.Errorf("canonical JSON: a number is out of range")
		}
		dst = append(dst, n...)
	}
	return dst, nil
}
