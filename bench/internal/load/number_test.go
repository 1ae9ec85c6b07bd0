package load

import "testing"

func TestTasksComeInWaves(t *testing.T) {
	p := Plan{Events: []string{"a", "b", "c"}, Wave: 2}
	want := []string{"0a", "1a", "0b", "1b", "0c", "1c", "2a", "3a", "2b"}
	for n, w := range want {
		task, event := p.place(int64(n))
		if got := string(rune('0'+task)) + p.Events[event]; got != w {
			t.Errorf("number %d is %s, want %s", n, got, w)
		}
	}
	for n, want := range map[int64]int64{0: 0, 1: 6, 6: 6, 7: 12} {
		if got := p.Align(n); got != want {
			t.Errorf("tasks begin with %d after %d, want %d", got, n, want)
		}
	}
}

func TestARequestIsEncodedAsItsBodySays(t *testing.T) {
	p := Plan{Addr: "127.0.0.1:80", Path: "/in/rcs", Events: RobotEvents(), Wave: 1024}
	templates := p.templates()
	text, id := p.encode(templates, nil, 1024)
	want := "POST /in/rcs HTTP/1.1\r\nHost: 127.0.0.1:80\r\nContent-Type: application/json\r\n" +
		"Content-Length: 94\r\n\r\n" +
		`{"reqCode":"REQ-000000000001024","taskCode":"TASK-000000000000000",` +
		`"callbackMethod":"station"}`
	if string(text) != want {
		t.Errorf("encoded\n%q\nwant\n%q", text, want)
	}
	if string(id) != "REQ-000000000001024" {
		t.Errorf("it is known by %q", id)
	}
	if got := string(p.Body(1024)); got != want[len(want)-len(got):] {
		t.Errorf("the body is %q", got)
	}
}

func TestAKeyedRequestBearsItsNumberAsKey(t *testing.T) {
	p := Plan{Addr: "127.0.0.1:80", Path: "/orders", Events: []string{"finish"}, Wave: 1,
		Keyed: true, Header: "X-Account: 17"}
	text, id := p.encode(p.templates(), nil, 4711)
	want := "POST /orders HTTP/1.1\r\nHost: 127.0.0.1:80\r\nContent-Type: application/json\r\n" +
		"Content-Length: 93\r\nX-Account: 17\r\n" +
		"Idempotency-Key: \"REQ-000000000004711\"\r\n\r\n" +
		`{"reqCode":"REQ-000000000004711","taskCode":"TASK-000000000004711",` +
		`"callbackMethod":"finish"}`
	if string(text) != want {
		t.Errorf("encoded\n%q\nwant\n%q", text, want)
	}
	if string(id) != "REQ-000000000004711" {
		t.Errorf("it is known by %q", id)
	}
}
