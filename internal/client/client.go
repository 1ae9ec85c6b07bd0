// Package client asks a server's operator listener and has it change things: the other side of
// internal/api, with the same shapes (internal/wire).
//
// Every request has a time limit, every answer a largest size. What the server refuses is a
// *wire.Problem with the server's own text; what is no answer of it is an *UnreachableError or a
// *StrangeError. The token is in no error.
package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/oncekit/once/internal/wire"
)

// Config says whom to ask, and how. URL is required.
type Config struct {
	// URL of the operator's listener: http or https, host and port. A path is put before those of
	// the API, for a listener behind a proxy.
	URL string
	// Token is admin.token of the server. Default: none.
	Token string
	// CA are the certificates (PEM) of who signed the server's. Default: those of the system.
	CA []byte
	// Timeout of one request. Default 15s: the API gives up by itself after 10s.
	Timeout time.Duration
	// UserAgent is told to the server. Default "once".
	UserAgent string
}

// maxAnswer bounds an answer, in bytes: a callback of the largest configurable body with the most
// conflicts that are kept may take a hundred megabytes.
const maxAnswer = 256 << 20

const prefix = "/api/v1"

// Client asks one server. It is safe for concurrent use.
type Client struct {
	cfg  Config
	base string
	http *http.Client
}

// New returns a client. It connects to nothing. It returns an error for a wrong URL, token or
// certificate.
func New(cfg Config) (*Client, error) {
	base, err := parseURL(cfg.URL)
	if err != nil {
		return nil, err
	}
	if strings.ContainsFunc(cfg.Token, notInToken) {
		return nil, errors.New("the token holds a character that no token has (a line end?)")
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 15 * time.Second
	}
	if cfg.UserAgent == "" {
		cfg.UserAgent = "once"
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = func(r *http.Request) (*url.URL, error) {
		if r.URL.Scheme == "http" { // a proxy would read the token
			return nil, nil
		}
		return http.ProxyFromEnvironment(r)
	}
	if cfg.CA != nil {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(cfg.CA) {
			return nil, errors.New("the file of the authority has no certificate (want PEM)")
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &Client{cfg: cfg, base: base, http: &http.Client{
		Transport: transport,
		// The API redirects nobody; the token goes to no other place.
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}}, nil
}

func notInToken(r rune) bool { return r <= ' ' || r >= 0x7f }

func parseURL(text string) (string, error) {
	const want = "want a URL such as http://127.0.0.1:8081"
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		return "", fmt.Errorf("server %q: %s", text, want)
	case u.User != nil:
		return "", fmt.Errorf("server at %s: a URL has no name or password here; %s", u.Host, want)
	case u.RawQuery != "" || u.Fragment != "":
		return "", fmt.Errorf("server %q: %s, without a query", text, want)
	}
	return strings.TrimSuffix(u.String(), "/"), nil
}

// URL returns whom the client asks.
func (c *Client) URL() string { return c.base }

// IsOpen reports whether the token would go over a network where others can read it: neither TLS
// nor this machine.
func (c *Client) IsOpen() bool {
	u, err := url.Parse(c.base)
	if err != nil || u.Scheme == "https" {
		return false
	}
	return !isLoopback(u.Hostname())
}

// UnreachableError says that no answer came. Whether a change was made is not known.
type UnreachableError struct {
	URL string
	Err error
}

// Error names the server and the cause.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("the server at %s is not reachable: %v", e.URL, e.Err)
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// StrangeError is an answer that the operator's listener doesn't give.
type StrangeError struct {
	URL    string
	Status int
	What   string
}

// Error says what came.
func (e *StrangeError) Error() string {
	return fmt.Sprintf("%s does not answer as the operator's listener of once: status %d, %s",
		e.URL, e.Status, e.What)
}

// get reads an answer.
func (c *Client) get(ctx context.Context, path string, query url.Values, into any) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return c.do(ctx, http.MethodGet, path, nil, into)
}

// post makes a change and reads what became of the thing.
func (c *Client) post(ctx context.Context, path string, change, into any) error {
	body, err := json.Marshal(change)
	if err != nil {
		return fmt.Errorf("write change: %w", err)
	}
	return c.do(ctx, http.MethodPost, path, body, into)
}

func (c *Client) do(ctx context.Context, method, path string, body []byte, into any) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", c.cfg.UserAgent)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.cfg.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.cfg.Token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return c.unreachable(ctx, err)
	}
	defer func() { _ = res.Body.Close() }() // it was only read
	b, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return c.unreachable(ctx, fmt.Errorf("the answer broke off: %w", err))
	case len(b) > maxAnswer:
		return c.strange(res, fmt.Sprintf("more than %d bytes", maxAnswer))
	}
	return c.read(res, b, into)
}

// read takes an answer apart: what was asked for, a problem, or something strange.
func (c *Client) read(res *http.Response, b []byte, into any) error {
	media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	switch {
	case media == "application/problem+json":
		p := &wire.Problem{}
		if err := json.Unmarshal(b, p); err != nil || p.Detail == "" {
			return c.strange(res, "a problem without a detail")
		}
		p.Status = res.StatusCode
		return p
	case res.StatusCode != http.StatusOK, media != "application/json":
		return c.strange(res, fmt.Sprintf("%q", firstLine(b)))
	}
	if err := json.Unmarshal(b, into); err != nil {
		return c.strange(res, fmt.Sprintf("JSON of another shape (%v)", err))
	}
	return nil
}

func (c *Client) strange(res *http.Response, what string) error {
	return &StrangeError{URL: c.base, Status: res.StatusCode, What: what}
}

// unreachable takes the URL, which is long and said already, out of an error of net/http.
func (c *Client) unreachable(ctx context.Context, err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %v: %w", c.cfg.Timeout, context.DeadlineExceeded)
	}
	return &UnreachableError{URL: c.base, Err: err}
}

// firstLine is the beginning of an answer, for a text.
func firstLine(b []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(b[:min(len(b), 200)])), "\n")
	return strings.ToValidUTF8(line, "\uFFFD")
}
