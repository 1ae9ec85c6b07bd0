package inbox

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"
)

// maxPairs bounds the pairs of a form. Providers send a few dozen.
const maxPairs = 1000

// formError says where and why a body is no form that is taken. It holds nothing of the form.
type formError struct {
	msg    string
	offset int // in bytes
}

// Error returns the message with the offset.
func (e *formError) Error() string {
	return fmt.Sprintf("invalid form: %s (byte %d)", e.msg, e.offset)
}

// decodeForm reads an application/x-www-form-urlencoded body (URL Standard, section 5.1) into an
// object of texts; a doubled name has the list of its texts, in order. It is stricter than the
// standard: a % without two hex digits, bytes that are no UTF-8 and a NUL are refused instead of
// being taken for something else.
func decodeForm(b []byte) (any, error) {
	form := make(map[string]any)
	text, pairs := string(b), 0
	for at := 0; at < len(text); {
		end := len(text)
		if n := strings.IndexByte(text[at:], '&'); n >= 0 {
			end = at + n
		}
		pair, begin := text[at:end], at
		at = end + 1
		if pair == "" {
			continue
		}
		if pairs++; pairs > maxPairs {
			return nil, &formError{fmt.Sprintf("more than %d pairs", maxPairs), begin}
		}
		name, val, _ := strings.Cut(pair, "=")
		valueAt := min(begin+len(name)+1, end)
		name, err := formText(name, begin)
		if err != nil {
			return nil, err
		}
		if val, err = formText(val, valueAt); err != nil {
			return nil, err
		}
		switch have := form[name].(type) {
		case nil:
			form[name] = val
		case string:
			form[name] = []any{have, val}
		case []any:
			form[name] = append(have, val)
		}
	}
	return form, nil
}

// formText decodes a name or a value that begins at an offset.
func formText(s string, offset int) (string, error) {
	if strings.ContainsAny(s, "%+") {
		b := make([]byte, 0, len(s))
		for i := 0; i < len(s); i++ {
			switch c := s[i]; c {
			case '+':
				b = append(b, ' ')
			case '%':
				if i+2 >= len(s) || !isHex(s[i+1]) || !isHex(s[i+2]) {
					return "", &formError{"a % that two hex digits don't follow", offset + i}
				}
				b = append(b, unhex(s[i+1])<<4|unhex(s[i+2]))
				i += 2
			default:
				b = append(b, c)
			}
		}
		s = string(b)
	}
	switch {
	case !utf8.ValidString(s):
		return "", &formError{"a text is not valid UTF-8", offset}
	case strings.IndexByte(s, 0) >= 0:
		return "", &formError{"a text holds a NUL", offset}
	}
	return s, nil
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func unhex(c byte) byte {
	switch {
	case c >= 'a':
		return c - 'a' + 10
	case c >= 'A':
		return c - 'A' + 10
	}
	return c - '0'
}

// encodeForm writes what decodeForm reads. The pairs are in the order of their names.
func encodeForm(v any) ([]byte, error) {
	form, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("encode form: no object")
	}
	pairs := make(url.Values, len(form))
	for name, v := range form {
		list, isList := v.([]any)
		if !isList {
			list = []any{v}
		}
		for _, one := range list {
			text, ok := one.(string)
			if !ok {
				return nil, fmt.Errorf("encode form: %q holds what is no text", name)
			}
			pairs.Add(name, text)
		}
	}
	return []byte(pairs.Encode()), nil
}
