package cli

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/oncekit/once/internal/client"
	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/internal/screen"
	"github.com/oncekit/once/internal/wire"
)

// remote is what the flags say that all commands share which ask a server.
type remote struct {
	server, token, tokenFile, ca, file string
	output                             choice
}

const (
	defaultServer = "http://127.0.0.1:8081"
	// maxSecret bounds a file with a token or a certificate, in bytes.
	maxSecret = 1 << 20
)

// addRemote gives a command and those below it the flags that say which server is asked.
func (a *app) addRemote(c *cobra.Command) *cobra.Command {
	r, f := &a.remote, c.PersistentFlags()
	f.StringVar(&r.server, "server", "", "the `URL` of the operator's listener (default "+
		"$ONCE_SERVER, else "+defaultServer+")")
	f.StringVarP(&r.file, "config", "c", "", "take address and token of the server on this "+
		"machine from its `FILE`")
	f.StringVar(&r.tokenFile, "token-file", "", "the `FILE` with admin.token (default "+
		"$ONCE_TOKEN_FILE)")
	f.StringVar(&r.token, "token", "", "admin.token itself (default $ONCE_TOKEN); others on this "+
		"machine can see a `TOKEN` in a command line")
	f.StringVar(&r.ca, "ca", "", "the `FILE` (PEM) of the authority that signed the server's "+
		"certificate (default $ONCE_CA, else the system's)")
	r.output = choice{of: []string{"table", "json"}}
	f.VarP(&r.output, "output", "o", "`table|json`: for people, or one object a line as the API "+
		"has it")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(r.output.of,
		cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return c
}

// choice is a flag that has one of a few values; the first is the default.
type choice struct {
	of []string
	is string
}

// String returns the value.
func (c *choice) String() string {
	if len(c.of) == 0 {
		return c.is
	}
	return cmp.Or(c.is, c.of[0])
}

// Set takes a value that there is.
func (c *choice) Set(s string) error {
	for _, one := range c.of {
		if s == one {
			c.is = s
			return nil
		}
	}
	return fmt.Errorf("want one of %s", strings.Join(c.of, ", "))
}

// Type is told in the usage.
func (c *choice) Type() string { return "string" }

func (r *remote) json() bool { return r.output.String() == "json" }

// connect returns a client of the server that the flags, the environment or a file name. It
// connects to nothing yet.
func (a *app) connect() (*client.Client, error) {
	r := &a.remote
	cfg := client.Config{UserAgent: "once/" + version()}
	var err error
	switch {
	case r.server != "" && r.file != "":
		err = errors.New("--server and --config both name a server; want one of them")
	case r.server != "":
		cfg.URL = r.server
	case r.file != "":
		cfg.URL, cfg.Token, err = localServer(r.file)
	default:
		cfg.URL = cmp.Or(os.Getenv("ONCE_SERVER"), defaultServer)
	}
	if err == nil {
		cfg.Token, err = r.theToken(cfg.Token)
	}
	if name := cmp.Or(r.ca, os.Getenv("ONCE_CA")); err == nil && name != "" {
		cfg.CA, err = readSmall(name)
	}
	var c *client.Client
	if err == nil {
		c, err = client.New(cfg)
	}
	var wrong *config.Error
	switch {
	case errors.As(err, &wrong):
		return nil, err
	case err != nil:
		return nil, &usageError{err: err}
	}
	if cfg.Token != "" && c.IsOpen() {
		a.warn("the token goes to %s without TLS: others on the way can read it", c.URL())
	}
	return c, nil
}

// theToken returns the token that is said nearest: by a flag, by the file of --config, by the
// environment.
func (r *remote) theToken(ofFile string) (string, error) {
	file := r.tokenFile
	switch {
	case r.token != "" && file != "":
		return "", errors.New("--token and --token-file both give a token; want one of them")
	case r.token != "":
		return r.token, nil
	case file == "" && ofFile != "":
		return ofFile, nil
	case file == "" && os.Getenv("ONCE_TOKEN") != "":
		return os.Getenv("ONCE_TOKEN"), nil
	case file == "":
		file = os.Getenv("ONCE_TOKEN_FILE")
	}
	if file == "" {
		return "", nil
	}
	b, err := readSmall(file)
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	token := strings.TrimSpace(string(b))
	if token == "" {
		return "", fmt.Errorf("read token: %s is empty", file)
	}
	return token, nil
}

func readSmall(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	b, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err == nil && len(b) > maxSecret {
		err = fmt.Errorf("%s is larger than %d bytes", name, maxSecret)
	}
	return b, err
}

// localServer reads where a server with this configuration listens for its operator.
func localServer(file string) (url, token string, err error) {
	f := settings{file: file}
	cfg, err := f.load()
	if err != nil {
		return "", "", err
	}
	host, port, err := net.SplitHostPort(cfg.Admin.Listen)
	if err != nil {
		return "", "", err
	}
	if port == "0" {
		return "", "", fmt.Errorf("%s leaves the port of admin.listen open; name the server with "+
			"--server", file)
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1" // all addresses of this machine
		if ip.Is6() {
			host = "::1"
		}
	}
	return "http://" + net.JoinHostPort(host, port), cfg.Admin.Token, nil
}

// out is where a command writes its result.
func (a *app) out() *screen.Screen { return screen.For(a.io.Out, os.LookupEnv) }

// errs is where a command tells what is no result.
func (a *app) errs() *screen.Screen { return screen.For(a.io.Err, os.LookupEnv) }

// statusError ends the program with a status. What has to be said was said if there is no error.
type statusError struct {
	status int
	err    error
}

// Error returns the text of the cause; empty: nothing is to be said.
func (e *statusError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

// Unwrap returns the cause.
func (e *statusError) Unwrap() error { return e.err }

// errInterrupted is the end by Ctrl-C or SIGTERM.
var errInterrupted = &statusError{status: statusStopped}

// told gives an error of a server its status and says what can be done.
func told(ctx context.Context, err error) error {
	var usage *usageError
	var said *statusError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &usage), errors.As(err, &said):
		return err
	case ctx.Err() != nil:
		return errInterrupted
	}
	return &statusError{statusOf(err), withHint(err)}
}

// statusOf is the one table from what a server says to the status of the program.
func statusOf(err error) int {
	var p *wire.Problem
	var away *client.UnreachableError
	var strange *client.StrangeError
	switch {
	case errors.As(err, &p):
		switch p.Status {
		case http.StatusBadRequest:
			return statusUsage
		case http.StatusNotFound:
			return statusNotFound
		case http.StatusConflict:
			return statusRefused
		case http.StatusServiceUnavailable:
			return statusAway
		case http.StatusUnauthorized, http.StatusForbidden:
			return statusForbidden
		}
	case errors.As(err, &away), errors.As(err, &strange):
		return statusAway
	}
	return statusFailed
}

// withHint makes a clean text of an error and adds what to do about it.
func withHint(err error) error {
	var p *wire.Problem
	var unknown x509.UnknownAuthorityError
	text := screen.CleanLines(err.Error())
	switch {
	case errors.As(err, &p) && p.Status == http.StatusUnauthorized:
		text += "\n--token-file or ONCE_TOKEN give it to this command"
	case errors.As(err, &unknown):
		text += "\n--ca FILE names the authority that signed its certificate"
	case errors.Is(err, syscall.ECONNREFUSED):
		text += "\nis it running? --server names another one"
	}
	return errors.New(text)
}

// isAway reports whether a server may answer when it is asked again later.
func isAway(err error) bool {
	var p *wire.Problem
	var strange *client.StrangeError
	var away *client.UnreachableError
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &unknown):
		return false
	case errors.As(err, &p):
		return p.Status == http.StatusServiceUnavailable
	case errors.As(err, &strange): // of a proxy before it
		return strange.Status >= http.StatusBadGateway
	}
	return errors.As(err, &away)
}
