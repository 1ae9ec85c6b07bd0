// Package peers tries the middleware in chi, whose routes share paths, and with a WebSocket library
// that takes connections over.
package peers
