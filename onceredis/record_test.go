package onceredis

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/oncekit/once"
)

// layout is a record written by hand from the table in script.go.
var layout = "1ch0t" +
	"\x00\x06\x5b\xfe\xda\x25\xe0\x01" + // 1790000000000001
	"\x00\x06\x5b\xfe\xda\x25\xe0\x02" +
	"\x00\x06\x5b\xfe\xda\x25\xe0\x03" +
	"\x00\x06\x5b\xfe\xda\x25\xe0\x04" +
	"\x00\x06\x5b\xfe\xda\x25\xe0\x05" +
	"\x00\x00\x00\x00\xd6\x93\xa4\x00" + // 3600000000
	"\x00\x00\x00\x07" + "\x00\x07" + "\x00\x00\x00\x02" +
	strings.Repeat("f", 33) + strings.Repeat("o", 16) + "\x02ke\x01r\x01s" + "dd"

func TestTheLayoutOfARecord(t *testing.T) {
	t.Parallel()
	h, err := parseHeader(layout)
	want := header{
		state: 'c', policy: 'h', kind: once.Tombstone, fence: 1790000000000001,
		claimed: 1790000000000002, lease: 1790000000000003, finished: 1790000000000004,
		last: 1790000000000005, retention: 3600000000, attempt: 7, notes: 7, size: 2,
		fingerprint: once.Fingerprint([]byte(strings.Repeat("f", 33))),
	}
	if err != nil || h != want {
		t.Errorf("got %+v, %v, want %+v", h, err, want)
	}
	if got := h.expires(); got != 1790000000000005+3600000000+225000000 {
		t.Errorf("expires at %d, want an hour and a 16th after the last arrival", got)
	}
	note, err := decodeNote([]byte(layout[headerSize : headerSize+7]))
	if err != nil || note.Key != "ke" || note.Request != "r" ||
		!slices.Equal(note.Scope, []string{"s"}) {
		t.Errorf("note %q, %v", note, err)
	}
}

func FuzzParseHeader(f *testing.F) {
	f.Add(layout)
	f.Add(layout[:headerSize-1])
	f.Add("")
	f.Fuzz(func(t *testing.T, v string) {
		h, err := parseHeader(v)
		if err != nil {
			if !errors.Is(err, once.ErrCorrupt) {
				t.Errorf("%v, want ErrCorrupt", err)
			}
			return
		}
		if h.fence < 0 || h.notes < 0 || h.notes > 65535 || h.size < 0 || h.attempt < 0 {
			t.Errorf("%+v has a number out of its bounds", h)
		}
	})
}

func FuzzNote(f *testing.F) {
	f.Add("key", "POST /orders", "tenant", "a\x00b")
	f.Add("", "", "", "")
	f.Add(strings.Repeat("k", 300), "\xff", strings.Repeat("é", 129), "")
	f.Fuzz(func(t *testing.T, key, request, a, b string) {
		encoded := encodeNote(once.Note{Key: key, Request: request, Scope: []string{a, b}})
		got, err := decodeNote(encoded)
		if err != nil || len(got.Scope) != 2 || !strings.HasPrefix(key, got.Key) ||
			len(got.Key) != min(len(key), 256) || len(got.Scope[0]) != min(len(a), 256) ||
			!strings.HasPrefix(b, got.Scope[1]) || !strings.HasPrefix(request, got.Request) {
			t.Errorf("%q of %q %q %q %q: %v", got, key, request, a, b, err)
		}
		if again := encodeNote(got); !bytes.Equal(again, encoded) {
			t.Errorf("%q is written as %q", encoded, again)
		}
		_, err = decodeNote([]byte(key))
		if err != nil && !errors.Is(err, once.ErrCorrupt) {
			t.Errorf("%v, want ErrCorrupt", err)
		}
	})
}
