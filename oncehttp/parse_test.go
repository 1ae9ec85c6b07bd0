package oncehttp

import (
	"bytes"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/oncekit/once"
)

func TestParseKey(t *testing.T) {
	ascii := func(from, to byte) string { // all characters of a range
		var b strings.Builder
		for c := from; c <= to; c++ {
			b.WriteByte(c)
		}
		return b.String()
	}
	for _, tt := range []struct{ line, want string }{
		{`K`, `K`}, {`"K"`, `K`}, {` K `, `K`}, {"\t\"K\"\t", `K`}, {`"K "`, `K `}, {`" K"`, ` K`},
		{`"\""`, `"`}, {`"\\"`, `\`}, {`"a\"b\\c"`, `a"b\c`}, {`"\\\""`, `\"`}, {`"a, b;c"`, `a, b;c`},
		{``, ``}, {` `, ``}, {`""`, ``}, {`" "`, ``}, {`?1`, `?1`}, {`:YQ==:`, `:YQ==:`}, {`'`, `'`},
		{`"` + strings.NewReplacer(`"`, `\"`, `\`, `\\`).Replace(ascii(' ', '~')) + `"`, ascii(' ', '~')},
	} {
		if key, p := parseKey(HeaderKey, tt.line); key != tt.want || p != nil {
			t.Errorf("%q: %q, %+v, want %q", tt.line, key, p, tt.want)
		}
	}
	for _, line := range []string{
		`"`, `"a`, `"a"b`, `"a" b`, `"a";x`, `"\a"`, `"\`, `"a\`, `"a\"`, `""a`, `"""`, `a"`, `a b`, `a,b`,
		`a;b`, `a\b`, "a\x00", "a\x7f", "\"a\x7f\"", "\"\x00\"", "\"\x1f\"", "é", `"é"`, "\xff", "a\nb",
		strings.Repeat("k", 256), `"` + strings.Repeat("k", 256) + `"`,
		`"` + strings.Repeat(" ", 256) + `"`,
	} {
		if key, p := parseKey(HeaderKey, line); p == nil || key != "" || p.Status != 400 {
			t.Errorf("%q: %q, %+v, want a refusal", line, key, p)
		}
	}
}

func TestRetryAfterDoublesWithTheAgeUpToTheRestOfTheLease(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	for _, tt := range []struct {
		age, rest time.Duration
		want      int
	}{
		{0, 30 * s, 1}, {999 * ms, 30 * s, 1}, {s, 30 * s, 1}, {1001 * ms, 30 * s, 2},
		{2 * s, 30 * s, 2}, {2001 * ms, 30 * s, 4}, {3 * s, 30 * s, 4}, {4 * s, 30 * s, 4},
		{5 * s, 30 * s, 8},
		{8 * s, 30 * s, 8}, {9 * s, 30 * s, 16}, {16 * s, 30 * s, 16}, {17 * s, 30 * s, 30},
		{17 * s, 19500 * ms, 20}, {600 * s, 30 * s, 30}, {600 * s, 3600 * s, 1024},
		{5 * s, 100 * ms, 1}, {5 * s, 0, 1}, {5 * s, -s, 1}, {-s, 30 * s, 1}, {0, 1, 1},
		{5 * s, 2 * s, 2}, {5 * s, 2001 * ms, 3},
	} {
		if n := inFlightRetry(tt.age, tt.rest); n != tt.want {
			t.Errorf("age %s, rest %s: %d, want %d", tt.age, tt.rest, n, tt.want)
		}
	}
}

func TestAnAnswersEncodingIsFixed(t *testing.T) {
	a := answer{
		status:   201,
		headers:  []field{{"A", []string{"1", ""}}, {"Content-Type", []string{}}},
		trailers: []field{{"T", []string{"x"}}},
		body:     []byte("body"),
	}
	// version, length of the head, status (varint), values, headers, trailers, body
	want := "\x01\x1e" + "\xc9\x01" + "\x03" +
		"\x02" + "\x01A" + "\x02" + "\x011" + "\x00" + "\x0cContent-Type" + "\x00" +
		"\x01" + "\x01T" + "\x01" + "\x01x" + "body"
	data := a.appendTo(nil)
	if string(data) != want {
		t.Errorf("%q, want\n%q", data, want)
	}
	back, err := parseAnswer(data)
	if err != nil || !reflect.DeepEqual(back, a) {
		t.Errorf("%+v, %v, want %+v", back, err, a)
	}
	for n := range len(data) - len(a.body) {
		if _, err := parseAnswer(data[:n]); err == nil {
			t.Errorf("%d bytes are taken for an answer", n)
		}
	}
}

func FuzzParseKey(f *testing.F) {
	for _, s := range []string{`K`, `"K"`, `"`, `"a\"b"`, `""`, `" "`, `"a\`, "\xff", `a,b`, `"a";b`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		key, p := parseKey(HeaderKey, line)
		if p != nil {
			if key != "" || p.Status != http.StatusBadRequest {
				t.Fatalf("%q: %q %+v", line, key, p)
			}
			return
		}
		if key == "" {
			return
		}
		if len(key) > MaxKey || !isPrintable(key) {
			t.Fatalf("%q gives the key %q", line, key)
		}
		// Its quoted spelling is the same key; a bare line is its key.
		quoted := `"` + strings.NewReplacer(`"`, `\"`, `\`, `\\`).Replace(key) + `"`
		if again, p := parseKey(HeaderKey, quoted); p != nil || again != key {
			t.Fatalf("%q: %q, and quoted %q, %+v", line, key, again, p)
		}
		bare := strings.Trim(line, " \t")
		if bare != quoted && !strings.HasPrefix(bare, `"`) && bare != key {
			t.Fatalf("%q gives the key %q", line, key)
		}
	})
}

func FuzzParseAnswer(f *testing.F) {
	a := answer{
		status: 201, body: []byte("x"),
		headers: []field{{"A", []string{"1", "2"}}, {"B", []string{}}},
	}
	f.Add(a.appendTo(nil))
	f.Add([]byte{1, 4, 200, 1, 0, 0, 0})
	f.Add(bytes.Repeat([]byte{0xff}, 40))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := parseAnswer(data)
		if err != nil {
			return
		}
		if a.status < 100 || a.status > 999 {
			t.Fatalf("status %d", a.status)
		}
		again, err := parseAnswer(a.appendTo(nil))
		if err != nil || !reflect.DeepEqual(a, again) {
			t.Fatalf("%+v became %+v, %v", a, again, err)
		}
	})
}

// FuzzFingerprint tries that a fingerprint is a function of the request, that nothing makes it
// panic, and that two bodies with one fingerprint are equal by the rule of their type.
func FuzzFingerprint(f *testing.F) {
	for _, media := range []string{
		"application/json", "application/x-www-form-urlencoded", "text/plain",
		"multipart/form-data; boundary=b",
	} {
		f.Add(media, "", []byte(`{"b":1,"a":[2]}`))
		f.Add(media, "gzip", []byte("a=1&b=%zz"))
		part := "--b\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--b--\r\n"
		f.Add(media, "br", []byte(part))
	}
	f.Fuzz(func(t *testing.T, media, encoding string, text []byte) {
		m := &guarded{
			cfg:     Config{Content: Content{MaxDecoded: 1 << 20}},
			parsing: make(chan struct{}, maxParsing),
		}
		digest := func(text []byte) (once.Fingerprint, error) {
			r, err := http.NewRequest(http.MethodPost, "http://api.test/orders?x=1", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header["Content-Type"] = []string{media}
			r.Header["Content-Encoding"] = []string{encoding}
			return m.fingerprint(r, &body{data: text, size: int64(len(text))})
		}
		first, err := digest(text)
		second, err2 := digest(bytes.Clone(text))
		if first != second || fmt.Sprint(err) != fmt.Sprint(err2) {
			t.Fatalf("%v %v, then %v %v", first, err, second, err2)
		}
		if err == nil && first.Version() != once.FingerprintRequestV1 {
			t.Fatalf("version %d", first.Version())
		}
		if err != nil || encoding != "" || m.cfg.Content.rule(mediaType(media)) != ContentRaw {
			return
		}
		if other, err := digest(append(bytes.Clone(text), 'x')); err != nil || other == first {
			t.Fatal("a byte more makes no difference")
		}
	})
}
