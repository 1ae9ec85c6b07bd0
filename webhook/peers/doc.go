// Package peers holds no code: its tests compare package webhook with the libraries that the
// providers publish. Where a library signs, what it signed has to be right for ours. Where it only
// verifies, both have to come to the same verdict on the same requests.
package peers
