package once_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/oncekit/once"
)

// literal is a number kept as text, as internal/value has them.
type literal string

func (l literal) DecimalText() string { return string(l) }

func keyOf(t *testing.T, parts ...any) once.Key {
	t.Helper()
	k, err := once.KeyOf(parts...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func identify(t *testing.T, s once.Scope, parts ...any) once.Identity {
	t.Helper()
	id, err := once.Identify(s, keyOf(t, parts...))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestKeyPartsKeepTheirType(t *testing.T) {
	same := [][2]any{
		{3, int64(3)}, {3, 3.0}, {3, literal("3.0")}, {3, literal("30e-1")}, {0.5, literal("0.50")},
		{uint64(1 << 63), literal("9223372036854775808")}, {0, literal("-0")}, {"x", "x"},
		{0.1, literal("0.1")},
	}
	for _, p := range same {
		if identify(t, once.NoScope(), p[0]) != identify(t, once.NoScope(), p[1]) {
			t.Errorf("%v (%T) and %v (%T) are two keys", p[0], p[0], p[1], p[1])
		}
	}
	differ := [][2]any{
		{3, "3"}, {true, "true"}, {int64(9007199254740993), int64(9007199254740992)},
		{literal("1e400"), literal("1e401")}, {"a", "A"}, {"a", "a "}, {1, true},
	}
	for _, p := range differ {
		if identify(t, once.NoScope(), p[0]) == identify(t, once.NoScope(), p[1]) {
			t.Errorf("%v (%T) and %v (%T) are one key", p[0], p[0], p[1], p[1])
		}
	}
}

func TestH06_CaseAndBlanksDecide(t *testing.T) {
	seen := map[once.Identity]string{}
	for _, k := range []string{"Order-A", "order-a", "Order-A "} {
		id := identify(t, once.NoScope(), k)
		if other, found := seen[id]; found {
			t.Errorf("%q and %q are one key", k, other)
		}
		seen[id] = k
	}
}

func TestKeyRefuses(t *testing.T) {
	many := make([]any, once.MaxKeyParts+1)
	for i := range many {
		many[i] = i
	}
	for _, c := range []struct {
		name       string
		parts      []any
		index      int
		incomplete bool
	}{
		{"no parts", nil, -1, true},
		{"an empty text", []any{"a", ""}, 1, true},
		{"null", []any{"a", "b", nil}, 2, true},
		{"an object", []any{map[string]any{}}, 0, false},
		{"a list", []any{"a", []any{}}, 1, false},
		{"a struct", []any{struct{}{}}, 0, false},
		{"invalid UTF-8", []any{"\xe9"}, 0, false},
		{"NUL", []any{"a\x00b"}, 0, false},
		{"a literal that is none", []any{literal("1x")}, 0, false},
		{"an endless exponent", []any{literal("1e99999999")}, 0, false},
		{"too many parts", many, -1, false},
		{"too long", []any{strings.Repeat("k", once.MaxKeyBytes+1)}, -1, false},
	} {
		_, err := once.KeyOf(c.parts...)
		var e *once.KeyError
		if !errors.As(err, &e) || e.Index != c.index || !errors.Is(err, once.ErrKeyInvalid) ||
			errors.Is(err, once.ErrKeyIncomplete) != c.incomplete {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := once.PartOf(nil); !errors.Is(err, once.ErrKeyIncomplete) {
		t.Errorf("PartOf(nil): %v", err)
	}
	if p, err := once.PartOf("x"); err != nil || p.Kind() != once.PartText || p.String() != "x" {
		t.Errorf("PartOf(x) = %v, %v", p, err)
	}
	_, err := once.Identify(once.NoScope(), once.Key{{}})
	if !errors.Is(err, once.ErrKeyIncomplete) {
		t.Errorf("a zero part is identified: %v", err)
	}
}

func TestKeyStringsAreForPeople(t *testing.T) {
	got := keyOf(t, "REQ", 3, 1e3, literal("0.10"), literal("1e30"), true).Strings()
	if want := "REQ 3 1000 0.1 1e+30 true"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestF02_IdentityIsTheHashOfLengthPrefixedParts(t *testing.T) {
	scope, err := once.NewScope("rcs")
	if err != nil {
		t.Fatal(err)
	}
	n := func(b byte) string { return "\x00\x00\x00\x00\x00\x00\x00" + string(b) }
	want := sha256.Sum256([]byte("once key 1\x00" + n(1) + n(3) + "rcs" +
		n(3) + "\x01" + n(2) + "R1" + "\x02" + n(1) + "7" + "\x03" + n(4) + "true"))
	if got := identify(t, scope, "R1", 7, true); got != once.Identity(want) {
		t.Errorf("got %x, want %x", got, want)
	}
	if identify(t, once.NoScope(), "ab", "c") == identify(t, once.NoScope(), "a", "bc") {
		t.Error("parts run into each other")
	}
}

func TestS01_ScopeMustBeChosen(t *testing.T) {
	if _, err := once.Identify(once.Scope{}, keyOf(t, "K")); !errors.Is(err, once.ErrScopeMissing) {
		t.Errorf("the zero scope: %v", err)
	}
	for _, parts := range [][]string{nil, {""}, {"a", ""}} {
		if _, err := once.NewScope(parts...); !errors.Is(err, once.ErrScopeMissing) {
			t.Errorf("NewScope(%q): %v", parts, err)
		}
	}
	if _, err := once.NewScope(strings.Split(strings.Repeat("a", 17), "")...); err == nil {
		t.Error("17 parts pass")
	}
	seen := map[once.Identity]bool{identify(t, once.NoScope(), "K"): true}
	for _, parts := range [][]string{{"A"}, {"B"}, {"A", "B"}, {"AB"}} {
		s, err := once.NewScope(parts...)
		if err != nil {
			t.Fatal(err)
		}
		id := identify(t, s, "K")
		if seen[id] {
			t.Errorf("scope %q shares its keys", parts)
		}
		seen[id] = true
	}
}

func TestDeriveIdentityIsStableAndApart(t *testing.T) {
	cause := identify(t, once.NoScope(), "K")
	a := once.DeriveIdentity(cause, "unlock", 0)
	if a != once.DeriveIdentity(cause, "unlock", 0) {
		t.Error("a rebuilt effect has another id")
	}
	for _, other := range []once.Identity{
		once.DeriveIdentity(cause, "unlock", 1), once.DeriveIdentity(cause, "unloc", 0),
		once.DeriveIdentity(a, "unlock", 0), cause,
	} {
		if a == other {
			t.Error("two effects share an id")
		}
	}
}

func TestIDIsBase32Hex(t *testing.T) {
	for hexBytes, want := range map[string]string{
		"00000000000000000000000000000000": "00000000000000000000000000",
		"ffffffffffffffffffffffffffffffff": "vvvvvvvvvvvvvvvvvvvvvvvvvs",
		"0123456789abcdeffedcba9876543210": "04hkaps9lf6uvvmsnac7cl1i20", // RFC 4648, section 7
	} {
		raw, err := hex.DecodeString(hexBytes)
		if err != nil {
			t.Fatal(err)
		}
		var id once.Identity
		copy(id[:], raw)
		if got := id.ID(); got != want {
			t.Errorf("%s has id %s, want %s", hexBytes, got, want)
		}
		back, err := once.ParseID(want)
		if err != nil || string(back[:]) != string(raw) {
			t.Errorf("ParseID(%s) = %x, %v", want, back, err)
		}
	}
	for _, bad := range []string{
		"", "0", strings.Repeat("v", 26), strings.Repeat("0", 27), strings.Repeat("0", 25) + "w",
		strings.Repeat("V", 25) + "S", strings.Repeat("0", 25) + "1", "é" + strings.Repeat("0", 24),
	} {
		if _, err := once.ParseID(bad); err == nil {
			t.Errorf("ParseID(%q) passes", bad)
		}
	}
}

func TestFingerprintText(t *testing.T) {
	// SHA-256 of the empty text (FIPS 180-4).
	const empty = "1:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	f := once.FingerprintRaw(nil)
	if f.String() != empty || f.Version() != once.FingerprintRawV1 || f.IsZero() {
		t.Errorf("got %s", f)
	}
	if back, err := once.ParseFingerprint(empty); err != nil || back != f {
		t.Errorf("ParseFingerprint: %v, %v", back, err)
	}
	if f == once.NewFingerprint(once.FingerprintJSONV1, [32]byte(f[1:])) {
		t.Error("fingerprints of two rules are equal")
	}
	if zero, err := once.ParseFingerprint(""); err != nil || !zero.IsZero() || zero.String() != "" {
		t.Errorf("the zero fingerprint: %v, %v", zero, err)
	}
	for _, bad := range []string{
		"1", "0:" + empty[2:], "256:" + empty[2:], "1:00", empty + "0", ":",
	} {
		if _, err := once.ParseFingerprint(bad); err == nil {
			t.Errorf("ParseFingerprint(%q) passes", bad)
		}
	}
}

func TestCanonicalNumber(t *testing.T) {
	for in, want := range map[string]string{
		"0": "0", "-0": "0", "0.00": "0", "0e999": "0", "1": "1", "1.0": "1", "1e0": "1",
		"10e-1": "1", "-1.50": "-1.5", "1e3": "1000", "123.456e2": "12345.6",
		"100000000000000000000": "100000000000000000000", "1e20": "100000000000000000000",
		"1e21": "1e+21", "1234e30": "1.234e+33", "0.000001": "0.000001", "0.0000001": "1e-7",
		"12e-10": "1.2e-9", "1E+2": "100", "9007199254740993": "9007199254740993",
		"1e1000000": "1e+1000000", "1e-0001": "0.1",
	} {
		if got, ok := once.CanonicalNumber(in); !ok || got != want {
			t.Errorf("CanonicalNumber(%s) = %q, %v; want %s", in, got, ok, want)
		}
	}
	for _, bad := range []string{"", "-", "01", "1.", ".5", "1e", "1e+", "+1", "1x", "1e1000001",
		"1e99999999999999999999", "NaN", "0x1", " 1", "--1", "1.5.2"} {
		if got, ok := once.CanonicalNumber(bad); ok {
			t.Errorf("CanonicalNumber(%q) = %q", bad, got)
		}
	}
}

func FuzzParseID(f *testing.F) {
	f.Add("04hkaps9lf6uvvmsnac7cl1i20")
	f.Add("vvvvvvvvvvvvvvvvvvvvvvvvvv")
	f.Fuzz(func(t *testing.T, s string) {
		if id, err := once.ParseID(s); err == nil && once.FormatID(id) != s {
			t.Fatalf("%q is written as %q", s, once.FormatID(id))
		}
	})
}

func FuzzCanonicalNumber(f *testing.F) {
	for _, s := range []string{"1", "-0.10e5", "1e21", "1e-7", "123456789.5E-300"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		text, ok := once.CanonicalNumber(s)
		if !ok {
			return
		}
		if again, ok := once.CanonicalNumber(text); ok && again != text {
			t.Fatalf("%q is written as %q and then as %q", s, text, again)
		}
	})
}

func BenchmarkIdentifyThreeParts(b *testing.B) {
	key, err := once.KeyOf("REQ-1024", "TASK-001", "finishFE")
	if err != nil {
		b.Fatal(err)
	}
	scope, err := once.NewScope("rcs")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := once.Identify(scope, key); err != nil {
			b.Fatal(err)
		}
	}
}

func TestAlternativesOfAKeyAreApartAndLookTheSame(t *testing.T) {
	scope, err := once.NewScope("source", "rcs")
	if err != nil {
		t.Fatal(err)
	}
	key, err := once.KeyOf("a", 2)
	if err != nil {
		t.Fatal(err)
	}
	longer, err := once.KeyOf("a", 2, "2")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[once.Identity]string{}
	for name, k := range map[string]once.Key{"first": key.Alternative(1),
		"second": key.Alternative(2), "third": key.Alternative(3), "another key": longer} {
		id, err := once.Identify(scope, k)
		if err != nil {
			t.Fatal(err)
		}
		if other := seen[id]; other != "" {
			t.Errorf("%s and %s have one identity", name, other)
		}
		seen[id] = name
		got := k.Strings()
		if name != "another key" && !slices.Equal(got, []string{"a", "2"}) {
			t.Errorf("%s is shown as %q", name, got)
		}
	}
	if id, err := once.Identify(scope, key); err != nil || seen[id] != "first" {
		t.Errorf("the first alternative is not the key itself: %v", err)
	}
}

func TestANoteIsCutBetweenCharacters(t *testing.T) {
	long := strings.Repeat("x", 255) + "é" // 257 bytes, the last character of two
	given := once.Note{Scope: slices.Repeat([]string{long}, 20), Key: long, Request: "short"}
	got := given.Cut()
	if got.Key != long[:255] || got.Request != "short" || len(got.Scope) != once.MaxScopeParts ||
		got.Scope[15] != long[:255] || given.Scope[15] != long {
		t.Errorf("cut to %q", got)
	}
	if got := (once.Note{Key: strings.Repeat("\x80", 300)}).Cut(); len(got.Key) != 252 {
		t.Errorf("of what is no text %d bytes are left, want 252", len(got.Key))
	}
}
