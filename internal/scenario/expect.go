package scenario

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// replayHeader marks a replay.
const replayHeader = "Idempotent-Replayed"

// perExchange are headers in which a replay may differ from the first answer: they belong to one
// exchange, or say how its bytes are framed.
var perExchange = []string{
	"Date", "Age", "Connection", "Keep-Alive", "Transfer-Encoding", "Content-Length", "Trailer",
	"Via", "Server", "Set-Cookie", "Www-Authenticate", "X-Request-Id", replayHeader,
}

// problems are the differences of an answer from what it has to be.
func (e *Expect) problems(got *reply, before map[string]*reply, v vars) []string {
	var d diff
	if e.Broken {
		if got.err == nil && !slices.Contains(e.AnyOf, got.status) {
			d.add("the connection did not break; got %s", got)
		}
		return d.list
	}
	if got.err != nil {
		d.add("no whole answer: %v; got %s", got.err, got)
		return d.list
	}
	e.compareStatus(&d, got)
	if e.Problem != "" {
		compareProblem(&d, got, e.Problem)
	}
	if e.Replayed != nil {
		want := []string(nil)
		if *e.Replayed {
			want = []string{"true"}
		}
		d.lines(replayHeader, got.header.Values(replayHeader), want)
	}
	e.compareHeaders(&d, got, v)
	e.compareBody(&d, got, v)
	e.compareTimes(&d, got)
	if e.SameAs != "" {
		compareWhole(&d, got, before[e.SameAs], e.SameAs)
	}
	if other := before[e.NotSameBody]; other != nil && bytes.Equal(got.body, other.body) {
		d.add("the body is that of %s: %s", e.NotSameBody, cut(got.body))
	}
	return d.list
}

// diff gathers differences.
type diff struct{ list []string }

func (d *diff) add(format string, args ...any) {
	d.list = append(d.list, fmt.Sprintf(format, args...))
}

// lines compares the lines of a header.
func (d *diff) lines(name string, got, want []string) {
	if !slices.Equal(got, want) {
		d.add("header %s: got %s, want %s", name, shown(got), shown(want))
	}
}

func shown(lines []string) string {
	if len(lines) == 0 {
		return "none"
	}
	quoted := make([]string, len(lines))
	for i, line := range lines {
		quoted[i] = strconv.Quote(line)
	}
	return strings.Join(quoted, ", ")
}

func (e *Expect) compareStatus(d *diff, got *reply) {
	if e.Status != 0 && got.status != e.Status {
		d.add("status: got %d, want %d; the body is %s", got.status, e.Status, cut(got.body))
	}
	if len(e.AnyOf) > 0 && !slices.Contains(e.AnyOf, got.status) {
		d.add("status: got %d, want one of %v; the body is %s", got.status, e.AnyOf, cut(got.body))
	}
	if e.Early != nil && !slices.Equal(got.early, e.Early) {
		d.add("statuses before the final one: got %v, want %v", got.early, e.Early)
	}
}

// compareProblem checks the form of a problem and the end of its type, since each implementation
// has URIs of its own.
func compareProblem(d *diff, got *reply, name string) {
	media, _, _ := mime.ParseMediaType(got.header.Get("Content-Type"))
	if media != "application/problem+json" {
		d.add("content type: got %q, want application/problem+json", got.header.Get("Content-Type"))
		return
	}
	var p struct {
		Type, Title string
		Status      int
	}
	if err := json.Unmarshal(got.body, &p); err != nil {
		d.add("the problem is no JSON object: %v", err)
		return
	}
	if end := p.Type[strings.LastIndexAny(p.Type, ":/#")+1:]; end != name {
		d.add("type of the problem: got %q, want one that ends in %q", p.Type, name)
	}
	if p.Status != got.status {
		d.add("status in the problem: got %d, want %d", p.Status, got.status)
	}
	if p.Title == "" {
		d.add("the problem has no title")
	}
}

func (e *Expect) compareHeaders(d *diff, got *reply, v vars) {
	for name, want := range e.Headers {
		d.lines(name, got.header.Values(name), expandAll(want, v))
	}
	for name, pattern := range e.Matches {
		lines := got.header.Values(name)
		if len(lines) != 1 || !regexp.MustCompile(pattern).MatchString(lines[0]) {
			d.add("header %s: got %s, want one line that matches %s", name, shown(lines), pattern)
		}
	}
	for _, name := range e.Lacks {
		d.lines(name, got.header.Values(name), nil)
	}
	for name, want := range e.Trailers {
		d.lines("(trailer) "+name, got.trailer.Values(name), []string{want})
	}
}

func expandAll(texts []string, v vars) []string {
	list := make([]string, len(texts))
	for i, text := range texts {
		list[i], _ = expand(text, v) // checked when it was read
	}
	return list
}

func (e *Expect) compareBody(d *diff, got *reply, v vars) {
	if e.Body != nil {
		want, _ := expand(*e.Body, v)
		if string(got.body) != want {
			d.add("body: got %s, want %q", cut(got.body), want)
		}
	}
	if !strings.Contains(string(got.body), e.Contains) {
		d.add("body: got %s, want one that contains %q", cut(got.body), e.Contains)
	}
	if e.LacksText != "" && strings.Contains(string(got.body), e.LacksText) {
		d.add("body: got %s, want one without %q", cut(got.body), e.LacksText)
	}
	if e.Bytes != nil && len(got.body) != *e.Bytes {
		d.add("body: got %d bytes, want %d", len(got.body), *e.Bytes)
	}
}

func (e *Expect) compareTimes(d *diff, got *reply) {
	if e.Within > 0 && got.headAfter > e.Within {
		d.add("the header came after %s, want it within %s", got.headAfter, e.Within)
	}
	if e.FirstWithin > 0 && got.firstAfter > e.FirstWithin {
		d.add("the body began after %s, want it within %s", got.firstAfter, e.FirstWithin)
	}
	if got.headAfter < e.NotBefore {
		d.add("the header came after %s, want it not before %s", got.headAfter, e.NotBefore)
	}
}

// compareWhole checks that an answer repeats another one: its status, its headers line by line but
// those of one exchange, and its body byte for byte.
func compareWhole(d *diff, got, want *reply, name string) {
	if want == nil || want.err != nil {
		d.add("there is no whole answer of %s to compare with", name)
		return
	}
	if got.status != want.status {
		d.add("status: got %d, want %d as %s has it", got.status, want.status, name)
	}
	if !bytes.Equal(got.body, want.body) {
		d.add("body: got %s, want that of %s: %s", cut(got.body), name, cut(want.body))
	}
	for _, header := range namesOf(got.header, want.header) {
		if !slices.Contains(perExchange, header) {
			d.lines(header, got.header[header], want.header[header])
		}
	}
}

func namesOf(headers ...http.Header) []string {
	var names []string
	for _, h := range headers {
		for name := range h {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// cut shows a body, or its beginning.
func cut(body []byte) string {
	const most = 160
	if len(body) <= most {
		return strconv.Quote(string(body))
	}
	return fmt.Sprintf("%q… (%d bytes)", body[:most], len(body))
}

// String tells an answer in a line.
func (r *reply) String() string {
	if r.status == 0 {
		return "nothing"
	}
	return fmt.Sprintf("%d %s", r.status, cut(r.body))
}

// problems are the differences of what the origin got from what it should have got.
func (s *Seen) problems(got *run, sent map[string]*reply, v vars) []string {
	var d diff
	if s.Method != "" && got.method != s.Method {
		d.add("method: got %s, want %s", got.method, s.Method)
	}
	if s.Path != "" && got.path != s.Path {
		d.add("path: got %q, want %q", got.path, s.Path)
	}
	if want := sent[s.BodyOf]; want != nil && !bytes.Equal(got.body, want.sent) {
		d.add("body: got %s, want what %s sent: %s", cut(got.body), s.BodyOf, cut(want.sent))
	}
	if s.Length != nil && got.length != int64(*s.Length) {
		d.add("content length: got %d, want %d", got.length, *s.Length)
	}
	for name, want := range s.Headers {
		d.lines(name, got.header.Values(name), expandAll(want, v))
	}
	for _, name := range s.Lacks {
		d.lines(name, got.header.Values(name), nil)
	}
	for name, want := range s.Trailers {
		d.lines("(trailer) "+name, got.trailer.Values(name), []string{want})
	}
	return d.list
}
