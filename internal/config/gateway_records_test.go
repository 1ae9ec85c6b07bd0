package config

import (
	"errors"
	"strings"
	"testing"
)

// recordsFile is a gateway with its records at a place, on line 4.
func recordsFile(records string) string {
	return `gateway:
  upstream: "http://h"
  scope: none
  records: ` + records + `
  routes: [{match: POST /, key: required, on_unknown: hold}]
`
}

// What MongoDB has acknowledged it keeps, so that nothing has to be accepted for hold.
func TestRecordsInMongoDBMayBeHeldWithoutASettingOfTheirOwn(t *testing.T) {
	t.Parallel()
	c := mustParse(t, recordsFile(`"mongodb://h1:1,h2/shop?replicaSet=rs0"`), Env{})
	if !c.Gateway.InMongoDB() || !c.Gateway.Routes[0].HoldUnknown ||
		MongoDatabase(c.Gateway.Records) != "shop" {
		t.Errorf("%+v", c.Gateway)
	}
	c = mustParse(t, strings.Replace(recordsFile("redis://h:1"), "hold", "retry", 1), Env{})
	if c.Gateway.InMongoDB() {
		t.Error("a Redis is a MongoDB")
	}
}

func TestRecordsThatAreNoAddressAreRefusedInTheirLine(t *testing.T) {
	t.Parallel()
	for records, want := range map[string]string{
		"mongodb://h:1": "names no database; expected one after the host, such as mongodb://HOST" +
			"/DATABASE",
		"mongodb://h:1/?a=b/c":                   "names no database",
		"mongodb://u:pw@/shop":                   "names no host",
		"postgres://h:1":                         "names no database; expected one after the host",
		"postgresql://u:pw@/shop":                "names no host; expected postgres://HOST",
		"postgres:h":                             "is no URL",
		"mongo://h/shop":                         "mongodb+srv",
		"mongodb:h":                              "is no URL",
		"mongodb://h/d\n  redis_may_forget: yes": "redis_may_forget",
		"mongodb://h/d\n  redis_may_forget: true": "no meaning for records in MongoDB," +
			" which keeps what it has acknowledged",
		"mongodb://h/d\n  redis_may_evict: true": "redis_may_evict has no meaning for records in",
		"postgres://h/d\n  redis_may_forget: true": "no meaning for records in PostgreSQL," +
			" which keeps",
	} {
		_, err := Parse("once.yaml", []byte(recordsFile(records)), Env{})
		var bad *Error
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", records, err, want)
			continue
		}
		line := 4 + strings.Count(records, "\n")
		if p := bad.Problems[0]; p.Line != line || p.Column < 3 || strings.Contains(p.Msg, "pw") {
			t.Errorf("%s: line %d, column %d: %s", records, p.Line, p.Column, p.Msg)
		}
	}
}

func TestRecordsInPostgreSQLMayBeHeldAndNameASchema(t *testing.T) {
	t.Parallel()
	const place = "postgres://u:pw@h1:1,h2:2/shop"
	c := mustParse(t, recordsFile(place+"?a=b&schema=the%20gate&c=d"), Env{})
	if !c.Gateway.InPostgreSQL() || c.Gateway.InMongoDB() || !c.Gateway.Routes[0].HoldUnknown {
		t.Errorf("%+v", c.Gateway)
	}
	for text, want := range map[string][2]string{
		c.Gateway.Records:         {place + "?a=b&c=d", "the gate"},
		place + "?schema=x":       {place, "x"},
		place:                     {place, ""},
		place + "?schema=%zz&b=c": {place + "?b=c", "%zz"},
		place + "?search_path=x":  {place + "?search_path=x", ""},
	} {
		if driver, schema := SplitSchema(text); driver != want[0] || schema != want[1] {
			t.Errorf("%s: %s, %q; want %q", text, driver, schema, want)
		}
	}
	if got := recordsPlace(c.Gateway.Records); got != "postgres://h1:1,h2:2/shop schema=the gate" {
		t.Errorf("the place is %s", got)
	}
}

// One configuration keeps callbacks here and answers there.
func TestRecordsMayBeElsewhereThanTheStore(t *testing.T) {
	t.Parallel()
	file := strings.Replace(recordsFile("redis://h:1"), "hold", "retry", 1)
	c := mustParse(t, "store: mongodb://h/d\n"+file, Env{})
	if c.Gateway.Records != "redis://h:1" || c.Store.Database != "d" {
		t.Errorf("%+v, %+v", c.Gateway, c.Store)
	}
	c = mustParse(t, "store: postgres://h/d\n"+file, Env{})
	if c.Gateway.Records != "redis://h:1" || !IsPostgreSQL(c.Store.URL) {
		t.Errorf("%+v, %+v", c.Gateway, c.Store)
	}
	c = mustParse(t, "store: mongodb://h/d\n"+recordsFile("postgres://h/d"), Env{})
	if !c.Gateway.InPostgreSQL() {
		t.Errorf("%+v", c.Gateway)
	}
}

func TestThePasswordOfRecordsInADatabaseIsNotPrinted(t *testing.T) {
	t.Parallel()
	env := Env{Getenv: func(name string) (string, bool) { return "S3CRET", name == "PW" }}
	const shop = `"mongodb://h/shop?`
	for records, want := range map[string]string{
		`"mongodb://u:S3CRET@h1,h2:27018/shop"`: `records: "***"`,
		`"postgres://u:S3CRET@h1,h2:5433/shop"`: `records: "***"`,
		`"postgres://h/shop?password=S3CRET"`:   `records: "***"`,
		`"postgres://u:${env:PW}@h/shop?schema=a"`: `records: "postgres://u:${env:PW}@h` +
			`/shop?schema=a"`,
		shop + `tlsCertificateKeyFilePassword=S3CRET"`: `records: "***"`,
		`"mongodb://u:${env:PW}@h/shop"`:               `records: "mongodb://u:${env:PW}@h/shop"`,
		`"mongodb://h:1/shop?replicaSet=rs0"`: `records: "mongodb://h:1/shop` +
			`?replicaSet=rs0"`,
	} {
		got := printed(t, mustParse(t, recordsFile(records), env))
		if !strings.Contains(got, want) || strings.Contains(got, "S3CRET") {
			t.Errorf("%s: printed as\n%s\nwant %s", records, got, want)
		}
	}
}
