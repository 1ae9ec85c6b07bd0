package config

import (
	"strings"
	"testing"
)

// The store's URL may hold a password, in the file, in what fills it, or from outside. It is shown
// nowhere.
func TestStore_PasswordsAreNotShown(t *testing.T) {
	for url, want := range map[string]struct{ printed, name string }{
		"mongodb://h:1,h2:2/d?replicaSet=r": {`"mongodb://h:1,h2:2/d?replicaSet=r"`,
			"mongodb://h:1,h2:2/d"},
		"mongodb://u:S3CRET@h/d":             {`"***"`, "mongodb://h/d"},
		"mongodb://u:${env:PW}@h/d":          {`"mongodb://u:${env:PW}@h/d"`, "mongodb://h/d"},
		"mongodb://u:S3CRET${env:PW}@h/d":    {`"***"`, "mongodb://h/d"},
		"mongodb+srv://u:S3CRET@h.example/d": {`"***"`, "mongodb+srv://h.example/d"},
		"postgres://u@h:1,h2/d?schema=s":     {`"postgres://u@h:1,h2/d?schema=s"`, "postgres://h:1,h2/d"},
		"postgresql://u:S3CRET@h/d":          {`"***"`, "postgresql://h/d"},
	} {
		env := vars(map[string]string{"PW": "S3CRET"})
		c := mustParse(t, "store: \""+url+"\"\n"+minimal, env)
		out := printed(t, c)
		if !strings.Contains(out, "store: "+want.printed) || strings.Contains(out, "S3CRET") {
			t.Errorf("%s is printed as\n%s", url, out)
		}
		if c.Store.Name() != want.name || c.Store.Database != "d" || c.Store.Path != "" {
			t.Errorf("%s is the store %+v, named %s", url, c.Store, c.Store.Name())
		}
		if strings.Contains(url, "${") {
			continue
		}
		outside := vars(map[string]string{"ONCE_STORE": url})
		if out := printed(t, mustParse(t, minimal, outside)); strings.Contains(out, "S3CRET") {
			t.Errorf("%s from outside is printed as\n%s", url, out)
		}
	}
	for _, wrong := range []string{"mongodb://u:S3CRET@h", "mongodb://u:S3CRET@h/?w=1",
		"mongo://u:S3CRET@h/d", "postgres://u:S3CRET@h", "postgres://u:S3CRET@/d"} {
		_, err := Parse("f", []byte("store: \""+wrong+"\"\n"+minimal), Env{})
		if err == nil || !strings.Contains(err.Error(), "expected "+wantStore) ||
			strings.Contains(strings.Split(err.Error(), "\n")[0], "S3CRET") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}
