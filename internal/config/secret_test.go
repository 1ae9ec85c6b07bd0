package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// secrets are in every place that can hold one, as a literal and from outside.
const secrets = `listen: 127.0.0.1:8080
admin: {token: "S3CRET-literal-token", hosts: [a.example]}
sources:
  rcs:
    key: ["body.id"]
    event: "body.kind"
    auth: {bearer: ["S3CRET-bearer", "${env:TOKEN}"]}
    to:
      http: "http://127.0.0.1:1/${env:TOKEN}"
      bearer: S3CRET-http
      headers: {X-Api-Key: S3CRET-key, X-Session-Token: 'S3CRET, too'}
destinations:
  wms:
    http:
      url: "http://127.0.0.1:9000/${env:TOKEN}"
      headers: {Authorization: "S3CRET-header", X-Other: "${env:TOKEN}"}
      basic: {username: u, password: "S3CRET-pass"}
  plant: {mqtt: {url: "mqtt://h", username: u, password: "${file:pw}"}}
`

func secretEnv() Env {
	env := vars(map[string]string{"TOKEN": "S3CRET-from-env"})
	env.ReadFile = func(path string) ([]byte, error) {
		if path == "/plant/pw" {
			return []byte("S3CRET-from-file\n"), nil
		}
		return nil, os.ErrNotExist
	}
	return env
}

func TestSecrets_AreTakenInAndNeverPrinted(t *testing.T) {
	c := mustParse(t, secrets, secretEnv())
	if c.Destinations[1].MQTT.Password != "S3CRET-from-file" ||
		c.Destinations[0].HTTP.URL != "http://127.0.0.1:9000/S3CRET-from-env" ||
		c.Destinations[0].HTTP.Header["X-Other"] != "S3CRET-from-env" ||
		c.Admin.Token != "S3CRET-literal-token" {
		t.Errorf("a secret was not taken in: %+v", c.Destinations)
	}
	out := printed(t, c)
	if strings.Contains(out, "S3CRET") {
		t.Errorf("a secret was printed:\n%s", out)
	}
	for _, want := range []string{`token: "***"`, `password: "***"`, `bearer: "***"`,
		`url: "http://127.0.0.1:9000/${env:TOKEN}"`, `Authorization: "***"`} {
		if !strings.Contains(out, want) {
			t.Errorf("not printed: %s\n%s", want, out)
		}
	}
}

// Each break puts a problem on the line of a secret, or makes the file unreadable there.
func TestSecrets_AreNotQuotedInProblems(t *testing.T) {
	lines := strings.Split(secrets, "\n")
	for i, line := range lines {
		for _, change := range []func(string) string{
			func(s string) string { return s + " ]" },
			func(s string) string { return s + " {" },
			func(s string) string { return strings.Replace(s, ":", " ?:", 1) },
			func(s string) string { return strings.Replace(s, "u,", "[],", 1) },
			func(s string) string { return strings.Replace(s, "token:", "tokn: x, token:", 1) },
			func(s string) string { return strings.Replace(s, "://", ":/", 1) },
			func(s string) string { return strings.Replace(s, "http:", "htp:", 1) },
			func(s string) string { return strings.Replace(s, "basic", "bearer: S3CRET", 1) },
			func(s string) string { return strings.Replace(s, "S3CRET", "\xffS3CRET", 1) },
		} {
			broken := append([]string(nil), lines...)
			broken[i] = change(line)
			_, err := Parse("/plant/f", []byte(strings.Join(broken, "\n")), secretEnv())
			if err != nil && strings.Contains(err.Error(), "S3CRET") {
				t.Errorf("line %q shows a secret:\n%v", broken[i], err)
			}
		}
	}
}

func TestSecrets_InListsAndBlocksOfABrokenFileAreNotShown(t *testing.T) {
	for _, text := range []string{
		"a:\n  bearer:\n    - S3CRET-1\n    - S3CRET-2 ]: [\n",
		"bearer:\n- S3CRET-1\n- [S3CRET-2\nb: 1\n",
		"token: |\n  S3CRET-1\n  S3CRET-2\n\tx\n", "token:\n  'S3CRET-1\nb: [\n",
	} {
		_, err := Parse("f", []byte(text), Env{})
		if err == nil || strings.Contains(err.Error(), "S3CRET") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestFill_WhatIsFilledInIsNoExpression(t *testing.T) {
	text := strings.Replace(minimal, "to: z}",
		`to: z, effects: [{name: n, to: wms, payload: "${env:TEXT}|${task.id}|$${env:TEXT}"}]}`, 1)
	c := mustParse(t, text, vars(map[string]string{"TEXT": "${task.state}"}))
	_, body := built(t, machine(t, c, "f").Events["end"].Effects[0], effectVars())
	if body != "${task.state}|T1|${env:TEXT}" {
		t.Errorf("got %s", body)
	}
}

func TestFill_FilesAreRelativeToTheConfiguration(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("token", "abcdefghijklmnop\r\n")
	write("once.yaml", "admin: {token: \"${file:token}\"}\n"+minimal)
	c, err := Load(filepath.Join(dir, "once.yaml"), OS())
	if err != nil || c.Admin.Token != "abcdefghijklmnop" {
		t.Fatalf("%v %+v", err, c)
	}
	write("token", strings.Repeat("x", maxSecretBytes+1))
	var e *Error
	if _, err := Load(filepath.Join(dir, "once.yaml"), OS()); !errors.As(err, &e) ||
		e.Problems[0].Column != 17 {
		t.Errorf("a huge file: %v", err)
	}
}
