package inbox

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/value"
	"github.com/oncekit/once/queue"
)

// live returns the bytes that are in use.
func live() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestWhatABodyIsDecodedToIsEstimatedHighEnough(t *testing.T) {
	object := &strings.Builder{}
	for i := range 20000 {
		fmt.Fprintf(object, `"m%d":%d,`, i, i)
	}
	for shape, text := range map[string]string{
		"lists":   "[" + strings.Repeat("[],", 50000) + "0]",
		"nested":  "[" + strings.Repeat("[[[[0]]]],", 20000) + "0]",
		"objects": "[" + strings.Repeat(`{"a":0},`, 50000) + "0]",
		"numbers": "[" + strings.Repeat("0,", 100000) + "0]",
		"texts":   "[" + strings.Repeat(`"ab",`, 100000) + "0]",
		"large":   "[" + strings.Repeat("9007199254740993.5,", 50000) + "0]",
		"members": "{" + object.String() + `"z":0}`,
		"callbacks": "[" + strings.Repeat(`{"reqCode":"R1","taskCode":"T1","method":"end",`+
			`"robotCode":"6001","podCode":"","x":"3000","y":"21999","data":""},`, 5000) + "0]",
	} {
		before := live()
		v, err := value.Decode([]byte(text), value.Limits{Depth: 64})
		if err != nil {
			t.Fatalf("%s: %v", shape, err)
		}
		took := live() - before
		runtime.KeepAlive(v)
		if cost := decodedCost([]byte(text)) + int64(len(text)); took > cost {
			t.Errorf("%s: %d bytes of text take %d bytes, estimated at %d", shape, len(text), took,
				cost)
		}
	}
}

func TestABodyOfVeryManyValuesIsRefusedBeforeItFillsTheMemory(t *testing.T) {
	source := &Source{Name: "s",
		Route: func(*Message, string) (Route, error) { return Route{}, nil },
		Key:   func(*Message) (once.Key, error) { return once.KeyOf("k") },
		Fingerprint: func(m *Message) (once.Fingerprint, error) {
			return once.FingerprintRaw(m.Raw), nil
		}}
	rc, err := New(nobody{}, []*Source{source}, Config{MaxInFlightBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]int{
		"[" + strings.Repeat(`{"a":0},`, 2000) + "0]": http.StatusRequestEntityTooLarge,
		"[" + strings.Repeat(`{"a":0},`, 500) + "0]":  http.StatusServiceUnavailable, // the store's
	} {
		w := httptest.NewRecorder()
		rc.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/in/s", strings.NewReader(text)))
		if w.Code != want {
			t.Errorf("%d bytes: status %d, want %d: %s", len(text), w.Code, want, w.Body)
		}
		if n := rc.inFlight.Load(); n != 0 {
			t.Errorf("%d bytes are still taken", n)
		}
	}
}

// nobody is a store that can't be written.
type nobody struct{ queue.Appender }
