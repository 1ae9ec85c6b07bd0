package webhook

import (
	"fmt"
	"net/http"
	"strings"
)

// one returns the only value of a header. The name is canonical.
func one(h http.Header, name string) (string, error) {
	values := h[name]
	switch {
	case len(values) == 0:
		return "", &Error{Missing, "no " + name + " header"}
	case len(values) > 1:
		return "", &Error{Doubled, fmt.Sprintf("header %s is given %d times", name, len(values))}
	case strings.TrimSpace(values[0]) == "":
		return "", &Error{Missing, "header " + name + " is empty"}
	}
	return values[0], nil
}

// fields reads a header that is a list of NAME=VALUE, such as Stripe's t=1492774577,v1=5257a8….
// Blanks around a field are dropped; fields with other names are passed over.
type fields struct {
	header    string // for the reason
	separator string
	stamp     string // the name of the time stamp's field; empty: there is none
	signature string // the name of the signatures' field
}

// read returns the time stamp and appends the signatures to sigs. A time stamp that is there twice
// is refused: only one of them was signed.
func (f *fields) read(value string, sigs []string) (stamp string, _ []string, err error) {
	seen := false
	for part := range strings.SplitSeq(value, f.separator) {
		name, text, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok {
			return "", nil, &Error{Malformed, "header " + f.header + " is no list of NAME=VALUE"}
		}
		switch name {
		case f.signature:
			if sigs, err = addSignature(sigs, text, f.header); err != nil {
				return "", nil, err
			}
		case f.stamp:
			if seen {
				return "", nil, &Error{Doubled, "header " + f.header + " has two time stamps"}
			}
			stamp, seen = text, true
		}
	}
	if len(sigs) == 0 {
		return "", nil, &Error{Missing, "header " + f.header + " has no signature " + f.signature}
	}
	return stamp, sigs, nil
}

// maxSignatures bounds the signatures of one header, so that one request costs no more than so many
// comparisons. Senders give one for each secret that is valid.
const maxSignatures = 16

func addSignature(sigs []string, text, header string) ([]string, error) {
	if len(sigs) == maxSignatures {
		return nil, &Error{Malformed,
			fmt.Sprintf("header %s has more than %d signatures", header, maxSignatures)}
	}
	return append(sigs, text), nil
}

// splitList reads a header that is a list of signatures between separators, each with a prefix,
// such as webhook-signature: "v1,K5oZ… v1,9n2f…". Those with another prefix are passed over.
func splitList(header, value, separator, prefix string, sigs []string) ([]string, error) {
	var err error
	for part := range strings.SplitSeq(value, separator) {
		text, ok := strings.CutPrefix(strings.TrimSpace(part), prefix)
		if !ok {
			continue
		}
		if sigs, err = addSignature(sigs, text, header); err != nil {
			return nil, err
		}
	}
	if len(sigs) == 0 {
		return nil, &Error{Malformed,
			"header " + header + " has no signature that begins with " + prefix}
	}
	return sigs, nil
}
