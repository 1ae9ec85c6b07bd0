package api

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/oncekit/once/queue"
)

// param is a query parameter.
type param struct {
	name, doc string
	enum      []string
	number    bool // between 1 and maxLimit
}

// The page sizes.
const (
	defaultLimit = 100
	maxLimit     = 1000 // what the stores accept
	// maxParam bounds a parameter's text, in bytes: longer than any key, and than a cursor of it.
	maxParam = 16 << 10
)

func states(k queue.Kind) []string {
	var out []string
	for _, s := range queue.States(k) {
		out = append(out, string(s))
	}
	return out
}

func limitParam() param {
	return param{name: "limit", doc: "Items of a page at most.", number: true}
}

func pageParams() []param {
	return []param{limitParam(), {name: "cursor", doc: "`next` of the page before."}}
}

// parse reads the query. A parameter without a value counts as not given; one that the route
// doesn't have is refused, since a filter with a slip of the pen would else select everything.
func (rt *route) parse(r *http.Request) (map[string]string, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, problemf(http.StatusBadRequest, "the query can't be read: %v", err)
	}
	out := map[string]string{}
	for name, list := range values {
		i := slices.IndexFunc(rt.query, func(p param) bool { return p.name == name })
		switch {
		case i < 0:
			return nil, problemf(http.StatusBadRequest, "no parameter %q: %s", name, rt.allowed())
		case len(list) > 1:
			return nil, problemf(http.StatusBadRequest, "parameter %q is given twice", name)
		case list[0] == "":
			continue
		}
		if err := rt.query[i].check(list[0]); err != nil {
			return nil, err
		}
		out[name] = list[0]
	}
	return out, nil
}

func (rt *route) allowed() string {
	if len(rt.query) == 0 {
		return "there is none here"
	}
	var names []string
	for _, p := range rt.query {
		names = append(names, p.name)
	}
	return "want one of " + strings.Join(names, ", ")
}

func (p *param) check(value string) error {
	n, err := strconv.Atoi(value)
	switch {
	case len(value) > maxParam:
		return problemf(http.StatusBadRequest, "parameter %q is above %d bytes", p.name, maxParam)
	case !utf8.ValidString(value):
		return problemf(http.StatusBadRequest, "parameter %q is not valid UTF-8", p.name)
	case p.enum != nil && !slices.Contains(p.enum, value):
		return problemf(http.StatusBadRequest, "%s %q: want one of %s", p.name, value,
			strings.Join(p.enum, ", "))
	case p.number && (err != nil || n < 1 || n > maxLimit):
		return problemf(http.StatusBadRequest, "%s %q: want a number from 1 to %d", p.name, value,
			maxLimit)
	}
	return nil
}

// limit returns the size of the page.
func (c *call) limit() int {
	n, err := strconv.Atoi(c.query["limit"])
	if err != nil { // not given: parse checked it
		return defaultLimit
	}
	return n
}

// A cursor goes out with a sum over the filter of its page: one that was cut off, or is used with
// another filter, is refused instead of giving a page of something else.

// cursor returns the store's cursor.
func (c *call) cursor() (string, error) {
	text := c.query["cursor"]
	if text == "" {
		return "", nil
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) <= crc32.Size ||
		binary.BigEndian.Uint32(b) != c.sum(string(b[crc32.Size:])) {
		return "", problemf(http.StatusBadRequest,
			"the cursor was not given by a page with this filter")
	}
	return string(b[crc32.Size:]), nil
}

// next returns what a caller gets for the store's cursor; empty: no further page.
func (c *call) next(cursor string) string {
	if cursor == "" {
		return ""
	}
	b := binary.BigEndian.AppendUint32(nil, c.sum(cursor))
	return base64.RawURLEncoding.EncodeToString(append(b, cursor...))
}

func (c *call) sum(cursor string) uint32 {
	h := crc32.NewIEEE()
	for _, p := range c.route.query {
		if p.name != "cursor" && p.name != "limit" {
			_, _ = h.Write([]byte(c.query[p.name] + "\x00")) // never fails
		}
	}
	_, _ = h.Write([]byte(c.route.pattern + "\x00" + cursor))
	return h.Sum32()
}
