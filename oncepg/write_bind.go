package oncepg

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/oncekit/once/write"
)

// bind writes a value as the text from which PostgreSQL makes one of the column's type; nil for
// NULL. A value of another kind than the column's is refused rather than cast: "12" is no number.
func (t *table) bind(c column, v any) (*string, error) {
	if v == nil {
		return nil, nil
	}
	text, ok, err := c.text(v)
	if err == nil && !ok {
		err = fmt.Errorf("takes %s, not %s", c.takes(), kindOfValue(v))
	}
	if err != nil {
		return nil, &write.ShapeError{In: t.name, Field: c.name, Reason: err.Error()}
	}
	return &text, nil
}

func (c column) takes() string {
	if c.kind == kindOther {
		return "a text of type " + c.typ
	}
	return kindNames[c.kind]
}

// text writes a value for a column; ok is false if the column does not take it.
func (c column) text(v any) (text string, ok bool, err error) {
	if c.kind == kindJSON {
		text, err = write.JSON(v)
		return text, true, err
	}
	if c.kind == kindArray {
		return c.array(v)
	}
	return scalar(c.kind, v)
}

func scalar(k kind, v any) (text string, ok bool, err error) {
	switch v := v.(type) {
	case bool:
		return strconv.FormatBool(v), k == kindBool, nil
	case string:
		return v, k == kindText || k == kindTime || k == kindOther, nil
	case []byte:
		return bytesText(v), k == kindBytes, nil
	case time.Time:
		return timeText(v), k == kindTime, nil
	case int, int64, float64, json.Number:
		text, err = numberText(v)
		return text, k == kindNumber, err
	}
	return "", false, nil
}

// bytesText is the text form of bytes.
func bytesText(b []byte) string { return `\x` + hex.EncodeToString(b) }

// keyText writes the key of a row as a text.
func keyText(key any) string {
	if text, ok := key.(string); ok {
		return text
	}
	return fmt.Sprint(key) // an integer
}

// timeText writes a time in UTC, to the microsecond: PostgreSQL would round.
func timeText(t time.Time) string {
	return t.UTC().Truncate(time.Microsecond).Format("2006-01-02T15:04:05.999999Z")
}

func numberText(v any) (string, error) {
	n, err := write.Number(v)
	if err != nil {
		return "", err
	}
	return fmt.Sprint(n), nil
}

// array writes an array in its text form, of one dimension.
func (c column) array(v any) (text string, ok bool, err error) {
	list, isList := v.([]any)
	if !isList {
		return "", false, nil
	}
	texts := make([]*string, len(list))
	for i, element := range list {
		if element == nil {
			continue
		}
		one := column{kind: c.elem}
		s, ok, err := one.text(element)
		if err != nil {
			return "", false, err
		}
		if !ok || c.elem == kindArray {
			return "", false, fmt.Errorf("takes an array of %s, not with %s",
				one.takes(), kindOfValue(element))
		}
		texts[i] = &s
	}
	return arrayText(texts), true, nil
}

// arrayText is the text form of an array of texts.
func arrayText(list []*string) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, s := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		if s == nil {
			b.WriteString("NULL")
			continue
		}
		b.WriteByte('"')
		quoteElement(&b, *s)
		b.WriteByte('"')
	}
	b.WriteByte('}')
	return b.String()
}

func quoteElement(b *strings.Builder, s string) {
	for {
		i := strings.IndexAny(s, `"\`)
		if i < 0 {
			b.WriteString(s)
			return
		}
		b.WriteString(s[:i])
		b.WriteByte('\\')
		b.WriteByte(s[i])
		s = s[i+1:]
	}
}

// kindOfValue names what a value is, for people.
func kindOfValue(v any) string {
	switch v.(type) {
	case bool:
		return "true or false"
	case string:
		return "a text"
	case []byte:
		return "bytes"
	case time.Time:
		return "a time"
	case int, int64, float64, json.Number:
		return "a number"
	case []any:
		return "a list"
	}
	return "an object"
}
