package inbox

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/oncekit/once/internal/value"
)

const (
	typeJSON = "application/json"
	typeForm = "application/x-www-form-urlencoded"

	// wantContent and wantForm are what a message may say of its content.
	wantContent = "application/json, another +json, text/json, text/plain, or none"
	wantForm    = typeForm + ", or none"

	// maxShownType bounds the content type in a reason, in bytes.
	maxShownType = 100
)

// typeProblem returns why a message's content can't be what its source takes, JSON or a form;
// empty: it can. Absent and text/plain are taken for JSON, since robots send all sorts. JSON
// between systems is UTF-8 (RFC 8259, section 8.1), and so is a form (URL Standard, section 5.1);
// another charset is refused, since its letters would be taken for others, unless there are none:
// many a library writes the charset of its platform above plain ASCII.
func typeProblem(h http.Header, form bool, content []byte) string {
	types := h["Content-Type"]
	switch {
	case len(types) == 0, len(types) == 1 && !form && types[0] == typeJSON:
		return ""
	case len(types) > 1:
		return "wrong content type: it is given more than once"
	}
	ok, want := isJSONType, wantContent
	if form {
		ok, want = isFormType, wantForm
	}
	switch t := types[0]; {
	case !ok(t):
		return fmt.Sprintf("wrong content type: got %q, want %s", cutText(t, maxShownType), want)
	case !isUTF8(t) && !(likeASCII(t) && isASCII(content)):
		return fmt.Sprintf("wrong charset: got %q, want utf-8", cutText(t, maxShownType))
	}
	return ""
}

func mediaType(t string) string {
	t, _, _ = strings.Cut(t, ";")
	return strings.ToLower(strings.TrimSpace(t))
}

func isJSONType(t string) bool {
	t = mediaType(t)
	switch t {
	case "", typeJSON, "text/json", "text/plain":
		return true
	}
	return strings.Contains(t, "/") && strings.HasSuffix(t, "+json")
}

func isFormType(t string) bool {
	t = mediaType(t)
	return t == "" || t == typeForm
}

// likeASCII reports whether the first 128 characters of a content type's charset are those of
// ASCII.
func likeASCII(t string) bool {
	_, params, err := mime.ParseMediaType(t)
	if err != nil {
		return false
	}
	charset := strings.ToLower(params["charset"])
	for _, family := range []string{"iso-8859-", "windows-125", "cp125"} {
		if strings.HasPrefix(charset, family) {
			return true
		}
	}
	switch charset {
	case "latin1", "gbk", "gb2312", "gb18030", "big5", "euc-jp", "euc-kr", "koi8-r":
		return true
	}
	return false
}

func isASCII(content []byte) bool {
	for _, c := range content {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// isUTF8 reports whether a content type names no charset, UTF-8, or the part of it that is ASCII.
// Parameters that can't be read name none.
func isUTF8(t string) bool {
	if !strings.Contains(t, ";") {
		return true
	}
	_, params, err := mime.ParseMediaType(t)
	if err != nil {
		return !strings.Contains(strings.ToLower(t), "charset")
	}
	switch strings.ToLower(params["charset"]) {
	case "", "utf-8", "utf8", "us-ascii", "ascii":
		return true
	}
	return false
}

// decodeContent makes the value of a body that has no content coding any more.
func decodeContent(content []byte, form bool, depth int) (any, error) {
	switch {
	case len(content) == 0:
		return nil, errors.New("body is empty")
	case form:
		return decodeForm(content)
	}
	return value.Decode(content, value.Limits{Depth: depth})
}
