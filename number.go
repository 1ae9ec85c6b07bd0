package once

import (
	"strconv"
	"strings"
)

const (
	// maxNumberExponent bounds the decimal exponent of a number: far above what any sender means,
	// and small enough that no sum of exponents overflows.
	maxNumberExponent = 1_000_000

	// The canonical form is scientific, as in ECMAScript, where the decimal point would stand
	// beyond these many places right or left of the first digit.
	maxPlainPoint, minPlainPoint = 21, -6
)

// CanonicalNumber returns the one spelling of a JSON number's exact decimal value (RFC 8259,
// section 6): 1, 1.0, 1e0 and 10e-1 all become "1". Plain digits are used below 1e21 and down
// to 1e-6, else d.ddde±N. It never goes through a float, so numbers above 2^53 stay apart.
// ok is false if the literal isn't a JSON number or its exponent is beyond ±1,000,000.
func CanonicalNumber(literal string) (text string, ok bool) {
	return canonicalNumber(literal)
}

func canonicalNumber(literal string) (string, bool) {
	d, ok := parseDecimal(literal)
	if !ok {
		return "", false
	}
	return d.text(), true
}

// decimal is digits × 10^exp; digits has neither leading nor trailing zeros; zero has none.
type decimal struct {
	neg    bool
	digits string
	exp    int
}

// parseDecimal reads a literal by the JSON grammar.
func parseDecimal(lit string) (decimal, bool) {
	var d decimal
	rest := lit
	rest, d.neg = strings.CutPrefix(rest, "-")
	whole, rest := cutDigits(rest)
	if whole == "" || (len(whole) > 1 && whole[0] == '0') {
		return decimal{}, false
	}
	fraction := ""
	if strings.HasPrefix(rest, ".") {
		if fraction, rest = cutDigits(rest[1:]); fraction == "" {
			return decimal{}, false
		}
	}
	if rest != "" {
		var ok bool
		if d.exp, ok = parseExponent(rest); !ok {
			return decimal{}, false
		}
	}
	d.exp -= len(fraction)
	digits := whole + fraction
	trimmed := strings.TrimRight(digits, "0")
	d.exp += len(digits) - len(trimmed)
	d.digits = strings.TrimLeft(trimmed, "0")
	if d.digits == "" {
		return decimal{}, true // every zero is the same zero, -0 too
	}
	return d, true
}

func parseExponent(s string) (int, bool) {
	if s[0] != 'e' && s[0] != 'E' {
		return 0, false
	}
	s = s[1:]
	neg := strings.HasPrefix(s, "-")
	if neg || strings.HasPrefix(s, "+") {
		s = s[1:]
	}
	digits, rest := cutDigits(s)
	if digits == "" || rest != "" {
		return 0, false
	}
	digits = strings.TrimLeft(digits, "0")
	if len(digits) > len("1000000") {
		return 0, false
	}
	n, err := strconv.Atoi("0" + digits)
	if err != nil || n > maxNumberExponent {
		return 0, false
	}
	if neg {
		n = -n
	}
	return n, true
}

func cutDigits(s string) (digits, rest string) {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return s[:i], s[i:]
}

func (d decimal) text() string {
	if d.digits == "" {
		return "0"
	}
	var b strings.Builder
	if d.neg {
		b.WriteByte('-')
	}
	point := len(d.digits) + d.exp // digits before the decimal point
	switch {
	case point > maxPlainPoint || point <= minPlainPoint:
		d.scientific(&b, point-1)
	case d.exp >= 0:
		b.WriteString(d.digits)
		b.WriteString(strings.Repeat("0", d.exp))
	case point > 0:
		b.WriteString(d.digits[:point] + "." + d.digits[point:])
	default:
		b.WriteString("0." + strings.Repeat("0", -point) + d.digits)
	}
	return b.String()
}

func (d decimal) scientific(b *strings.Builder, exp int) {
	b.WriteString(d.digits[:1])
	if len(d.digits) > 1 {
		b.WriteString("." + d.digits[1:])
	}
	b.WriteByte('e')
	if exp > 0 {
		b.WriteByte('+')
	}
	b.WriteString(strconv.Itoa(exp))
}
