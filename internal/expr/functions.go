package expr

import (
	"strings"
	"sync"
	"unicode/utf8"
	"weak"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/decls"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/oncekit/once/internal/value"
)

// The functions beside CEL's own, and their overloads.
const (
	jsonFunction, jsonOverload           = "json", "json_text"
	urldecodeFunction, urldecodeOverload = "urldecode", "urldecode_text"
)

// functionOptions declare them. Their arguments' types are judged when they run, so that the error
// says what came.
func functionOptions() []cel.EnvOption {
	arg := []*cel.Type{cel.StringType}
	return []cel.EnvOption{
		cel.Function(jsonFunction, decls.DisableTypeGuards(true),
			cel.Overload(jsonOverload, arg, cel.DynType, cel.UnaryBinding(new(memo).jsonOf))),
		cel.Function(urldecodeFunction, decls.DisableTypeGuards(true),
			cel.Overload(urldecodeOverload, arg, cel.StringType, cel.UnaryBinding(urldecoded))),
	}
}

// functionCosts count a text that a function reads by its bytes: in a loop they are what bounds its
// work, and what it keeps.
func functionCosts() cel.ProgramOption {
	bytes := func(args []ref.Val, _ ref.Val) *uint64 {
		n := uint64(1)
		if s, ok := args[0].(types.String); ok {
			n += uint64(len(s))
		}
		return &n
	}
	return cel.CostTrackerOptions(cost.OverloadTracker(jsonOverload, bytes),
		cost.OverloadTracker(urldecodeOverload, bytes))
}

// isOwnError reports whether a message is one of ours, which holds no value of the message.
func isOwnError(msg string) bool {
	return strings.HasPrefix(msg, jsonFunction+": ") ||
		strings.HasPrefix(msg, urldecodeFunction+": ")
}

// memoFrom is the length from which on the value of a text is remembered.
const memoFrom = 512

// memo remembers the last long text that was read, as long as the garbage collector lets it: the
// key of each of a thousand elements may read the same one. Safe for concurrent use.
type memo struct {
	mu   sync.Mutex
	last weak.Pointer[remembered]
}

type remembered struct {
	text  string
	value ref.Val
}

// of returns the value of a text if it is the last one. The comparison is quick where it is the
// same memory, as it is within one message.
func (m *memo) of(text string) (ref.Val, bool) {
	if len(text) < memoFrom {
		return nil, false
	}
	m.mu.Lock()
	r := m.last.Value()
	m.mu.Unlock()
	if r == nil || r.text != text {
		return nil, false
	}
	return r.value, true
}

func (m *memo) keep(text string, v ref.Val) {
	if len(text) < memoFrom {
		return
	}
	m.mu.Lock()
	m.last = weak.Make(&remembered{text, v})
	m.mu.Unlock()
}

// jsonOf reads a text as a body is read: numbers exact, the same limits, the same strictness.
func (m *memo) jsonOf(v ref.Val) ref.Val {
	text, ok := v.(types.String)
	if !ok {
		return noText(jsonFunction, v)
	}
	if known, ok := m.of(string(text)); ok {
		return known
	}
	decoded, err := value.Decode([]byte(text), value.Limits{})
	if err != nil {
		return types.NewErr("%s: %s", jsonFunction, err.Error())
	}
	read := adapter{}.NativeToValue(decoded)
	m.keep(string(text), read)
	return read
}

// urldecoded undoes application/x-www-form-urlencoded (WHATWG URL, section 5.1), which Java's
// URLEncoder and others write: %XX is a byte of UTF-8, + is a blank (a plus sign comes as %2B). A %
// that no two hexadecimal digits follow stays, since senders encode some of their texts only.
func urldecoded(v ref.Val) ref.Val {
	text, ok := v.(types.String)
	if !ok {
		return noText(urldecodeFunction, v)
	}
	s := string(text)
	if !strings.ContainsAny(s, "%+") {
		return text
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '+':
			c = ' '
		case c == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			c = unhex(s[i+1])<<4 | unhex(s[i+2])
			i += 2
		}
		if c == 0 {
			return types.NewErr("%s: the text holds NUL (%%00)", urldecodeFunction)
		}
		out = append(out, c)
	}
	if !utf8.Valid(out) {
		return types.NewErr("%s: the decoded text is not valid UTF-8", urldecodeFunction)
	}
	return types.String(out)
}

// noText is the error for an argument of another kind. Errors of the argument never get here.
func noText(function string, v ref.Val) ref.Val {
	kind := "no text"
	if got, err := fromCEL(v, 0); err == nil && got != Absent {
		kind = value.KindOf(got)
	}
	return types.NewErr("%s: expected a text, got %s", function, kind)
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
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
