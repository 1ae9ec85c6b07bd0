package value

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxShown bounds what an error shows of the sender's names, in bytes.
const maxShown = 120

// SyntaxError says where and why a text isn't acceptable JSON. It holds member names, never
// values.
type SyntaxError struct {
	Path   string // of the place, such as data.items[0]; empty at the top
	Offset int    // in bytes, in the text as it came
	Msg    string // for people: `duplicate name "a"`
}

// Error returns the message with path and offset.
func (e *SyntaxError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("invalid JSON: %s (byte %d)", e.Msg, e.Offset)
	}
	return fmt.Sprintf("invalid JSON: %s: %s (byte %d)", e.Path, e.Msg, e.Offset)
}

// Public returns the place alone, as package queue asks errors for what a log may show: names of
// members are a part of the message.
func (e *SyntaxError) Public() string { return fmt.Sprintf("invalid JSON (byte %d)", e.Offset) }

// explainInvalid finds out what is wrong with a text that jsontext refused.
func explainInvalid(text []byte, skipped int) error {
	if len(bytes.Trim(text, " \t\r\n")) == 0 {
		return &SyntaxError{Offset: skipped, Msg: "is empty"}
	}
	dec := jsontext.NewDecoder(bytes.NewReader(text))
	if err := dec.SkipValue(); err != nil {
		return syntaxError(err, dec, len(text), skipped)
	}
	rest := bytes.TrimLeft(text[dec.InputOffset():], " \t\r\n")
	return &SyntaxError{
		Offset: len(text) - len(rest) + skipped,
		Msg:    "something follows the value",
	}
}

func syntaxError(err error, dec *jsontext.Decoder, size, skipped int) error {
	var syn *jsontext.SyntacticError
	if !errors.As(err, &syn) {
		return &SyntaxError{Offset: int(dec.InputOffset()) + skipped, Msg: "ends too early"}
	}
	out := &SyntaxError{
		Path:   pathText(syn.JSONPointer),
		Offset: int(syn.ByteOffset) + skipped,
	}
	switch {
	case errors.Is(syn.Err, jsontext.ErrDuplicateName):
		out.Path = pathText(syn.JSONPointer.Parent())
		out.Msg = "duplicate name " + strconv.Quote(shorten(syn.JSONPointer.LastToken()))
	case errors.Is(syn.Err, jsontext.ErrNonStringName):
		out.Msg = "a member's name must be a text in quotes"
	case errors.Is(syn.Err, io.ErrUnexpectedEOF):
		out.Offset = size + skipped
		out.Msg = "ends too early"
	case strings.Contains(syn.Err.Error(), "exceeded max depth"):
		out.Path, out.Msg = "", "nested too deep"
	default:
		out.Msg = syn.Err.Error()
	}
	return out
}

// pathAt returns the path of the value at or around a byte offset of a valid text.
func pathAt(text []byte, offset int) string {
	dec := jsontext.NewDecoder(bytes.NewReader(text))
	for {
		if _, err := dec.ReadToken(); err != nil || int(dec.InputOffset()) > offset {
			return pathText(dec.StackPointer())
		}
	}
}

// pathText writes a JSON pointer (RFC 6901) as the configuration writes paths.
func pathText(p jsontext.Pointer) string {
	var b strings.Builder
	for token := range p.Tokens() {
		if _, err := strconv.ParseUint(token, 10, 31); err == nil {
			b.WriteString("[" + token + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(token)
		if b.Len() > maxShown {
			break
		}
	}
	return shorten(b.String())
}

// shorten makes a sender's text fit for one line of a message.
func shorten(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '\uFFFD'
		}
		return r
	}, s)
	if len(s) <= maxShown {
		return s
	}
	return strings.ToValidUTF8(s[:maxShown], "") + "…"
}
