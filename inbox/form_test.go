package inbox_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/oncekit/once"
	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/internal/value"
)

// formMeta is the Meta of a stored form.
const formMeta = `{"stored":{"form":true},"method":"POST"}`

func TestAFormIsAnObjectOfTexts(t *testing.T) {
	for form, want := range map[string]string{
		"a=1&b=2":                      `{"a":"1","b":"2"}`,
		"MessageSid=SM1&Body=Hi+there": `{"Body":"Hi there","MessageSid":"SM1"}`,
		"a=1&a=2&b=3&a=":               `{"a":["1","2",""],"b":"3"}`,
		"a":                            `{"a":""}`,
		"=1":                           `{"":"1"}`,
		"a==b=c":                       `{"a":"=b=c"}`,
		"&&a=1&&b=2&":                  `{"a":"1","b":"2"}`,
		"a=%2B%26%3d%20+":              `{"a":"+&=  "}`,
		"%C3%A9=%e2%82%ac":             `{"é":"€"}`,
		"a=b;c=d":                      `{"a":"b;c=d"}`,
		"a=\xc3\xa9":                   `{"a":"é"}`,
		"To=%2B49151&To=x":             `{"To":["+49151","x"]}`,
	} {
		got, err := inbox.DecodeBody([]byte(formMeta), []byte(form), 64)
		if err != nil {
			t.Errorf("%q: %v", form, err)
			continue
		}
		if b, err := value.Encode(got); err != nil || string(b) != want {
			t.Errorf("%q is %s, %v; want %s", form, b, err, want)
		}
	}
}

func TestAWrongFormIsRefusedWithItsPlace(t *testing.T) {
	pairs := strings.Repeat("a=1&", 1000)
	for form, want := range map[string]string{
		"":            "body is empty",
		"a=1&b=%zz":   "invalid form: a % that two hex digits don't follow (byte 6)",
		"a=%":         "invalid form: a % that two hex digits don't follow (byte 2)",
		"a=%4":        "invalid form: a % that two hex digits don't follow (byte 2)",
		"%4=1":        "invalid form: a % that two hex digits don't follow (byte 0)",
		"a=1&b=%ff":   "invalid form: a text is not valid UTF-8 (byte 6)",
		"a=\xff":      "invalid form: a text is not valid UTF-8 (byte 2)",
		"\xc3=1":      "invalid form: a text is not valid UTF-8 (byte 0)",
		"a=1&b=x%00y": "invalid form: a text holds a NUL (byte 6)",
		pairs + "b=1": "invalid form: more than 1000 pairs (byte 4000)",
	} {
		_, err := inbox.DecodeBody([]byte(formMeta), []byte(form), 64)
		if err == nil || err.Error() != want {
			t.Errorf("%.20q: %v, want %s", form, err, want)
		}
	}
	if _, err := inbox.DecodeBody([]byte(formMeta), []byte(pairs), 64); err != nil {
		t.Errorf("1000 pairs: %v", err)
	}
}

// formed is a source of forms.
func formed() *inbox.Source {
	return &inbox.Source{
		Name: "formed", Form: true,
		Key: func(m *inbox.Message) (once.Key, error) {
			v, err := bodyField(m, "sid")
			if err != nil {
				return nil, err
			}
			return once.KeyOf(v)
		},
		Fingerprint: func(m *inbox.Message) (once.Fingerprint, error) {
			return value.Digest(m.Body, nil)
		},
		Route: func(*inbox.Message, string) (inbox.Route, error) {
			return inbox.Route{Lane: "l"}, nil
		},
	}
}

func TestAFormIsReceivedAndReadAgain(t *testing.T) {
	const kind = "application/x-www-form-urlencoded"
	for name, c := range map[string]struct {
		kind, body string
		status     int
		reason     string
	}{
		"plain":      {kind, "sid=S1&text=a+b&n=1&n=2", 200, ""},
		"charset":    {kind + "; charset=UTF-8", "sid=S1", 200, ""},
		"no type":    {"", "sid=S1", 200, ""},
		"odd case":   {"Application/X-WWW-Form-Urlencoded", "sid=S1", 200, ""},
		"JSON":       {"application/json", `{"sid":"S1"}`, 400, `want ` + kind + `, or none`},
		"text":       {"text/plain", "sid=S1", 400, "wrong content type"},
		"latin1":     {kind + ";charset=iso-8859-1", "sid=S1\xfc", 400, "wrong charset"},
		"key twice":  {kind, "sid=S1&sid=S2", 400, "key part 1 is a list"},
		"key absent": {kind, "a=1", 400, "key part 1 is missing"},
		"bad escape": {kind, "sid=%x1", 400, "hex digits"},
		"empty":      {kind, "", 400, "body is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			store := newMemStore()
			w := post(newReceiver(t, store, inbox.Config{}, formed()), "/in/formed", c.body,
				"Content-Type", c.kind)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.reason) {
				t.Fatalf("answer %d %s", w.Code, w.Body)
			}
			if c.status != 200 {
				return
			}
			a := store.accepted()[0]
			if string(a.Body) != c.body {
				t.Errorf("stored %q", a.Body)
			}
			body, err := inbox.DecodeBody(a.Meta, a.Body, 64)
			if err != nil || body.(map[string]any)["sid"] != "S1" {
				t.Errorf("a flow sees %v, %v", body, err)
			}
			var decoded struct {
				Sid string   `json:"sid"`
				N   []string `json:"n"`
			}
			err = seenBy(t, rowOf(a)).Decode(&decoded)
			if err != nil || decoded.Sid != "S1" ||
				name == "plain" && fmt.Sprint(decoded.N) != "[1 2]" {
				t.Errorf("a handler decodes %+v, %v", decoded, err)
			}
		})
	}
}

func TestElementsInAFormAreStoredAsForms(t *testing.T) {
	store, source := newMemStore(), formed()
	source.Each = func(m *inbox.Message) ([]any, error) {
		v, err := bodyField(m, "payload")
		if err != nil {
			return nil, err
		}
		list, err := value.Decode([]byte(v.(string)), value.Limits{})
		if err != nil {
			return nil, err
		}
		return elementsOf(list)
	}
	source.Key = func(m *inbox.Message) (once.Key, error) {
		v, err := itemField(m, "no")
		if err != nil {
			return nil, err
		}
		return once.KeyOf(v)
	}
	body := url.Values{"payload": {`[{"no":"a&b"},{"no":"c"}]`}, "token": {"x=y"}, "n": {"2", "1"}}
	w := post(newReceiver(t, store, inbox.Config{}, source), "/in/formed", body.Encode(),
		"Content-Type", "application/x-www-form-urlencoded")
	if w.Code != 200 {
		t.Fatalf("answer %d %s", w.Code, w.Body)
	}
	want := url.Values{"payload": {`[{"no":"a&b"}]`}, "token": {"x=y"}, "n": {"2", "1"}}
	if got := store.accepted()[0]; string(got.Body) != want.Encode() {
		t.Errorf("stored %s, want %s", got.Body, want.Encode())
	}
}

// What is taken is what net/url reads, which knows no semicolon in a form.
func FuzzForm(f *testing.F) {
	for _, seed := range []string{
		"a=1&b=2", "a=%C3%A9+%2B", "a&&=b&a=c", "%zz=1", "a=\xff", "a=%00",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, form string) {
		got, err := inbox.DecodeBody([]byte(formMeta), []byte(form), 64)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "invalid form: ") && form != "" {
				t.Fatalf("%q: %v", form, err)
			}
			return
		}
		if strings.Contains(form, ";") {
			return
		}
		want, err := url.ParseQuery(form)
		if err != nil {
			t.Fatalf("%q was taken, and %v", form, err)
		}
		pairs := got.(map[string]any)
		if len(pairs) != len(want) {
			t.Fatalf("%q is %v, want %v", form, pairs, want)
		}
		for name, texts := range want {
			var have []any
			switch v := pairs[name].(type) {
			case string:
				have = []any{v}
			case []any:
				have = v
			}
			if fmt.Sprintf("%q", have) != fmt.Sprintf("%q", texts) {
				t.Fatalf("%q has %q for %q, want %q", form, have, name, texts)
			}
		}
	})
}
