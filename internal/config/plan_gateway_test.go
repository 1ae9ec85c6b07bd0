package config

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestPlan_HasTheGatewaysScopeAndThePlaceOfItsRecordsWithoutALogin(t *testing.T) {
	for _, tt := range []struct{ settings, want string }{
		{"scope: none", `{}`},
		{`scope: "header['x-a']"`, `{"scope":["header['x-a']"]}`},
		{`scope: ["header['x-a']", "header['x-b']"]`, `{"scope":["header['x-a']","header['x-b']"]}`},
		{`scope: none, records: "redis://u:secret@h:1/0?read_timeout=1s"`,
			`{"records":"redis://h:1"}`},
		{`scope: none, records: "rediss://h:1/2"`, `{"records":"redis://h:1/2"}`},
		{`scope: none, records: "redis+sentinel://h:1?master_name=m\u0026db=2"`,
			`{"records":"redis+sentinel://h:1 db=2 master_name=m"}`},
		{`scope: none, records: "mongodb://u:secret@h2:1,h1:2/shop?replicaSet=rs0"`,
			`{"records":"mongodb://h1:2,h2:1/shop"}`},
		{`scope: none, records: "mongodb+srv://cluster.example/shop"`,
			`{"records":"mongodb+srv://cluster.example/shop"}`},
	} {
		c := mustParse(t, `gateway: {upstream: "http://h", routes: [{match: POST /}], `+tt.settings+
			"}\n", Env{})
		b, err := json.Marshal(c.Plan().Gateway)
		if string(b) != tt.want || err != nil {
			t.Errorf("%s: %s, want %s", tt.settings, b, tt.want)
		}
	}
}

func TestMigrate_TheGatewaysChangesAreWords(t *testing.T) {
	const gateway = `gateway: {upstream: "http://h", scope: none, routes: [{match: POST /}]}` + "\n"
	c := mustParse(t, gateway+"migrate: {gateway: {scope: changed}}\n", Env{})
	if c.Migrate.Gateway != (GatewayMigration{Scope: true}) {
		t.Errorf("%+v", c.Migrate.Gateway)
	}
	for yaml, want := range map[string]string{
		gateway + "migrate: {gateway: {scope: forget}}\n":  "expected changed",
		gateway + "migrate: {gateway: {key: changed}}\n":   "key",
		minimal + "migrate: {gateway: {scope: changed}}\n": "the file has no gateway",
	} {
		_, err := Parse("once.yaml", []byte(yaml), Env{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
