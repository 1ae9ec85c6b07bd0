package value

import (
	"math"
	"math/bits"
	"strconv"
	"strings"

	"github.com/oncekit/once"
)

// Number is a number that no Go number type holds exactly, as the literal that came: 0.1,
// 18446744073709551617, 1e400. Two Numbers are the same number if [Equal] says so, not by ==.
type Number string

// DecimalText returns the literal; it lets [once.KeyOf] take a Number.
func (n Number) DecimalText() string { return string(n) }

// parseNumber turns a valid JSON number into int64, uint64, an exact float64 or Number.
func parseNumber(lit string) (any, bool) {
	if !strings.ContainsAny(lit, ".eE") {
		if i, err := strconv.ParseInt(lit, 10, 64); err == nil {
			return i, true
		}
		if u, err := strconv.ParseUint(lit, 10, 64); err == nil {
			return u, true
		}
	}
	text, ok := once.CanonicalNumber(lit)
	if !ok {
		return nil, false
	}
	if f, ok := exactFloat(text); ok {
		return f, true
	}
	return Number(lit), true
}

// maxSureDigits are the significant digits up to which a double's shortest form gives back what
// was written.
const maxSureDigits, maxFloatDigits = 15, 17

// exactFloat returns the double that is exactly the canonical number, if there is one whose
// shortest form is that number again: so a double always writes as it was read.
func exactFloat(text string) (float64, bool) {
	digits, exp := splitCanonical(text)
	if len(digits) > maxFloatDigits {
		return 0, false
	}
	if digits == "" {
		return 0, true
	}
	m, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return 0, false
	}
	// m × 10^exp = (m × 5^exp) × 2^exp: a double holds it if the odd part of m × 5^exp has at
	// most 53 bits. Where that is so, 2^exp is far from the ends of a double's range.
	m >>= bits.TrailingZeros64(m)
	for ; exp > 0 && m < 1<<53; exp-- {
		m *= 5
	}
	for ; exp < 0 && m%5 == 0; exp++ {
		m /= 5
	}
	if exp != 0 || m >= 1<<53 {
		return 0, false
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, false
	}
	if len(digits) > maxSureDigits {
		short, _ := once.CanonicalNumber(floatText(f))
		return f, short == text
	}
	return f, true
}

// FromFloat turns a double of any origin (arithmetic, YAML) into a number value: the double
// itself where its shortest decimal form is exact, else that form as a [Number], since 0.1 is
// what its author wrote. ok is false for NaN and infinities.
func FromFloat(f float64) (v any, ok bool) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, false
	}
	text, ok := once.CanonicalNumber(floatText(f))
	if !ok {
		return nil, false
	}
	if f, ok := exactFloat(text); ok {
		return f, true
	}
	return Number(text), true
}

// isPlainFloat reports whether the canonical form of a double is the plain form of its shortest
// digits, as strconv writes it: where it isn't scientific and no zero ([once.CanonicalNumber]).
func isPlainFloat(f float64) bool {
	f = math.Abs(f)
	return f >= 1e-6 && f < 1e21
}

// floatText writes a finite double in its shortest form that reads back as the same double.
func floatText(f float64) string { return strconv.FormatFloat(f, 'e', -1, 64) }

// splitCanonical takes a canonical number apart: its significant digits without sign, and the
// power of ten by which they are multiplied.
func splitCanonical(text string) (digits string, exp int) {
	text = strings.TrimPrefix(text, "-")
	mantissa, power, scientific := strings.Cut(text, "e")
	if scientific {
		exp, _ = strconv.Atoi(power) // canonical: always within ±1,000,400
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	exp -= len(fraction)
	digits = strings.TrimLeft(whole+fraction, "0")
	trimmed := strings.TrimRight(digits, "0")
	exp += len(digits) - len(trimmed)
	return trimmed, exp
}

// canonicalNumber returns the canonical text of any number value; ok is false for other values
// and for floats that aren't finite.
func canonicalNumber(v any) (string, bool) {
	switch v := v.(type) {
	case int64:
		return strconv.FormatInt(v, 10), true
	case uint64:
		return strconv.FormatUint(v, 10), true
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return "", false
		}
		return once.CanonicalNumber(floatText(v))
	case Number:
		return once.CanonicalNumber(string(v))
	}
	return "", false
}
