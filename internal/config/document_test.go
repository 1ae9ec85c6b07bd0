package config

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/oncekit/once/write"
)

// ledger is a file whose source changes documents; what stands in the document is given.
func ledger(document string) string {
	return `
databases:
  ledger: {url: "mongodb://db.example/shop"}
sources:
  pay:
    key: ["body.id"]
    to:
      document: {database: ledger, in: payments, ` + document + `}
`
}

func documentOf(t *testing.T, c *Config, source string) *DocumentConfig {
	t.Helper()
	for _, s := range c.SourceSettings {
		if s.Name == source && s.Handler != nil && s.Handler.Document != nil {
			return s.Handler.Document
		}
	}
	t.Fatalf("the source %s has no document", source)
	return nil
}

func TestDocument_MakesTheChangeOfAMessageAndKeepsTypes(t *testing.T) {
	const body = `{"id":"evt-1","data":{"id":"pay-1","status":null,"n":12345678901234567890123,
		"big":18446744073709551615,"price":0.1,"half":1.5,"tags":["a",1],"deep":{"x":0.1}}}`
	for name, c := range map[string]struct {
		document string
		target   write.Target
		want     write.Event
	}{
		"upsert": {
			`key: {payment: "${body.data.id}"}, set: {status: "${body.data.status}",
				n: "${body.data.n}", big: "${body.data.big}", price: "${body.data.price}",
				half: "${body.data.half}", tags: "${body.data.tags}", deep: "${body.data.deep}",
				note: "of ${body.id}", none: "${body.?data.?none}", fixed: 7, yes: true,
				long: 12345678901234567890, text: {text: body.id}},
				set_on_insert: {made: "${body.id}"}, inc: {events: 1, sum: "${body.data.half}"},
				newer: fixed`,
			write.Target{Name: "payments", Key: "payment"},
			write.Event{In: "payments", Key: "pay-1", Change: write.Upsert{
				Set: write.Fields{"status": nil, "n": json.Number("12345678901234567890123"),
					"big": json.Number("18446744073709551615"), "price": json.Number("0.1"),
					"half": 1.5, "tags": []any{"a", int64(1)},
					"deep": map[string]any{"x": json.Number("0.1")}, "note": "of evt-1",
					"fixed": int64(7), "yes": true, "long": json.Number("12345678901234567890"),
					"text": "body.id"},
				SetOnInsert: write.Fields{"made": "evt-1"},
				Increment:   write.Fields{"events": int64(1), "sum": 1.5},
				Newer:       "fixed",
			}},
		},
		"increment": {
			`id: "${body.data.half * 2.0}", inc: {events: "${body.?none.orValue(2)}"},
				set_on_insert: {made: x}`,
			write.Target{Name: "payments", Key: "_id"},
			write.Event{In: "payments", Key: int64(3), Change: write.Increment{
				By:          write.Fields{"events": int64(2)},
				SetOnInsert: write.Fields{"made": "x"},
			}},
		},
		"made if it isn't there": {
			`id: all, set_on_insert: {made: x}`,
			write.Target{Name: "payments", Key: "_id"},
			write.Event{In: "payments", Key: "all",
				Change: write.Upsert{SetOnInsert: write.Fields{"made": "x"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := documentOf(t, mustParse(t, ledger(c.document), Env{}), "pay")
			if d.Database != "ledger" || d.Target != c.target {
				t.Errorf("it is written to %+v in %s", d.Target, d.Database)
			}
			got, err := d.Event(message(t, body))
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v, %v\nwant %+v", got, err, c.want)
			}
			got.ID = "1"
			if err := write.Check(got); err != nil {
				t.Errorf("package write refuses it: %v", err)
			}
		})
	}
}

func TestDocument_WhatCantBeReadIsAnErrorThatNamesIt(t *testing.T) {
	for document, want := range map[string]string{
		`id: "${body.id}", set: {a: "${body.gone}"}`: "set a: body.gone: no such field",
		`id: "${body.id}", inc: {a: "${body.gone}"}`: "inc a: body.gone: no such field",
		`id: "${body.gone}", inc: {a: 1}`:            "id: body.gone: no such field",
	} {
		d := documentOf(t, mustParse(t, ledger(document), Env{}), "pay")
		if _, err := d.Event(message(t, `{"id":"1"}`)); err == nil || err.Error() != want {
			t.Errorf("%s: error %v, want %q", document, err, want)
		}
	}
}

// The document is the order, and what has none is no callback.
func TestDocument_IsTheOrderOfItsMessagesAndMustBeNamed(t *testing.T) {
	text := ledger(`key: {payment: "${body.?p}"}, inc: {n: 1}`)
	plain := mustParse(t, text, Env{}).Sources[0]
	ordered := mustParse(t, strings.Replace(text, "    to:", "    order_by: body.o\n    to:", 1),
		Env{}).Sources[0]
	for _, c := range []struct{ body, want, wantOrdered, wrong string }{
		{`{"p":"A","o":1}`, "A", "1", ""},
		{`{"p":7,"o":"x"}`, "7", "x", ""},
		{`{"p":7.0,"o":"x"}`, "7", "x", ""},
		{`{"o":1}`, "", "", `key "${body.?p}" is missing`},
		{`{"p":"","o":1}`, "", "", `key "${body.?p}" is empty`},
		{`{"p":null,"o":1}`, "", "", `key "${body.?p}" is null`},
		{`{"p":1.5,"o":1}`, "", "", `key "${body.?p}" is a number, but no whole one of 64 bits`},
		{`{"p":18446744073709551615,"o":1}`, "", "",
			`key "${body.?p}" is a number, but no whole one of 64 bits`},
		{`{"p":1e300,"o":1}`, "", "", `key "${body.?p}" is a number, but no whole one of 64 bits`},
		{`{"p":true,"o":1}`, "", "", `key "${body.?p}" is true or false, no text or whole number`},
		{`{"p":["A"],"o":1}`, "", "", `key "${body.?p}" is a list, no text or whole number`},
		{`{"p":"` + strings.Repeat("a", 513) + `","o":1}`, "", "",
			`key "${body.?p}" is longer than 512 bytes`},
	} {
		for i, want := range []string{c.want, c.wantOrdered} {
			s := []func(string) (string, error){func(body string) (string, error) {
				r, err := plain.Route(message(t, body), "")
				return r.OrderKey, err
			}, func(body string) (string, error) {
				r, err := ordered.Route(message(t, body), "")
				return r.OrderKey, err
			}}[i]
			got, err := s(c.body)
			if got != want || (err == nil) != (c.wrong == "") ||
				err != nil && err.Error() != c.wrong {
				t.Errorf("%.40s: order %q, %v; want %q, %s", c.body, got, err, want, c.wrong)
			}
		}
	}
}

func TestDocument_HasTheItemOfASourceWithEach(t *testing.T) {
	text := strings.Replace(ledger(`id: "${item.p}", set: {a: "${body.at}", b: "${item.n}"}`),
		`key: ["body.id"]`, "each: \"body.list\"\n    key: [\"item.p\"]", 1)
	c := mustParse(t, text, Env{})
	m := message(t, `{"at":3,"list":[{"p":"A","n":1},{"p":"B","n":2}]}`)
	items, err := c.Sources[0].Each(m)
	if err != nil {
		t.Fatal(err)
	}
	m.Item = items[1]
	e, err := documentOf(t, c, "pay").Event(m)
	want := write.Event{In: "payments", Key: "B",
		Change: write.Upsert{Set: write.Fields{"a": int64(3), "b": int64(2)}}}
	if err != nil || !reflect.DeepEqual(e, want) {
		t.Errorf("got %+v, %v", e, err)
	}
}

func TestDocument_NeverWaitsForAPerson(t *testing.T) {
	c := mustParse(t, ledger(`id: "${body.id}", inc: {n: 1}`), Env{})
	h := c.SourceSettings[0].Handler
	if h.Policy.HoldUnknown || !h.Policy.Block || h.Probe != time.Minute || h.Lane != "source/pay" {
		t.Errorf("handler %+v", h)
	}
}

func TestDatabase_KindsAndPlaces(t *testing.T) {
	for url, want := range map[string]DatabaseConfig{
		"postgres://u@h1:5432,h2:5432/d?sslmode=require": {Kind: PostgreSQL,
			URL: "postgres://u@h1:5432,h2:5432/d?sslmode=require"},
		"postgresql://h/d": {Kind: PostgreSQL, URL: "postgresql://h/d"},
		"mongodb://u@h1,h2:27018/shop?replicaSet=rs": {Kind: MongoDB, Database: "shop",
			URL: "mongodb://u@h1,h2:27018/shop?replicaSet=rs"},
		"mongodb+srv://h/shop": {Kind: MongoDB, Database: "shop", URL: "mongodb+srv://h/shop"},
		"sqlite:shop.db":       {Kind: SQLite, Path: "/plant/shop.db"},
		"sqlite:/var/shop.db":  {Kind: SQLite, Path: "/var/shop.db"},
	} {
		text := strings.Replace(ledger(`id: "${body.id}", inc: {n: 1}`),
			"mongodb://db.example/shop", url, 1)
		got := mustParse(t, text, Env{}).Databases[0]
		want.Name, want.Retention, got.at = "ledger", 30*24*time.Hour, Problem{}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", url, got, want)
		}
	}
}

func TestDatabase_RemembersAsLongAsItsSources(t *testing.T) {
	text := ledger(`id: "${body.id}", inc: {n: 1}`)
	for _, c := range []struct {
		retention string
		want      time.Duration
		printed   string
	}{
		{"7d", 30 * 24 * time.Hour, "retention: 30d"},
		{"90d", 90 * 24 * time.Hour, "retention: 90d"},
	} {
		cfg := mustParse(t, strings.Replace(text, "    to:",
			"    retention: "+c.retention+"\n    to:", 1), Env{})
		out := printed(t, cfg)
		if cfg.Databases[0].Retention != c.want || !strings.Contains(
			out[strings.Index(out, "\ndatabases:"):], c.printed) {
			t.Errorf("%s: remembered for %s\n%s", c.retention, cfg.Databases[0].Retention, out)
		}
	}
}

func TestDatabase_ThatNobodyWritesToIsWarnedOf(t *testing.T) {
	c := mustParse(t, "databases: {spare: {url: \"sqlite:a.db\"}}\n"+minimal, Env{})
	if len(c.Warnings) != 1 || c.Warnings[0].Line != 1 ||
		!strings.Contains(c.Warnings[0].Msg, `no source writes to the database "spare"`) {
		t.Errorf("warnings %v", c.Warnings)
	}
}

// A URL may hold a password in several places. It is neither printed nor quoted, and one that was
// printed doesn't load.
func TestDatabase_PasswordsAreNotShown(t *testing.T) {
	env := vars(map[string]string{"PW": "S3CRET"})
	base := ledger(`id: "${body.id}", inc: {n: 1}`)
	for url, want := range map[string]string{
		"postgres://u:S3CRET@h/d":                `url: "***"`,
		"postgres://u:S3CRET@h1,h2/d":            `url: "***"`,
		"postgres://h/d?user=u&password=S3CRET":  `url: "***"`,
		"mongodb://u:S3CRET@h/d":                 `url: "***"`,
		"postgres://u:${env:PW}@h/d":             `url: "postgres://u:${env:PW}@h/d"`,
		"postgres://h/d?password=${env:PW}":      `url: "postgres://h/d?password=${env:PW}"`,
		"postgres://u:S3CRET${env:PW}@h/d":       `url: "***"`,
		"postgres://u@h:5432/d?sslmode=disable":  `url: "postgres://u@h:5432/d?sslmode=disable"`,
		"mongodb://h:27017/d?replicaSet=rs":      `url: "mongodb://h:27017/d?replicaSet=rs"`,
		"mongodb://${env:PW}/d?sslpassword=gone": `url: "***"`,
	} {
		text := strings.Replace(base, "mongodb://db.example/shop", url, 1)
		out := printed(t, mustParse(t, text, env))
		if !strings.Contains(out, want) || strings.Contains(out, "S3CRET") {
			t.Errorf("%s is printed as\n%s", url, out)
		}
		short := strings.Replace(text, "{url: ", "{retention: 1h, url: ", 1)
		_, err := Parse("f", []byte(short), env)
		if err == nil || strings.Contains(err.Error(), "S3CRET") {
			t.Errorf("%s: the problem is %v", url, err)
		}
	}
	_, err := Parse("f", []byte(strings.Replace(base, "mongodb://db.example/shop", "***", 1)), env)
	if err == nil || !strings.Contains(err.Error(), "stands for a secret that was hidden") {
		t.Errorf("a hidden URL loads: %v", err)
	}
}
