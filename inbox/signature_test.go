package inbox_test

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/webhook"
)

func TestSigned_OverTheDecodedBodyAndTheRawOneIsStored(t *testing.T) {
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write([]byte(finishFE)); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	for signOver, want := range map[string]int{"decoded": 200, "wire": 401} {
		v, err := webhook.NewHMAC(webhook.HMACConfig{Secrets: []string{"0123456789abcdef"},
			Header: "X-Sig", SignOver: signOver})
		if err != nil {
			t.Fatal(err)
		}
		source := rcs()
		source.Verifier = inbox.Signed(v)
		s, answer := newMemStore(), httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "/in/rcs", bytes.NewReader(zipped.Bytes()))
		r.Header.Set("Content-Encoding", "gzip")
		// printf '%s' "$finishFE" | openssl dgst -sha256 -hmac 0123456789abcdef
		r.Header.Set("X-Sig", "ca1f00bba42f43bd8ac148122a5d87dcf1a8a362dabfafa9092c3c4707ae031b")
		newReceiver(t, s, inbox.Config{}, source).ServeHTTP(answer, r)
		if answer.Code != want {
			t.Errorf("%s: answer %d %s", signOver, answer.Code, answer.Body)
		}
		if want == 200 && !bytes.Equal(s.accepted()[0].Body, zipped.Bytes()) {
			t.Errorf("stored %q", s.accepted()[0].Body)
		}
	}
}

// A body that can't be decoded is no wrong signature, and it isn't kept: nobody knows whose it is.
func TestSigned_ABodyThatCannotBeDecodedIsInvalid(t *testing.T) {
	v, err := webhook.NewHMAC(webhook.HMACConfig{Secrets: []string{"0123456789abcdef"},
		Header: "X-Sig", SignOver: "decoded"})
	if err != nil {
		t.Fatal(err)
	}
	source := rcs()
	source.Verifier = inbox.Signed(v)
	s := newMemStore()
	w := post(newReceiver(t, s, inbox.Config{}, source), "/in/rcs", finishFE,
		"Content-Encoding", "gzip", "X-Sig", "00")
	if w.Code != 400 || len(s.accepted()) != 0 || len(s.ring()) != 1 || len(s.ring()[0].Body) != 0 {
		t.Errorf("answer %d %s, ring %+v", w.Code, w.Body, s.ring())
	}
}

// I06: a callback that is worked, or worked again, is not verified again.
func TestI06_AMessageIsVerifiedOnceOnReceipt(t *testing.T) {
	verified := 0
	source := rcs()
	source.Verifier = verifyFunc(func(*inbox.Message) error { verified++; return nil })
	s := newMemStore()
	rc := newReceiver(t, s, inbox.Config{}, source)
	if w := post(rc, "/in/rcs", finishFE); w.Code != 200 || verified != 1 {
		t.Errorf("answer %d, verified %d times", w.Code, verified)
	}
	kept, err := inbox.DecodeMeta(s.accepted()[0].Meta)
	if err != nil || kept.Header.Get("Content-Type") == "" {
		t.Errorf("the headers are not kept: %+v, %v", kept, err)
	}
}
