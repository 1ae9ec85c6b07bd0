package oncemongo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/oncekit/once"
	"github.com/oncekit/once/write"
)

// valueToBSON turns a value of an event into what the driver writes: integers as 64 bits, times in
// milliseconds, members in the order of their names.
func valueToBSON(at string, v any, decimals bool) (any, error) {
	switch v := v.(type) {
	case int:
		return int64(v), nil
	case json.Number:
		return numberToBSON(at, v, decimals)
	case time.Time:
		return bson.DateTime(v.UnixMilli()), nil
	case []byte:
		return bson.Binary{Data: v}, nil
	case []any:
		list := make(bson.A, len(v))
		for i, element := range v {
			var err error
			if list[i], err = valueToBSON(at, element, decimals); err != nil {
				return nil, err
			}
		}
		return list, nil
	case map[string]any:
		return fieldsToBSON(at, v, decimals)
	}
	return v, nil // nil, bool, int64, float64, string: write.Check has let nothing else pass
}

func fieldsToBSON(at string, fields map[string]any, decimals bool) (bson.D, error) {
	doc := make(bson.D, 0, len(fields))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		v, err := valueToBSON(at+"."+name, fields[name], decimals)
		if err != nil {
			return nil, err
		}
		doc = append(doc, bson.E{Key: name, Value: v})
	}
	return doc, nil
}

// numberToBSON keeps a number exactly: as an integer of 64 bits, else as a decimal of 128. Where
// the server has no decimals, a double is taken whose shortest writing is this number: package
// write takes the two for the same.
func numberToBSON(at string, n json.Number, decimals bool) (any, error) {
	exact, ok := once.CanonicalNumber(string(n))
	if !ok {
		return nil, &write.EventError{Field: at, Reason: "is not a number"}
	}
	if i, err := strconv.ParseInt(exact, 10, 64); err == nil {
		return i, nil
	}
	if decimals {
		d, err := bson.ParseDecimal128(string(n))
		if back, ok := once.CanonicalNumber(d.String()); err == nil && ok && back == exact {
			return d, nil
		}
		return nil, &write.EventError{Field: at, Reason: "has more digits than a MongoDB decimal"}
	}
	f, err := n.Float64()
	if err == nil {
		back, ok := once.CanonicalNumber(strconv.FormatFloat(f, 'e', -1, 64))
		if ok && back == exact {
			return f, nil
		}
	}
	return nil, &write.EventError{
		Field:  at,
		Reason: "is no double, and the server has no decimals",
	}
}

// keyToBSON is how a document is found. Numbers are equal to MongoDB whatever type they have.
func keyToBSON(key any) any {
	if k, isInt := key.(int); isInt {
		return int64(k)
	}
	return key
}

// numberFromBSON reads a number of a document; false for what is none.
func numberFromBSON(raw bson.RawValue) (any, bool) {
	var n any
	switch raw.Type {
	case bson.TypeInt32:
		n = int64(raw.Int32())
	case bson.TypeInt64:
		n = raw.Int64()
	case bson.TypeDouble:
		n = raw.Double()
	case bson.TypeDecimal128:
		n = json.Number(raw.Decimal128().String())
	default:
		return nil, false
	}
	n, err := write.Number(n)
	return n, err == nil
}

// numbersOf are the members of a document that an event has added to.
func numbersOf(doc bson.Raw, names []string) write.Fields {
	if len(names) == 0 {
		return nil
	}
	numbers := make(write.Fields, len(names))
	for _, name := range names {
		if n, ok := numberFromBSON(doc.Lookup(name)); ok {
			numbers[name] = n
		}
	}
	return numbers
}

// newerThan tells whether v, as valueToBSON made it, is greater than what a document has. An error
// is for what can't be compared with it.
func newerThan(v any, there bson.RawValue) (bool, error) {
	switch there.Type {
	case 0, bson.TypeNull, bson.TypeUndefined:
		return true, nil
	case bson.TypeString:
		if s, isText := v.(string); isText {
			return bytes.Compare([]byte(s), []byte(there.StringValue())) > 0, nil
		}
	case bson.TypeDateTime:
		if at, isTime := v.(bson.DateTime); isTime {
			return int64(at) > there.DateTime(), nil
		}
	default:
		given, isNumber := exactly(v)
		known, ok := exactly(valueOf(there))
		if ok && isNumber {
			return given.Cmp(known) > 0, nil
		}
	}
	return false, fmt.Errorf("holds a %s, which can't be compared with the event's",
		strings.ToLower(there.Type.String()))
}

// exactly is a number as MongoDB compares it: by its exact value, a double by its binary one. (In
// everything else here a double means its shortest decimal form.)
func exactly(v any) (*big.Rat, bool) {
	switch n := v.(type) {
	case int32:
		return new(big.Rat).SetInt64(int64(n)), true
	case int64:
		return new(big.Rat).SetInt64(n), true
	case float64:
		r := new(big.Rat).SetFloat64(n) // nil if it is not finite
		return r, r != nil
	case bson.Decimal128:
		return new(big.Rat).SetString(n.String()) // not for NaN and Infinity
	}
	return nil, false
}

func valueOf(raw bson.RawValue) any {
	switch raw.Type {
	case bson.TypeInt32:
		return raw.Int32()
	case bson.TypeInt64:
		return raw.Int64()
	case bson.TypeDouble:
		return raw.Double()
	case bson.TypeDecimal128:
		return raw.Decimal128()
	}
	return nil
}
