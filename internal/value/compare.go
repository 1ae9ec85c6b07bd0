package value

import (
	"cmp"
	"strings"
)

// Compare orders two scalars: numbers of all kinds by exact value; decimal texts ("9", "1.5",
// "007", "-3") as the numbers that they write, among themselves and with numbers; other texts by
// their bytes. ok is false for everything else, which has no order: null, bools, objects, lists,
// a number and a text that isn't decimal.
func Compare(a, b any) (order int, ok bool) {
	if x, isInt := a.(int64); isInt {
		if y, isInt := b.(int64); isInt {
			return cmp.Compare(x, y), true
		}
	}
	x, xIsNumber := numberOrDecimal(a)
	y, yIsNumber := numberOrDecimal(b)
	if xIsNumber && yIsNumber {
		return compareCanonical(x, y), true
	}
	s, sIsText := a.(string)
	t, tIsText := b.(string)
	if sIsText && tIsText {
		return strings.Compare(s, t), true
	}
	return 0, false
}

// numberOrDecimal returns the canonical form of a number or a decimal text.
func numberOrDecimal(v any) (string, bool) {
	s, isText := v.(string)
	if !isText {
		return canonicalNumber(v)
	}
	if !isDecimal(s) {
		return "", false
	}
	rest, negative := strings.CutPrefix(s, "-")
	rest = strings.TrimLeft(rest, "0")
	if rest == "" || rest[0] == '.' {
		rest = "0" + rest
	}
	if negative {
		rest = "-" + rest
	}
	return canonicalNumber(Number(rest))
}

// isDecimal reports whether a text is digits with an optional sign and fraction. An exponent
// isn't taken: "1e5" is more likely somebody's id.
func isDecimal(s string) bool {
	if len(s) > maxNumberBytes {
		return false
	}
	s = strings.TrimPrefix(s, "-")
	whole, fraction, hasFraction := strings.Cut(s, ".")
	return allDigits(whole) && (!hasFraction || allDigits(fraction))
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// compareCanonical orders two canonical numbers without ever writing their zeros out.
func compareCanonical(x, y string) int {
	xs, ys := sign(x), sign(y)
	if xs != ys || xs == 0 {
		return cmp.Compare(xs, ys)
	}
	xd, xe := splitCanonical(x)
	yd, ye := splitCanonical(y)
	// Same number of places before the point: then the digits decide, as texts.
	order := cmp.Compare(len(xd)+xe, len(yd)+ye)
	if order == 0 {
		order = strings.Compare(xd, yd)
	}
	return order * xs
}

func sign(canonical string) int {
	switch {
	case canonical == "0":
		return 0
	case canonical[0] == '-':
		return -1
	}
	return 1
}

// Equal reports whether two values have the same content: numbers by exact value, whatever type
// holds them; texts never equal numbers; members without regard to order.
func Equal(a, b any) bool {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for name, v := range x {
			w, found := y[name]
			if !found || !Equal(v, w) {
				return false
			}
		}
		return true
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for i := range x {
			if !Equal(x[i], y[i]) {
				return false
			}
		}
		return true
	case nil, bool, string:
		return a == b // b's type is compared first; maps on the right never reach ==
	}
	x, xIsNumber := canonicalNumber(a)
	y, yIsNumber := canonicalNumber(b)
	return xIsNumber && yIsNumber && x == y
}
