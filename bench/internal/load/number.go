package load

import "fmt"

// digits is the width of the numbers in requests: fixed, so that every request of an event is as
// long as the others. It holds 10^15.
const digits = 15

// Callback returns the parts of request n: its reqCode, taskCode and event. Tasks come in waves:
// the first event of Wave tasks, then the second of each, and so on.
func (p *Plan) Callback(n int64) (req, task, event string) {
	t, e := p.place(n)
	return fmt.Sprintf("REQ-%0*d", digits, n), fmt.Sprintf("TASK-%0*d", digits, t), p.Events[e]
}

// Body returns the body of request n.
func (p *Plan) Body(n int64) []byte {
	req, task, event := p.Callback(n)
	return fmt.Appendf(nil, `{"reqCode":%q,"taskCode":%q,"callbackMethod":%q}`, req, task, event)
}

// place returns the number of the task of request n, and which of its events it is.
func (p *Plan) place(n int64) (task, event int64) {
	events := int64(len(p.Events))
	if events == 1 {
		return n, 0
	}
	round := p.Wave * events
	at := n % round
	return n/round*p.Wave + at%p.Wave, at / p.Wave
}

// Align returns the first number from n on with which tasks begin.
func (p *Plan) Align(n int64) int64 {
	round := p.Wave * int64(len(p.Events))
	return (n + round - 1) / round * round
}

// template is an encoded request of one event; req, task and key are where its numbers stand. key
// is 0 where there is none.
type template struct {
	text           []byte
	req, task, key int
}

// templates encodes one request an event.
func (p *Plan) templates() []template {
	out := make([]template, len(p.Events))
	for i := range p.Events {
		one := *p
		one.Events = p.Events[i : i+1]
		body := one.Body(0)
		text := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\n"+
			"Content-Type: application/json\r\nContent-Length: %d\r\n", p.Path, p.Addr, len(body))
		if p.Header != "" {
			text = append(append(text, p.Header...), "\r\n"...)
		}
		key := 0
		if p.Keyed {
			req, _, _ := one.Callback(0)
			from := len(text)
			text = fmt.Appendf(text, "Idempotency-Key: %q\r\n", req)
			key = from + find(text[from:], "REQ-")
		}
		text = append(text, "\r\n"...)
		begin := len(text)
		text = append(text, body...)
		out[i] = template{text, begin + find(body, "REQ-"), begin + find(body, "TASK-"), key}
	}
	return out
}

// find returns the place behind a text.
func find(body []byte, text string) int {
	for i := range body {
		if i+len(text) <= len(body) && string(body[i:i+len(text)]) == text {
			return i + len(text)
		}
	}
	panic("load: the body lacks " + text)
}

// encode writes request n into buf and returns its bytes and the part by which its reply is known.
func (p *Plan) encode(all []template, buf []byte, n int64) (text, id []byte) {
	task, event := p.place(n)
	t := &all[event]
	text = append(buf[:0], t.text...)
	putNumber(text[t.req:t.req+digits], n)
	putNumber(text[t.task:t.task+digits], task)
	if t.key > 0 {
		putNumber(text[t.key:t.key+digits], n)
	}
	return text, text[t.req-len("REQ-") : t.req+digits]
}

func putNumber(b []byte, n int64) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = byte('0' + n%10)
		n /= 10
	}
}
