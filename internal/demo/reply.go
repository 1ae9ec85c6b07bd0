package demo

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"

	"github.com/oncekit/once/internal/demo/model"
)

// What plant.yaml says to senders; a test compares them. A duplicate and a conflict have no reply
// of their own there, so they get that of an accepted callback.
const (
	acceptedCode, acceptedMessage       = "0", "Success"
	unavailableCode, unavailableMessage = "99", "try again"
)

// misreply says what is wrong with a reply to a callback, in one line; empty: nothing is. A server
// that can't take a message may not have read it, and then it names no request.
func misreply(c *model.Callback, status int, body []byte) string {
	want := map[string]any{"code": acceptedCode, "message": acceptedMessage, "reqCode": c.Request}
	switch status {
	case http.StatusOK:
	case http.StatusServiceUnavailable:
		want["code"], want["message"] = unavailableCode, unavailableMessage
	default:
		return fmt.Sprintf("the status is %d, and should be %d or %d", status, http.StatusOK,
			http.StatusServiceUnavailable)
	}
	var got map[string]any
	if err := json.Unmarshal(body, &got); err != nil {
		return fmt.Sprintf("the body of the %d is no JSON object: %.200q", status, body)
	}
	if status == http.StatusServiceUnavailable && got["reqCode"] == "" {
		want["reqCode"] = ""
	}
	if !maps.Equal(got, want) {
		should, err := json.Marshal(want)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("the body of the %d is %.200q, and should be %s", status, body, should)
	}
	return ""
}
