package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncekit/once/internal/config"
)

// flagsOnly stands for the name of a file where there is none.
const flagsOnly = "once proxy"

// proxyFlags are what a gateway needs that has no file.
type proxyFlags struct {
	settings
	to, key, onUnknown, records string
	scopes                      []string
}

func (a *app) proxyCommand() *cobra.Command {
	var f proxyFlags
	c := takes(&cobra.Command{
		Use:   "proxy --to URL --scope EXPR|none",
		Short: "Put idempotency keys before an API, without a file",
		Long: `Put idempotency keys before an API: requests to ADDR are handed on to URL, and a POST
or PATCH that bears an Idempotency-Key runs once; a repeat gets the first answer.

--scope says whose a key is: an expression over the request's headers and query, such as
"header['x-account-id']", or none, if all callers may share their keys. What a client writes into a
header it can also make up: let your own proxy set it, or use a file with auth: or jwt:. Given
several times, the values together are the scope.

An attempt that was lost (no answer came, or 500, 502 or 504) may have had its effect. With
--on-unknown retry, the default, the next repeat runs it again; with hold, nothing runs until a
person has decided (once records). With --key required it has to be chosen.

--records keeps the records in a PostgreSQL, a MongoDB or a Redis that several gateways may share,
rather than in the store. Take a login from the environment: --records '${env:DATABASE_URL}'.

Everything else needs a file: routes, callers, limits (see docs/gateway.md).`,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := f.load(c)
			if err != nil {
				return err
			}
			a.say("on_unknown is %s: %s", f.onUnknown, map[string]string{
				"retry": "an attempt that was lost runs again when it is repeated",
				"hold":  "an attempt that was lost waits for a person (once records)",
			}[f.onUnknown])
			return a.serveConfig(cfg, "a gateway", false, 0)
		},
	}, 0, 0, "")
	c.Flags().StringVar(&f.to, "to", "", "the `URL` of the API (required)")
	c.Flags().StringArrayVar(&f.scopes, "scope", nil, "whose a key is: an `EXPR`, or none "+
		"(required); several are the parts of one scope")
	c.Flags().StringVar(&f.key, "key", "optional", "what a request without a key gets: optional "+
		"(it passes) or required (400)")
	c.Flags().StringVar(&f.onUnknown, "on-unknown", "retry", "what follows when an attempt is "+
		"lost: retry or hold")
	c.Flags().StringVar(&f.records, "records", "", "keep the records at `URL`, "+
		"postgres://HOST/DATABASE, mongodb://HOST/DATABASE or redis://HOST:PORT (default in "+
		"the store)")
	c.Flags().StringVar(&f.store, "store", "", "the store's `URL` (default sqlite:once.db)")
	c.Flags().StringVar(&f.listen, "listen", "", "the clients' `ADDR` (default 127.0.0.1:8080)")
	c.Flags().StringVar(&f.admin, "admin", "", "the operator's `ADDR` (default 127.0.0.1:8081)")
	return c
}

// load makes the configuration that the flags describe.
func (f *proxyFlags) load(c *cobra.Command) (*config.Config, error) {
	wrong := func(format string, args ...any) (*config.Config, error) {
		return nil, &usageError{fmt.Errorf(format, args...), hint(c)}
	}
	switch {
	case f.to == "":
		return wrong("--to is missing: the URL of the API")
	case !strings.Contains(f.to, "://"):
		return wrong("--to %s is no URL: is it http://%s?", f.to, f.to)
	case len(f.scopes) == 0 || slices.Contains(f.scopes, ""):
		return wrong("--scope is missing: say whose a key is, such as " +
			"--scope \"header['x-account-id']\", or --scope none if all callers may share keys")
	case len(f.scopes) > 1 && slices.Contains(f.scopes, "none"):
		return wrong("--scope none stands alone: all callers share their keys, or none do")
	case !slices.Contains([]string{"optional", "required"}, f.key):
		return wrong("--key %s: want optional or required", f.key)
	case !slices.Contains([]string{"retry", "hold"}, f.onUnknown):
		return wrong("--on-unknown %s: want retry or hold", f.onUnknown)
	case f.key == "required" && !c.Flags().Changed("on-unknown"):
		return wrong("--on-unknown is missing: with --key required say what follows when an " +
			"attempt is lost: retry or hold")
	}
	env := config.OS()
	env.Override = config.Override{Listen: f.listen, AdminListen: f.admin, Store: f.store}
	cfg, err := config.Parse(flagsOnly, []byte(f.text()), env)
	var bad *config.Error
	if errors.As(err, &bad) { // there is no file whose lines could be shown
		for i := range bad.Problems {
			p := &bad.Problems[i]
			p.File, p.Line, p.Column, p.Snippet = flagsOnly, 0, 0, ""
		}
	}
	return cfg, err
}

// text is what the flags would be as a file.
func (f *proxyFlags) text() string {
	// A text in single quotes holds everything but control characters, which the loader refuses.
	quoted := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	scope := quoted(f.scopes[0])
	if len(f.scopes) > 1 {
		var parts []string
		for _, part := range f.scopes {
			parts = append(parts, quoted(part))
		}
		scope = "[" + strings.Join(parts, ", ") + "]"
	}
	text := "gateway:\n  upstream: " + quoted(f.to) + "\n  scope: " + scope + "\n"
	if f.records != "" {
		text += "  records: " + quoted(f.records) + "\n"
	}
	text += "  routes:\n"
	for _, method := range []string{"POST", "PATCH"} {
		text += fmt.Sprintf("    - {match: %s /, key: %s, on_unknown: %s}\n", method, f.key,
			f.onUnknown)
	}
	return text
}
