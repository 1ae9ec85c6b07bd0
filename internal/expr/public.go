package expr

import "strings"

// Public returns the text that a log may show, as package queue asks errors for it: all of it,
// since it names fields and functions and holds no value of the message, but what json says of a
// text that it can't read, which names members of it: of that the place alone.
func (e *EvalError) Public() string {
	text := e.Error()
	i := strings.Index(text, unreadable)
	if i < 0 {
		return text
	}
	rest, at := text[i+len(unreadable):], ""
	if j := strings.LastIndex(rest, " (byte "); j >= 0 {
		at = rest[j:]
	}
	return text[:i+len(unreadable)] + at
}

// unreadable begins what json says of a text that is no JSON.
const unreadable = jsonFunction + ": invalid JSON"
