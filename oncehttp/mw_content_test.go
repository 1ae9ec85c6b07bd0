package oncehttp_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/oncekit/once/oncehttp"
)

// pair is two requests under one key: are they one?
type pair struct {
	name          string
	media, first  string
	media2, again string // media2: empty for the same
	same          bool
}

func (p pair) try(t *testing.T, change ...func(*oncehttp.Config)) {
	t.Helper()
	a := orders(t, change...)
	first := a.post("K", p.first, "Content-Type", p.media)
	if p.media2 == "" {
		p.media2 = p.media
	}
	again := a.post("K", p.again, "Content-Type", p.media2)
	if first.status != http.StatusCreated {
		t.Errorf("%s: first %d %s", p.name, first.status, first.body)
	}
	if p.same {
		wantReplay(t, first, again)
	} else {
		wantProblem(t, again, http.StatusUnprocessableEntity, oncehttp.ProblemMismatch)
	}
	a.wantRan(1)
	if t.Failed() {
		t.Fatalf("in %s", p.name)
	}
}

const (
	asJSON = "application/json"
	asForm = "application/x-www-form-urlencoded"
)

func TestF01F02F03WhichContentIsTheSame(t *testing.T) {
	for _, p := range []pair{
		{"F01 order", asJSON, `{"a":1,"b":2}`, "", `{"b":2,"a":1}`, true},
		{"F01 nested order", asJSON, `{"x":[{"a":1,"b":2}]}`, "", `{"x":[{"b":2,"a":1}]}`, true},
		{"F01 white space", asJSON, `{"a":1,"b":[1,2]}`, "", "{ \"a\" : 1,\r\n\t\"b\":[1, 2]}\r\n", true},
		{"F01 escapes", asJSON, `{"a":"\u0041\/"}`, "", `{"a":"A/"}`, true},
		{"order of a list", asJSON, `[1,2]`, "", `[2,1]`, false},
		{"F02 amount", asJSON, `{"amount":100}`, "", `{"amount":200}`, false},
		{"F02 one more member", asJSON, `{"a":1}`, "", `{"a":1,"b":null}`, false},
		{"F02 type", asJSON, `{"a":1}`, "", `{"a":"1"}`, false},
		{"F03 above 2^53", asJSON, `{"id":9007199254740993}`, "", `{"id":9007199254740992}`, false},
		{"F03 fraction", asJSON, `{"n":0.1000000000000000055}`, "", `{"n":0.1}`, false},
		{"F03 one value", asJSON, `{"n":1.0}`, "", `{"n":1e0}`, true},
		{"JSON parameters", asJSON, `{"a":1}`, "Application/JSON; charset=utf-8", `{"a":1}`, true},
		{"JSON suffix", "application/vnd.x+json", `{"a":1,"b":2}`, "", `{"b":2,"a":1}`, true},
		{"JSON, another type", asJSON, `{}`, "application/vnd.x+json", `{}`, false},
		{"text in place of JSON", asJSON, `{}`, "text/plain", `{}`, false},
		{"no JSON", asJSON, `{"a":`, "", `{"a":`, true},
		{"no JSON, other", asJSON, `{"a":`, "", `{"a": `, false},
		{"a name twice", asJSON, `{"a":1,"a":2}`, "", `{"a":2,"a":1}`, false},
		{"a name twice, as sent", asJSON, `{"a":1,"a":2}`, "", `{"a":1,"a":2}`, true},
		{"two values", asJSON, `{} {}`, "", `{}  {}`, false},
		{"bad UTF-8", asJSON, "\"\xe9\"", "", "\"\xe8\"", false},
		{"lone surrogates", asJSON, `"\ud800"`, "", `"\ud801"`, false},
		{"raw", "text/plain", "a b", "", "a  b", false},
		{"raw, parameters", "text/plain; charset=utf-8", "a", "text/plain", "a", true},
		{"empty", asJSON, "", "", "", true},
		{"empty and null", asJSON, "", "", "null", false},
		{"form order of names", asForm, "a=1&b=2", "", "b=2&a=1", true},
		{"form order of values", asForm, "a=1&a=2", "", "a=2&a=1", false},
		{"form escapes", asForm, "a=x+y", "", "%61=x%20y", true},
		{"form parts", asForm, "a=1&b=2", "", "a=1%26b=2", false},
		{"form names and values", asForm, "ab=c", "", "a=bc", false},
		{"no form", asForm, "a=%zz&b=1", "", "b=1&a=%zz", false},
	} {
		t.Run(p.name, func(t *testing.T) { p.try(t) })
	}
}

func TestF01RulesChooseHowContentIsCompared(t *testing.T) {
	for _, p := range []pair{
		{"raw JSON", asJSON, `{"a":1}`, "", `{"a": 1}`, false},
		{"json by wildcard", "text/x-json", `{"a":1,"b":2}`, "", `{"b":2,"a":1}`, true},
		{"the exact type first", "text/plain", `{"a":1}`, "", `{"a": 1}`, false},
		{"upper case", "application/upper", `{"a":1}`, "", `{"a": 1}`, true},
	} {
		t.Run(p.name, func(t *testing.T) {
			p.try(t, func(c *oncehttp.Config) {
				c.Content.Rules = map[string]oncehttp.ContentRule{
					asJSON: oncehttp.ContentRaw, "text/*": oncehttp.ContentJSON,
					"text/plain": oncehttp.ContentRaw, "Application/Upper": oncehttp.ContentJSON,
				}
			})
		})
	}
}

func TestF12OnlyNamedMembersMayDiffer(t *testing.T) {
	base := `{"order":1,"sent_at":"10:00:01Z","items":[{"id":1,"at":1}]}`
	later := `{"order":1,"sent_at":"10:00:02Z","items":[{"id":1,"at":1}]}`
	pair{"without a list", asJSON, base, "", later, false}.try(t)
	ignore := func(c *oncehttp.Config) {
		c.Content.Ignore = []string{"/sent_at", "/items/0/at", "/a~1b"}
	}
	for _, p := range []pair{
		{"sent_at", asJSON, base, "", later, true},
		{"it is missing", asJSON, base, "", `{"order":1,"items":[{"id":1,"at":1}]}`, true},
		{"within a list", asJSON, base, "",
			`{"order":1,"items":[{"id":1,"at":2}]}`, true},
		{"an escaped name", asJSON, `{"a/b":1,"c":1}`, "", `{"c":1,"a/b":2}`, true},
		{"another one", asJSON, base, "", `{"order":2,"items":[{"id":1,"at":1}]}`, false},
		{"at another place", asJSON, `{"x":{"sent_at":1}}`, "", `{"x":{"sent_at":2}}`, false},
		{"no JSON", asJSON, `{"sent_at":1`, "", `{"sent_at":2`, false},
		{"in another type", "text/plain", `{"sent_at":1}`, "", `{"sent_at":2}`, false},
	} {
		t.Run(p.name, func(t *testing.T) { p.try(t, ignore) })
	}
}

func zipped(t *testing.T, text string, level int, at time.Time) string {
	t.Helper()
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, level)
	if err != nil {
		t.Fatal(err)
	}
	z.ModTime, z.Name = at, fmt.Sprint(level)
	_, _ = io.WriteString(z, text)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestF07GzipIsComparedDecodedAndHandedOnAsSent(t *testing.T) {
	const text = `{"amount":100,"items":[1,2,3,1,2,3,1,2,3]}`
	one := zipped(t, text, gzip.BestSpeed, time.Unix(1, 0))
	two := zipped(t, text, gzip.BestCompression, time.Unix(2, 0))
	for _, media := range []string{asJSON, "text/plain", asForm} {
		var seen string
		a := newAPI(t, func(_ http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			seen = r.Header.Get("Content-Encoding") + " " + string(b)
		})
		zip := []string{"Content-Type", media, "Content-Encoding", "gzip"}
		first := a.post("K", one, zip...)
		if seen != "gzip "+one {
			t.Errorf("the handler got %q", seen)
		}
		wantReplay(t, first, a.post("K", two, zip...))
		wantReplay(t, first, a.post("K", text, "Content-Type", media))
		wantReplay(t, first, a.post("K", two, "Content-Type", media, "Content-Encoding", "X-GZIP"))
		wantProblem(t, a.post("K", zipped(t, text+" 1", 1, time.Unix(1, 0)), zip...), 422,
			oncehttp.ProblemMismatch)
		for _, broken := range []string{"no gzip", one[:len(one)-5], one[:20], one + "more"} {
			wantProblem(t, a.post("L", broken, zip...), 400, oncehttp.ProblemBodyBroken)
		}
		if g := a.post("M", "", zip...); g.status != http.StatusOK { // there is nothing to decode
			t.Errorf("an empty body: %d %s", g.status, g.body)
		}
		a.wantRan(2)
	}
}

func TestF07AZipBombIsRefusedBeforeAnyClaim(t *testing.T) {
	bomb := zipped(t, strings.Repeat(" ", 3<<20)+"{}", gzip.BestCompression, time.Time{})
	form := "--b\r\nContent-Disposition: form-data; name=a\r\n\r\n" + strings.Repeat("x", 3<<20) +
		"\r\n--b--\r\n"
	for media, body := range map[string]string{
		asJSON: bomb, asForm: bomb, "text/plain": bomb,
		"multipart/form-data; boundary=b": zipped(t, form, gzip.BestCompression, time.Time{}),
	} {
		// A bound below that of ordinary bodies holds too.
		a := orders(t, func(c *oncehttp.Config) { c.Content.MaxDecoded = 1 << 20 })
		g := a.post("K", body, "Content-Type", media, "Content-Encoding", "gzip")
		wantProblem(t, g, http.StatusRequestEntityTooLarge, oncehttp.ProblemBodyTooLarge)
		if len(a.store.claims()) != 0 {
			t.Errorf("%s: the store was asked", media)
		}
		a.wantRan(0)
	}
}

func TestAnUnknownEncodingCountsByItsBytes(t *testing.T) {
	a := orders(t)
	first := a.post("K", "bytes", "Content-Encoding", "br")
	wantReplay(t, first, a.post("K", "bytes", "Content-Encoding", "BR"))
	for _, other := range []got{
		a.post("K", "other", "Content-Encoding", "br"), a.post("K", "bytes"),
		a.post("K", "bytes", "Content-Encoding", "zstd"),
		a.post("K", "bytes", "Content-Encoding", "gzip", "Content-Encoding", "br"),
		a.post("K", "bytes", "Content-Encoding", "gzip, br"),
	} {
		wantProblem(t, other, http.StatusUnprocessableEntity, oncehttp.ProblemMismatch)
	}
	a.wantRan(1)
}

// part is a part of a multipart body.
type part struct{ head, body string }

func multipartBody(t *testing.T, boundary string, parts ...part) (media, body string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	if boundary != "" {
		if err := w.SetBoundary(boundary); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range parts {
		h := textproto.MIMEHeader{}
		for line := range strings.SplitSeq(p.head, "\n") {
			name, value, _ := strings.Cut(line, ": ")
			h.Add(name, value)
		}
		pw, err := w.CreatePart(h)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(pw, p.body)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return w.FormDataContentType(), b.String()
}

func TestF06MultipartIsComparedByItsParts(t *testing.T) {
	const name = `Content-Disposition: form-data; name="a"`
	file := func(file, media string) string {
		return `Content-Disposition: form-data; name="f"; filename="` + file + "\"\nContent-Type: " + media
	}
	image := strings.Repeat("\x00\x01\r\n--", 1000)
	base := []part{{name, "1"}, {file("x.png", "image/png"), image}}
	for _, tt := range []struct {
		name  string
		parts []part
		same  bool
	}{
		{"another boundary", base, true},
		{"a field's value", []part{{name, "2"}, base[1]}, false},
		{"a field's name", []part{{`Content-Disposition: form-data; name="b"`, "1"}, base[1]}, false},
		{"a file's bytes", []part{base[0], {base[1].head, image + "x"}}, false},
		{"a file's name", []part{base[0], {file("y.png", "image/png"), image}}, false},
		{"a file's folder", []part{base[0], {file("a/x.png", "image/png"), image}}, false},
		{"a file's type", []part{base[0], {file("x.png", "image/gif"), image}}, false},
		{"how it is encoded", []part{base[0],
			{base[1].head + "\nContent-Transfer-Encoding: quoted-printable", image}}, false},
		{"order", []part{base[1], base[0]}, false},
		{"one less", base[:1], false},
		{"bytes moved to the next part", []part{{name, "1" + image}, {base[1].head, ""}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			media, first := multipartBody(t, "first", base...)
			media2, again := multipartBody(t, "", tt.parts...)
			pair{tt.name, media, first, media2, again, tt.same}.try(t)
		})
	}
}

func TestMultipartThatIsNoneCountsByItsBytes(t *testing.T) {
	const media = "multipart/form-data; boundary=b"
	_, whole := multipartBody(t, "b", part{`Content-Disposition: form-data; name="a"`, "1"})
	for _, p := range []pair{
		{"no multipart", media, "hello", "", "hello", true},
		{"no multipart, other", media, "hello", "", "hellO", false},
		{"another boundary", media, "--c" + whole[3:], "", "--c" + whole[3:] + "x", false},
		{"cut off", media, whole[:len(whole)-6], "", whole[:len(whole)-6], true},
		{"cut off and whole", media, whole[:len(whole)-6], "", whole, false},
		{"no boundary", "multipart/form-data", whole, "", whole, true},
		{"no boundary, other", "multipart/form-data", whole, "", whole + " ", false},
		{"a bad type", "multipart/form-data; boundary", whole, "", whole + " ", false},
	} {
		t.Run(p.name, func(t *testing.T) { p.try(t) })
	}
}

func TestJSONTooLargeToBeReadCountsByItsBytes(t *testing.T) {
	pad := strings.Repeat(" ", 8<<20)
	pair{"large", asJSON, `{"a":1,"b":2}` + pad, "", `{"b":2,"a":1}` + pad, false}.try(t)
	pair{"large, as sent", asJSON, `{"a":1,"b":2}` + pad, "", `{"a":1,"b":2}` + pad, true}.try(t)
}
