// Package value holds JSON as Go values that lose nothing of it: no digit of a number, no byte of a
// text.
//
// A value is one of: nil, bool, string, int64, uint64 (only above the largest int64), float64
// (only if the decimal literal is exactly that double and at most 17 digits long), [Number] (any
// other number, kept as its literal), []any, map[string]any. Values are never changed after they
// were made and may be read by many goroutines.
package value
