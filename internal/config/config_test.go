package config

import (
	"bytes"
	"os"
	"testing"
)

func TestX(t *testing.T) {
	for _, f := range []string{"../../examples/robots.yaml", "../../examples/gateway.yaml", "example.yaml", "builtin.yaml"} {
		c, err := Load(f, Env{})
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		var b bytes.Buffer
		c.Print(&b)
		os.Stdout.Write(b.Bytes())
		c2, err := Parse(f, b.Bytes(), Env{})
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		var b2 bytes.Buffer
		c2.Print(&b2)
		if b.String() != b2.String() {
			t.Errorf("%s", b2.String())
		}
	}
}
