package oncesqlite

import (
	"cmp"
	"encoding/json"
	"errors"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/write"
)

// bind turns a value into one that SQLite has, for a column. What SQLite would turn into another
// type is refused: "12" is no number, and 12 no text.
func (s *eventShared) bind(t *eventTable, name string, v any) (any, error) {
	column, found := t.columns[name]
	if !found {
		return nil, t.wrong(name, "no such column")
	}
	bound, err := s.plain(v)
	if err != nil {
		return nil, t.wrong(name, err.Error())
	}
	switch b := bound.(type) {
	case string:
		switch {
		case column == wholeAffinity || column == realAffinity:
			return nil, t.wrong(name, "takes a number, not "+kindOfBound(bound))
		case column == numericAffinity && likeNumber.MatchString(b):
			return nil, t.wrong(name, "is declared so that this text would become a number")
		}
	case int64, float64:
		if whole, isWhole := b.(int64); isWhole && column == realAffinity && !isDouble(whole) {
			return nil, t.wrong(name, "holds doubles, and this number is none")
		}
		if column == textAffinity {
			return nil, t.wrong(name, "takes a text, not "+kindOfBound(bound))
		}
	}
	return bound, nil
}

// likeNumber matches the texts of which a NUMERIC column makes numbers: "007" and "7" would be one
// key. STRING, UUID and DATETIME are NUMERIC too.
var likeNumber = regexp.MustCompile(
	`^[ \t\n\v\f\r]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[ \t\n\v\f\r]*$`)

// isDouble tells whether a double holds a whole number exactly.
func isDouble(n int64) bool {
	d, _ := compareBound(n, float64(n))
	return d == 0
}

// textTime has a fixed width, so that texts compare as the times do.
const textTime = "2006-01-02T15:04:05.000000Z"

// plain turns a value into nil, int64, float64, string or []byte.
func (s *eventShared) plain(v any) (any, error) {
	switch v := v.(type) {
	case nil, string, []byte, int64, float64:
		return v, nil
	case int:
		return int64(v), nil
	case bool:
		if v {
			return int64(1), nil
		}
		return int64(0), nil
	case json.Number:
		return exactNumber(v)
	case time.Time:
		if s.conf.TimesAsText {
			return v.UTC().Truncate(time.Microsecond).Format(textTime), nil
		}
		return v.UnixMicro(), nil
	}
	return write.JSON(v)
}

// exactNumber is an int64, or the double that is written as the number is.
func exactNumber(literal json.Number) (any, error) {
	n, err := write.Number(literal)
	if err != nil {
		return nil, err
	}
	if whole, isWhole := n.(int64); isWhole {
		return whole, nil
	}
	f, err := strconv.ParseFloat(string(literal), 64)
	if err != nil {
		return nil, errors.New("SQLite holds no such number")
	}
	text, _ := once.CanonicalNumber(strconv.FormatFloat(f, 'e', -1, 64))
	if n != json.Number(text) {
		return nil, errors.New("SQLite holds no such number exactly")
	}
	return f, nil
}

// kindOfBound names what a value of SQLite is, for people.
func kindOfBound(v any) string {
	switch v.(type) {
	case nil:
		return "nothing"
	case string:
		return "a text"
	case []byte:
		return "bytes"
	}
	return "a number"
}

// plus adds two numbers of SQLite: whole ones exactly, or not at all.
func plus(a, b any) (any, error) {
	x, xWhole := a.(int64)
	y, yWhole := b.(int64)
	if xWhole && yWhole {
		sum := x + y
		if (sum > x) != (y > 0) && y != 0 {
			return nil, errors.New("would be beyond 64 bits")
		}
		return sum, nil
	}
	f, okF := asFloat(a)
	g, okG := asFloat(b)
	if !okF || !okG {
		return nil, errors.New("holds " + kindOfBound(a) + ", not a number")
	}
	if sum := f + g; sum-sum == 0 { // neither infinite nor NaN
		return sum, nil
	}
	return nil, errors.New("would be beyond a double")
}

func asFloat(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// compareBound orders two values of one kind; ok is false for others.
func compareBound(a, b any) (order int, ok bool) {
	s, sText := a.(string)
	t, tText := b.(string)
	if sText && tText {
		return strings.Compare(s, t), true
	}
	x, xWhole := a.(int64)
	y, yWhole := b.(int64)
	if xWhole && yWhole {
		return cmp.Compare(x, y), true
	}
	p, okP := asRat(a)
	q, okQ := asRat(b)
	if !okP || !okQ {
		return 0, false
	}
	return p.Cmp(q), true
}

// asRat is a number exactly: a double and a whole number above 2^53 differ by less than one.
func asRat(v any) (*big.Rat, bool) {
	switch v := v.(type) {
	case int64:
		return new(big.Rat).SetInt64(v), true
	case float64:
		r := new(big.Rat).SetFloat64(v)
		return r, r != nil
	}
	return nil, false
}
