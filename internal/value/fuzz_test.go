package value_test

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"testing"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/value"
)

// FuzzDecode holds: what is accepted is valid JSON to another reader too; written and read again
// it is equal and has the same digest; writing is stable.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"reqCode":"REQ-1024","taskCode":"TASK-001","callbackMethod":"finishFE"}`,
		`[1,1.0,0.1,1e400,18446744073709551617,-0,9007199254740993]`, "\xef\xbb\xbf[\"\\u0000\"]",
		`{"a":{"a":[{"b":null}]},"\ud83d\ude00":"\ud800"}`, `[[[[1]]]`, `{"a":1,"a":2}`,
		` 1e-1000001`,
		`72057594037927936.0`, `123456789012345.68`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		v, err := value.Decode(in, value.Limits{})
		if err != nil {
			if v != nil || err.Error() == "" {
				t.Fatalf("value %v with error %q", v, err)
			}
			return
		}
		if !json.Valid(bytes.TrimPrefix(in, []byte("\xef\xbb\xbf"))) {
			t.Fatalf("accepted %q", in)
		}
		out, err := value.Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		again, err := value.Decode(out, value.Limits{})
		if err != nil {
			t.Fatalf("written as %q: %v", out, err)
		}
		if !value.Equal(v, again) {
			t.Fatalf("%q was written as %q", in, out)
		}
		d1, err1 := value.Digest(v, nil)
		d2, err2 := value.Digest(again, nil)
		if err1 != nil || err2 != nil || d1 != d2 {
			t.Fatalf("digest of %q changes when it is written as %q", in, out)
		}
		if out2, _ := value.Encode(again); !bytes.Equal(out, out2) {
			t.Fatalf("%q and then %q", out, out2)
		}
	})
}

func FuzzParsePath(f *testing.F) {
	for _, s := range []string{"body.reqTime", "body.items[0].t", "a['b c']", "[", "a[00]", ".."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		p, err := value.ParsePath(in)
		if err != nil {
			return
		}
		if _, err := value.ParsePath("body." + p.String()); err != nil && p.String()[0] != '[' {
			t.Fatalf("%q is written as %q: %v", in, p, err)
		}
	})
}

const callback = `{"reqCode":"15A0BC96B1112","reqTime":"2026-04-03 10:08:06","cooX":"3000",` +
	`"method":"end","podCode":"100001","robotCode":6001,"taskCode":"T16A0E0F39740116Q"}`

func BenchmarkDecodeCallback(b *testing.B) {
	in := []byte(callback)
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := value.Decode(in, value.Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDigestCallback(b *testing.B) {
	v, err := value.Decode([]byte(callback), value.Limits{})
	if err != nil {
		b.Fatal(err)
	}
	p, err := value.ParsePath("body.reqTime")
	if err != nil {
		b.Fatal(err)
	}
	ignore := []value.Path{p}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := value.Digest(v, ignore); err != nil {
			b.Fatal(err)
		}
	}
}

// Doubles are written in the one canonical form, whichever way they are written.
func FuzzEncode_DoublesAreCanonical(f *testing.F) {
	for _, x := range []float64{0.5, 90.5, 1e-6, 0x1p-20, 0x1p-19, 1e20, 9.5e20, 1e21, 0x1p70, 0.1,
		-2.75, math.Copysign(0, -1), 4503599627370497.5, math.MaxFloat64, 5e-324} {
		f.Add(math.Float64bits(x))
	}
	f.Fuzz(func(t *testing.T, bits uint64) {
		x := math.Float64frombits(bits)
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return
		}
		want, ok := once.CanonicalNumber(strconv.FormatFloat(x, 'e', -1, 64))
		got, err := value.Encode(x)
		if !ok || err != nil || string(got) != want {
			t.Errorf("%v is written %s, %v; want %s", x, got, err, want)
		}
	})
}
