package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// writeJSON writes a value, indented for the people who read it.
func writeJSON(w http.ResponseWriter, status int, contentType string, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return fmt.Errorf("encode answer: %w", err)
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(b.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // a caller that hung up gets nothing
	return nil
}

// texts returns the list itself, empty instead of nil, so that it is never written as null.
func texts(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
