package outbox

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/oncekit/once/internal/httpresult"
)

// classify says what a response means for the row; nil: acknowledged.
func (h *HTTP) classify(resp *http.Response, text string) *Failure {
	f := &Failure{}
	switch httpresult.Classify(resp.StatusCode) {
	case httpresult.Done:
		return nil
	case httpresult.Transient:
		f.Class = Transient
		f.RetryAfter = httpresult.RetryAfter(resp.Header, h.cfg.Now(), h.cfg.MaxRetryAfter)
	case httpresult.Pause:
		f.Class = Pause
	default:
		f.Class = Permanent
	}
	status := fmt.Sprintf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	f.Shown = "destination answered " + strings.TrimSpace(status)
	f.Err = errors.New(f.Shown)
	if text != "" {
		f.Err = fmt.Errorf("%w: %s", f.Err, text)
	}
	return f
}
