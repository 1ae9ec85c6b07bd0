package webhook

import (
	"errors"
	"net/netip"
	"strings"
)

// ClientNames verifies that the sender has shown a certificate with one of some names. The TLS
// layer has to have verified the certificate.
type ClientNames struct{ names map[string]bool }

// NewClientNames returns a verifier of the names in a client's certificate. They are compared as a
// whole and without regard to case.
func NewClientNames(names ...string) (*ClientNames, error) {
	v := &ClientNames{map[string]bool{}}
	for _, name := range names {
		if name == "" {
			return nil, errors.New("a name is empty")
		}
		v.names[strings.ToLower(name)] = true
	}
	if len(names) == 0 {
		return nil, errors.New("no name of a client is accepted")
	}
	return v, nil
}

// Verify returns nil if the certificate has one of the names.
func (v *ClientNames) Verify(r *Request) error {
	if len(r.ClientNames) == 0 {
		return &Error{Missing, "the sender has shown no client certificate that is trusted"}
	}
	for _, name := range r.ClientNames {
		if v.names[strings.ToLower(name)] {
			return nil
		}
	}
	return &Error{Mismatch, "the client certificate has none of the accepted names"}
}

// Needs returns the names.
func (v *ClientNames) Needs() Needs { return NeedsClientNames }

// Peers verifies that the sender's address is in a list of networks.
type Peers struct{ list []netip.Prefix }

// NewPeers returns a verifier of the sender's address. An IPv4 address that is written as an IPv6
// one (::ffff:192.0.2.1) is the IPv4 address.
func NewPeers(networks ...netip.Prefix) (*Peers, error) {
	v := &Peers{}
	for _, p := range networks {
		if !p.IsValid() {
			return nil, errors.New("a network is not valid")
		}
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		v.list = append(v.list, p.Masked())
	}
	if len(v.list) == 0 {
		return nil, errors.New("no network is accepted")
	}
	return v, nil
}

// Verify returns nil if the address is in one of the networks.
func (v *Peers) Verify(r *Request) error {
	if !r.Peer.IsValid() {
		return &Error{Missing, "the sender's address is not known"}
	}
	peer := r.Peer.Unmap().WithZone("")
	for _, p := range v.list {
		if p.Contains(peer) {
			return nil
		}
	}
	return &Error{Mismatch, "the sender's address " + peer.String() + " is not on the list"}
}

// Needs returns the address.
func (v *Peers) Needs() Needs { return NeedsPeer }
