package value

import (
	"bytes"
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/oncekit/once"

	"github.com/go-json-experiment/json/jsontext"
)

func TestCanonicalTextIsWhatTheDigestIsOf(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{`{"b":1,"a":2}`, `{"a":2,"b":1}`},
		{"\xef\xbb\xbf { \"a\" : [ 1.0 , 1e0, 10e-1, -0, 0.0 ] }\r\n", `{"a":[1,1,1,0,0]}`},
		{`[9007199254740993,9007199254740992]`, `[9007199254740993,9007199254740992]`},
		{`[1e20,1e21,100000000000000000000,1000000000000000000000]`,
			`[100000000000000000000,1e+21,100000000000000000000,1e+21]`},
		{`{"n":"1.0","x\"1.0":1.50}`, `{"n":"1.0","x\"1.0":1.5}`},
		{`"\u0041\u00e4\/"`, `"Aä/"`},
		{`{"\ud83d\ude00":1,"\ufb33":2}`, "{\"\U0001F600\":1,\"\uFB33\":2}"}, // UTF-16 order
		{`[0.000001,0.0000001,123.4500]`, `[0.000001,1e-7,123.45]`},
		{`{"b\"":1,"b":2,"b!":3,"a\\":{"z":[{"y":1,"x":2}],"c":{}}}`,
			`{"a\\":{"c":{},"z":[{"x":2,"y":1}]},"b":2,"b!":3,"b\"":1}`},
		{`{"c":3,"a":1,"b":2}`, `{"a":1,"b":2,"c":3}`},
		{`-12`, `-12`}, {`true`, `true`}, {`""`, `""`}, {`{}`, `{}`},
	} {
		got, err := AppendCanonical([]byte("x"), []byte(tt.text))
		if err != nil || string(got) != "x"+tt.want {
			t.Errorf("%s: %s, %v, want %s", tt.text, got, err, tt.want)
			continue
		}
		v, err := Decode([]byte(tt.text), Limits{})
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		digest, err := Digest(v, nil)
		sum := once.NewFingerprint(once.FingerprintJSONV1, sha256.Sum256(got[1:]))
		if err != nil || digest != sum {
			t.Errorf("%s: the digest is of another writing", tt.text)
		}
	}
}

func TestWhatIsNoJSONHasNoCanonicalText(t *testing.T) {
	for _, text := range []string{"", "{", `{"a":1,"a":2}`, `{"b":[{"z":1,"a":2,"z":3}]}`, `{"a":1,"\u0061":2}`, `{"a":1} x`, "\"\xff\"", "1e9999999", "01",
		`[[{"a":[1e9999999,{}],"b":2}],3]`,
		strings.Repeat("[", 257) + strings.Repeat("]", 257)} {
		got, err := AppendCanonical([]byte("x"), []byte(text))
		if err == nil || string(got) != "x" {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

func FuzzCanonicalTextAgreesWithDigest(f *testing.F) {
	f.Add([]byte(`{"b":[1.0,"é",{"z":null,"y":-0.0e5}],"a":1e400}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := Decode(text, Limits{})
		if err != nil {
			return // Decode refuses more: NUL, deep nesting
		}
		got, err := AppendCanonical(nil, text)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		digest, err := Digest(v, nil)
		if sum := sha256.Sum256(got); err != nil ||
			digest != once.NewFingerprint(once.FingerprintJSONV1, sum) {
			t.Fatalf("%q: written as %s", text, got)
		}
	})
}

// What Decode refuses for its names is refused here too, and nothing makes it panic.
func FuzzCanonicalTextRefusesNamesThatAreThereTwice(f *testing.F) {
	f.Add([]byte(`[{"a":[1e9999999,{"b":1,"b":2}]},3]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		_, err := AppendCanonical(nil, text)
		if valid := jsontext.Value(text).IsValid(); err == nil && !valid &&
			!bytes.HasPrefix(text, []byte("\xef\xbb\xbf")) {
			t.Fatalf("%q: no error", text)
		}
	})
}
