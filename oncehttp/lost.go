package oncehttp

import (
	"encoding/hex"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/oncekit/once"
)

// logLost tells that an attempt was lost, and which record to look at.
func (m *guarded) logLost(r *http.Request, work *once.Work, why string) {
	id := work.Grant().Identity
	m.cfg.Logger.LogAttrs(r.Context(), slog.LevelWarn,
		"an attempt was lost: nobody knows whether it had its effect",
		slog.String("method", r.Method), slog.String("record", hex.EncodeToString(id[:])),
		slog.Int("attempt", work.Grant().Attempt), slog.String("why", why))
}

// lostBy says how: short is what cut the answer off.
func lostBy(status int, short error) string {
	if short != nil {
		return "the answer was cut off"
	}
	return "it was answered with " + strconv.Itoa(status)
}
